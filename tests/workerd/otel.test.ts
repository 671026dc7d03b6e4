// Spans in workerd: the runtime's own, as a streaming tail Worker sees them, and those of OpenTelemetry's SDK.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "./host.mjs";

const server = testServers().servers[0]!;
const url = `${server.url.split("?")[0]}?sslmode=disable`;
const entry = fileURLToPath(new URL("fixture/otel-worker.ts", import.meta.url));
const isOld = process.env["PGZ_TEST_WORKERD"] === "node-20";

/** The spans that the calls of the Worker must make. */
const SPANS = [
  ["SELECT pg_catalog.pg_class", "select $1::text as t from pg_catalog.pg_class limit 1"],
  ["SELECT", "select ?::int4"],
  ["BATCH SELECT", "select ?; select ?"],
  ["SELECT", "select generate_series(?, ?) as n"],
];

const TAIL = `
const spans = new Map();
export default {
  fetch: () => Response.json([...spans.values()]),
  tailStream: () => ({ event, spanContext }) => {
    const { type, info } = event;
    if (type === "spanOpen") spans.set(event.spanId, { name: event.name, parent: spanContext.spanId, attributes: {} });
    const span = spans.get(spanContext?.spanId);
    if (!span) return;
    if (type === "attributes") for (const { name, value } of info)
      span.attributes[name] = typeof value === "bigint" ? Number(value) : value;
    if (type === "spanUpdate") Object.assign(span, { status: info.status });
    if (type === "exception") span.exception = event;
    if (type === "spanClose") span.closed = (span.closed ?? 0) + 1;
  },
};`;

interface Seen {
  name: string;
  attributes: Record<string, unknown>;
  status?: { code: string };
  closed?: number;
}

test("calls are spans of the runtime, where it has spans, and hold no secret", async () => {
  const options = isOld
    ? { compatibilityFlags: ["nodejs_compat"] }
    : { compatibilityFlags: ["nodejs_compat"], tail: TAIL };
  const worker = await startWorker({ entry, options });
  try {
    const answer = await fetch(`${worker.url}native`, { method: "POST", body: JSON.stringify({ url }) });
    expect(await answer.json()).toEqual([]);
    if (isOld) return;
    await expect.poll(async () => (await seen(worker.url)).filter(({ closed }) => closed).length).toBe(SPANS.length);
    const spans = await seen(worker.url);
    expect(spans.map(({ name, attributes }) => [name, attributes["db.query.text"]])).toEqual(SPANS);
    expect(spans.map(({ closed }) => closed)).toEqual([1, 1, 1, 1]);
    expect(spans.map(({ status }) => status?.code)).toEqual([undefined, "error", undefined, undefined]);
    expect(spans[0]!.attributes).toMatchObject({
      "db.system.name": "postgresql",
      "db.namespace": server.database,
      "db.operation.name": "SELECT",
      "db.response.returned_rows": 1,
    });
    expect(spans[1]!.attributes).toMatchObject({ "error.type": "22P02", "db.response.status_code": "22P02" });
    expect(spans[2]!.attributes).toMatchObject({ "db.operation.batch.size": 2 });
    expect(JSON.stringify(spans)).not.toMatch(/secret/);
    expect(JSON.stringify(spans)).not.toContain(server.password);
  } finally {
    await worker.stop();
  }
});

/** Returns the spans without those of the runtime: of sockets, and of these requests. */
async function seen(worker: string): Promise<Seen[]> {
  const spans = (await (await fetch(`${worker}seen`)).json()) as Seen[];
  return spans.filter(({ attributes }) => "db.system.name" in attributes);
}

test("calls are spans of OpenTelemetry's SDK in workerd with nodejs_compat", async () => {
  const worker = await startWorker({ entry, options: { compatibilityFlags: ["nodejs_compat"] } });
  try {
    const answer = await fetch(`${worker.url}sdk`, { method: "POST", body: JSON.stringify({ url }) });
    const spans = (await answer.json()) as (Seen & { hasParent: boolean })[];
    const [request, ...others] = [spans.at(-1)!, ...spans.slice(0, -1)];
    expect(request).toMatchObject({ name: "request", hasParent: false });
    expect(others.map(({ name, attributes }) => [name, attributes["db.query.text"]])).toEqual(SPANS);
    expect(others.map(({ hasParent }) => hasParent)).toEqual([true, true, true, true]);
    expect(JSON.stringify(spans)).not.toMatch(/secret/);
  } finally {
    await worker.stop();
  }
});
