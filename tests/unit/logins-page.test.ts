// The functions of docs/logins.md for Azure and Google Cloud, exactly as on the page: each against a scripted token
// service, and with a pool that logs in by its token.
import { createServer, type RequestListener, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { transform } from "esbuild";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Password } from "../../js/config/options.ts";
import { createPool } from "../../js/pool/pool.ts";
import { fencesOf } from "../packaging/fences.ts";
import { Server } from "../simulation/server/server.ts";
import { clock, listen, newDice } from "../support/model-host.ts";

/** Compiles the function of this name from a block of the page. */
async function ofPage(name: string): Promise<(...given: string[]) => unknown> {
  const fence = fencesOf("docs/logins.md").find(({ code }) => code.includes(`function ${name}(`));
  const { code } = await transform(`${fence!.code}\nexport { ${name} };`, { loader: "ts" });
  const module = (await import(`data:text/javascript,${encodeURIComponent(code)}`)) as Record<string, unknown>;
  return module[name] as (...given: string[]) => unknown;
}

interface Asked {
  readonly method: string;
  /** The URL as the function wrote it. */
  readonly url: string;
  readonly flavor: string | undefined;
  readonly body: string;
}

const asked: Asked[] = [];
let answer: { status: number; body: object };
let service: HttpServer;
let original: string;

beforeEach(async () => {
  asked.length = 0;
  const listener: RequestListener = (request, response) => {
    let body = "";
    request.on("data", (piece: Buffer) => (body += piece.toString()));
    request.on("end", () => {
      const { method = "", headers } = request;
      asked.push({ method, url: original, flavor: headers["metadata-flavor"] as string | undefined, body });
      response.writeHead(answer.status, { "content-type": "application/json" }).end(JSON.stringify(answer.body));
    });
  };
  service = createServer(listener);
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  const { port } = service.address() as AddressInfo;
  const real = globalThis.fetch;
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    original = url;
    const { pathname, search } = new URL(url);
    return real(`http://127.0.0.1:${port}${pathname}${search}`, init);
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
  service.close();
});

const TOKEN = "eyJ0eXAiOiJKV1QifQ.eyJzdWIiOiJhcHAifQ.c2ln";

/** Checks that a pool logs in to a server with the token, and how it fails when the service fails. */
async function logsIn(password: Password): Promise<void> {
  const roles = { app: { password: TOKEN } };
  listen(new Server(clock, newDice(), { version: 18, authentication: "password", maxConnections: 10, roles }));
  const place = { host: "memory", user: "app", sslmode: "disable", allowCleartextPassword: true } as const;
  answer = { status: 200, body: { token_type: "Bearer", access_token: TOKEN, expires_in: 3599 } };
  await using pool = createPool({ ...place, password });
  expect((await pool.query("select current_user::text as name")).rows).toEqual([{ name: "app" }]);
  answer = { status: 503, body: { error: "later" } };
  await using other = createPool({ ...place, password });
  const error = await other.query("select 1").catch((one: unknown) => one);
  expect(error).toMatchObject({ code: "PASSWORD_FUNCTION_FAILED", cause: { message: expect.stringMatching(/503$/) } });
}

test("Azure: a token is requested by client credentials", async () => {
  const entraPassword = await ofPage("entraPassword");
  await logsIn(entraPassword("my-tenant", "my-id", "s3cret&=") as Password);
  const [{ method, url, body } = {} as Asked] = asked;
  expect([method, url]).toEqual(["POST", "https://login.microsoftonline.com/my-tenant/oauth2/v2.0/token"]);
  expect(Object.fromEntries(new URLSearchParams(body))).toEqual({
    grant_type: "client_credentials",
    client_id: "my-id",
    client_secret: "s3cret&=",
    scope: "https://ossrdbms-aad.database.windows.net/.default",
  });
});

test("Google Cloud: a token is requested from the metadata server", async () => {
  const googlePassword = await ofPage("googlePassword");
  await logsIn(googlePassword as () => Promise<string>);
  const [{ method, url, flavor } = {} as Asked] = asked;
  expect([method, flavor]).toEqual(["GET", "Google"]);
  expect(url).toBe(
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token" +
      "?scopes=https://www.googleapis.com/auth/sqlservice.login",
  );
});

test("each function returns when its token expires", async () => {
  answer = { status: 200, body: { access_token: TOKEN, expires_in: 3599 } };
  const functions = [(await ofPage("entraPassword"))("t", "i", "s"), await ofPage("googlePassword")];
  vi.useFakeTimers({ toFake: ["Date"], now: 2e12 });
  afterAll(() => void vi.useRealTimers());
  for (const password of functions as (() => Promise<object>)[])
    expect(await password()).toEqual({ password: TOKEN, expiresAt: 2e12 + 3_599_000 });
});
