// Several hosts over sockets in memory: which host is chosen, what is sent to a host that is left, and how each is
// reported.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createClient, type Client } from "../../js/api/client.ts";
import type { Options, TargetSessionAttrs } from "../../js/config/options.ts";
import { knownServer } from "../../js/server/known-server.ts";
import { serversOf } from "../../js/config/hosts.ts";
import { connectFailed, type ConnectOptions } from "../../js/runtime/contract.ts";
import { installRuntime, runtime } from "../../js/runtime/runtime.ts";
import { memoryPair } from "../../js/runtime/memory.ts";
import { ConnectionError } from "../../js/util/errors.ts";
import type { ConnectEvent, Observer } from "../../js/util/observer.ts";
import { of } from "./config-input.ts";
import { failure, install, quiet, Session } from "../support/memory-session.ts";
import { errorResponse, fatal, loginAnswer } from "../support/server-messages.ts";
import { until } from "../support/until.mjs";
import * as wire from "../support/wire.mjs";

/** What a host does: refuses the connection, never answers, or accepts the login and reports these parameters. */
type Behaviour = "refuses" | "silent" | { reports?: Record<string, string>; error?: string; answers?: string };
const PRIMARY = { reports: { in_hot_standby: "off", default_transaction_read_only: "off" } };
const STANDBY = { reports: { in_hot_standby: "on", default_transaction_read_only: "off" } };
const READ_ONLY = { reports: { in_hot_standby: "off", default_transaction_read_only: "on" } };

let hosts: Record<string, Behaviour>;
/** "host:port message message …" for each connection that was made. */
let seen: string[];
let connected: ConnectEvent[];
/** Hosts that `onDisconnect` named. A host that was left never counted as connected. */
let lost: string[];
let client: Client | undefined;

beforeEach(() => {
  [hosts, seen, connected, lost] = [{}, [], [], []];
  install(async ({ host, port, path, signal }: ConnectOptions) => {
    const name = path ?? `${host}:${port}`;
    const behaviour = hosts[name] ?? "refuses";
    if (behaviour === "refuses") throw connectFailed("tcp", "connect ECONNREFUSED");
    const { socket, peer } = memoryPair({ readsWhileIdle: true });
    if (behaviour === "silent") signal.addEventListener("abort", () => void socket.close());
    void serve(name, new Session(peer), behaviour);
    return socket;
  });
});
afterEach(() => client?.close());

async function serve(name: string, session: Session, behaviour: Exclude<Behaviour, "refuses">): Promise<void> {
  // Kept per test, because a Terminate may arrive after the next test has begun.
  const own = seen;
  const at = own.push(name) - 1;
  const next = async () => {
    const names = await session.flight();
    own[at] += ` ${names.join(" ")}`;
    return names.at(-1);
  };
  await next();
  if (behaviour === "silent") return;
  const { reports = {}, error: refusal, answers } = behaviour;
  if (refusal) return session.send(fatal(refusal));
  session.send(loginAnswer(reports));
  while ((await next()) === "Query")
    session.send(...(answers ? rowOf(answers) : [errorResponse("42883")]), wire.readyForQuery());
}

/** A row of one text, or of one boolean. */
function rowOf(answer: string): Buffer[] {
  const column = answer.length > 1 ? { name: "x", oid: 25, size: -1 } : { name: "x", oid: 16, size: 1 };
  return [wire.rowDescription([column]), wire.dataRow([Buffer.from(answer)]), wire.commandComplete("SELECT 1")];
}

const place = { user: "u", sslmode: "disable" } as const;

function open(options: Options): Promise<Client> {
  const observer: Observer = {
    onConnect: (event) => void connected.push(event),
    onDisconnect: (event) => void lost.push(event.host),
  };
  client = createClient({ ...place, observer, ...options });
  return client.open();
}

const tried = () => seen.map((text) => text.split(" ")[0]);

/** The hosts that another client has tried, up to the one that it uses. */
async function triedBy(host: string, options: Options): Promise<(string | undefined)[]> {
  seen = [];
  await open({ host, port: 1, ...options });
  const found = tried();
  await client!.close();
  return found;
}

test("the next host is tried if one refuses, is silent, or is not ready, and each is reported", async () => {
  hosts = { "b:1": "silent", "c:1": { error: "57P03" }, "d:1": { error: "53300" }, "e:1": {}, "f:1": {} };
  await open({ host: "a,b,c,d,e,f", port: 1, connectTimeout: 50 });
  expect(tried()).toEqual(["b:1", "c:1", "d:1", "e:1"]);
  expect(connected.map(({ host, error }) => [host, error?.code])).toEqual([
    ["a", "CONNECT_FAILED"],
    ["b", "CONNECT_TIMEOUT"],
    ["c", "57P03"],
    ["d", "53300"],
    ["e", undefined],
  ]);
});

