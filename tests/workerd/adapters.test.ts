// The adapters in workerd: the cases of tests/adapters. pgz-edge/pg and pgz-edge/pg-copy-streams need nodejs_compat, as
// their models do, and the others run without it.
import { describe, expect, test } from "vitest";
import { cases as aws } from "../adapters/aws-cases.ts";
import { cases as pg } from "../adapters/cases.ts";
import { cases as drizzle } from "../adapters/drizzle-cases.ts";
import { cases as drizzleV1 } from "../adapters/drizzle-v1-cases.ts";
import { cases as kysely } from "../adapters/kysely-cases.ts";
import { cases as pgCopyStreams } from "../adapters/pg-copy-streams-cases.ts";
import { cases as webSocket } from "../adapters/websocket-cases.ts";
import { testServers } from "../integration/servers.ts";
import { adapterCases } from "./use-worker.ts";

const { servers, webSockets } = testServers();
const { tls, caFile, ...server } = servers[0]!;
const plain = (url: string) => `${url.split("?")[0]}?sslmode=disable`;
const url = plain(server.url);
const superuserUrl = plain(server.superuserUrl);
const NO_NODEJS_COMPAT = { options: { compatibilityFlags: ["no_nodejs_compat"] } };
const NODEJS_COMPAT = { options: { compatibilityFlags: ["nodejs_compat"] } };

describe("aws", () => void adapterCases("aws", Object.keys(aws), () => ({ url: superuserUrl }), NO_NODEJS_COMPAT));

describe("drizzle", () => void adapterCases("drizzle", Object.keys(drizzle), () => ({ url }), NO_NODEJS_COMPAT));

describe("drizzle-v1", () => {
  adapterCases("drizzle-v1", Object.keys(drizzleV1), () => ({ url }), {
    ...NO_NODEJS_COMPAT,
    alias: { "drizzle-orm": "drizzle-orm-v1" },
  });
});

describe("kysely", () => void adapterCases("kysely", Object.keys(kysely), () => ({ url }), NO_NODEJS_COMPAT));

describe("pg", () => {
  const { ask } = adapterCases("pg", Object.keys(pg), () => ({ url }), NODEJS_COMPAT);

  test("a module-level pool answers in each request", async () => {
    for (let request = 0; request < 5; request++) expect(await ask("", { name: "pool", url })).toEqual([{ a: 1 }]);
  });
});

describe("pg-copy-streams", () => {
  adapterCases("pg-copy-streams", Object.keys(pgCopyStreams), () => ({ url, superuserUrl }), NODEJS_COMPAT);
});

// By ws:, and by wss: with the certificate that workerd is configured to trust.
describe.each(Object.entries(webSockets))("websocket by %s", (_, proxy) => {
  adapterCases("websocket", Object.keys(webSocket), () => ({ proxy, url, tls }), { caFile });
});