test.each(["28P01", "28000", "3D000", "42501"])(
  "%s ends the attempts, because every host would answer the same",
  async (code) => {
    hosts = { "a:1": { error: code }, "b:1": {} };
    await expect(open({ host: "a,b", port: 1 })).rejects.toMatchObject({ code });
    expect(tried()).toEqual(["a:1"]);
  },
);

test("if all hosts fail, the error says for each host what went wrong", async () => {
  hosts = { "b:2": { error: "57P03" } };
  const failed = await failure(open({ host: "a,b", port: "1,2", password: "s3cret" }));
  expect(failed).toBeInstanceOf(ConnectionError);
  expect(failed).toMatchObject({
    code: "CONNECT_FAILED",
    retryable: true,
    stage: "session",
    message: "None of the hosts could be used. a:1: Could not connect: connect ECONNREFUSED. b:2: no",
    hosts: [
      { host: "a", port: 1, error: { code: "CONNECT_FAILED" } },
      { host: "b", port: 2, error: { code: "57P03" } },
    ],
  });
});

test("a single host gives its own error", async () => {
  await expect(open({ host: "a", port: 1 })).rejects.toMatchObject({ code: "CONNECT_FAILED", stage: "tcp" });
  hosts = { "a:1": STANDBY };
  await expect(open({ host: "a", port: 1, targetSessionAttrs: "primary" })).rejects.toMatchObject({
    code: "TARGET_SESSION_ATTRS",
    retryable: true,
    message: "The server is a standby, and target_session_attrs is primary.",
  });
  expect(seen).toEqual(["a:1 StartupMessage Terminate"]);
});

test.each<[TargetSessionAttrs, string]>([
  ["any", "p"],
  ["primary", "p"],
  ["read-write", "p"],
  ["standby", "s"],
  ["prefer-standby", "s"],
  ["read-only", "s"],
])("target_session_attrs=%s selects %s, whatever hosts come first", async (targetSessionAttrs, wanted) => {
  hosts = { "p:1": PRIMARY, "s:1": STANDBY };
  for (const host of ["p,s", "s,p"]) {
    const hosts = await triedBy(host, { targetSessionAttrs });
    expect(hosts.at(-1)).toBe(targetSessionAttrs === "any" ? `${host[0]}:1` : `${wanted}:1`);
    // Only the login and its end were sent to the other host.
    for (const text of seen.slice(0, -1)) expect(text).toMatch(/^\w:1 StartupMessage Terminate$/);
  }
});

test("a primary whose transactions are read-only by default counts as read-only", async () => {
  hosts = { "a:1": READ_ONLY, "b:1": PRIMARY };
  expect(await triedBy("a,b", { targetSessionAttrs: "read-write" })).toEqual(["a:1", "b:1"]);
  expect(await triedBy("a,b", { targetSessionAttrs: "primary" })).toEqual(["a:1"]);
  expect(await triedBy("b,a", { targetSessionAttrs: "read-only" })).toEqual(["b:1", "a:1"]);
});

test("prefer-standby accepts a primary in a second pass if no standby exists, a single host at once", async () => {
  hosts = { "a:1": PRIMARY, "c:1": PRIMARY };
  expect(await triedBy("a,b,c", { targetSessionAttrs: "prefer-standby" })).toEqual(["a:1", "c:1", "a:1"]);
  expect(await triedBy("a", { targetSessionAttrs: "prefer-standby" })).toEqual(["a:1"]);
  expect(seen[0]).toMatch(/^a:1 StartupMessage( Terminate)?$/);
});

test.each<[TargetSessionAttrs, string, boolean]>([
  ["primary", "f", true],
  ["primary", "t", false],
  ["standby", "t", true],
  ["standby", "f", false],
  ["read-write", "off", true],
  ["read-write", "on", false],
  ["read-only", "on", true],
  ["read-only", "off", false],
])("a server that does not report its state is asked: %s, %s", async (targetSessionAttrs, answers, suits) => {
  hosts = { "a:1": { answers } };
  const opening = open({ host: "a", port: 1, targetSessionAttrs });
  if (suits) await opening;
  else await expect(opening).rejects.toMatchObject({ code: "TARGET_SESSION_ATTRS" });
  expect(seen[0]).toMatch(/^a:1 StartupMessage Query/);
});

test("a host that does not answer the query is left, and the reason is kept", async () => {
  hosts = { "a:1": {}, "b:1": PRIMARY };
  await open({ host: "a,b", port: 1, targetSessionAttrs: "primary" });
  expect(connected[0]!.error).toMatchObject({ code: "TARGET_SESSION_ATTRS", cause: { code: "42883" } });
});

test("a query that is never answered counts against the host's deadline", async () => {
  hosts = { "a:1": { answers: "t" }, "b:1": PRIMARY };
  using _ = { [Symbol.dispose]: () => void vi.restoreAllMocks() };
  vi.spyOn(Session.prototype, "send").mockImplementation(function (this: Session, ...messages: Uint8Array[]) {
    const text = Buffer.concat(messages);
    if (!text.includes("SELECT 1")) this.peer.send(text);
  });
  await open({ host: "a,b", port: 1, targetSessionAttrs: "primary", connectTimeout: 50 });
  expect(connected.map((event) => event.error?.code)).toEqual(["CONNECT_TIMEOUT", undefined]);
  expect(lost).toEqual([]);
});

test("an early query is sent only to the last host, and never before the server's role is known", async () => {
  hosts = { "a:1": { error: "57P03" }, "b:1": PRIMARY };
  const run = async (options: Options) => {
    seen = [];
    client = createClient({ ...place, port: 1, earlyQuery: true, firstRun: "describe", ...options });
    client.query("select 1").catch(() => {});
    await until(() => seen.at(-1)?.includes("Sync") === true, "the query has been sent");
    await client.close();
    return seen;
  };
  expect((await run({ host: "a,b" }))[0]).toBe("a:1 StartupMessage");
  hosts = { "a:1": STANDBY, "b:1": PRIMARY };
  const [refused, taken] = await run({ host: "a,b", targetSessionAttrs: "primary" });
  expect(refused).toBe("a:1 StartupMessage Terminate");
  expect(taken).toMatch(/^b:1 StartupMessage Parse/);
});

test("load_balance_hosts=random starts at a random host, and anew for each connect", async () => {
  for (const name of "abcd") hosts[`${name}:1`] = {};
  const begun = new Set<string>();
  for (let time = 0; time < 60; time++)
    for (const host of await triedBy("a,b,c,d", { loadBalanceHosts: "random" })) begun.add(host!);
  expect([...begun].sort()).toEqual(["a:1", "b:1", "c:1", "d:1"]);
  expect(await triedBy("a,b,c,d", {})).toEqual(["a:1"]);
});

test("an abort ends all attempts", async () => {
  hosts = { "a:1": "silent", "b:1": {} };
  const controller = new AbortController();
  const opening = open({ host: "a,b", port: 1, signal: controller.signal });
  await quiet();
  controller.abort("enough");
  await expect(opening).rejects.toMatchObject({ code: "ABORTED" });
  expect(tried()).toEqual(["a:1"]);
});

test("two hosts share no cached descriptions", () => {
  const config = of({ user: "u", host: "a,b", port: "1,2" });
  const [a, b] = serversOf(config);
  expect(serversOf(config)[1]).toBe(b);
  expect(knownServer(a!)).not.toBe(knownServer(b!));
  expect(knownServer(a!)).toBe(knownServer(of({ user: "u", host: "a", port: 1 })));
});

test("a Unix socket is named by its folder and port, and is refused on a runtime without them", async () => {
  hosts = { "/run/pg/.s.PGSQL.6000": PRIMARY };
  // The memory runtime has none.
  await expect(open({ host: "/run/pg", port: 6_000 })).rejects.toMatchObject({ code: "UNSUPPORTED_ON_RUNTIME" });
  expect(seen).toEqual([]);
});

test("a client's defaults come from the runtime's environment", async () => {
  hosts = { "a:1": PRIMARY };
  const variables: Record<string, string> = { PGHOST: "a", PGPORT: "1", PGUSER: "u" };
  installRuntime({ ...runtime(), environment: (name) => variables[name] });
  client = createClient({ sslmode: "disable" });
  await client.open();
  expect(tried()).toEqual(["a:1"]);
  expect(() => createClient({ environment: false })).toThrow('"user"');
});

test("ignored parts of a connection string are reported once", async () => {
  hosts = { "a:1": PRIMARY };
  const notices: unknown[] = [];
  client = createClient("postgres://u@a:1/d?sslmode=disable&tcp_user_timeout=9", {
    observer: { onNotice: (notice) => void notices.push(notice) },
  });
  await client.open();
  expect(notices).toEqual([{ severity: "NOTICE", message: expect.stringContaining('"tcp_user_timeout" is ignored') }]);
});
