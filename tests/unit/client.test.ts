// Client, queue, pump and cancel over sockets in memory, with the real wasm and a server that does exactly what a test
// says. What only real servers show is in tests/integration and tests/faults.
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createClient, type Client } from "../../js/api/client.ts";
import { installRuntime } from "../../js/sockets/runtime.ts";
import type { PgzError } from "../../js/util/errors.ts";
import type { Connector } from "../../js/sockets/contract.ts";
import { memoryListener, type Peer } from "../../js/sockets/memory.ts";
import { sql } from "../../js/statement/sql.ts";
import * as wire from "../support/wire.mjs";

/** The next call of this export traps: the instances that the driver makes have their exports wrapped. */
let trap: string | undefined;
const RealInstance = WebAssembly.Instance;
vi.stubGlobal(
  "WebAssembly",
  Object.assign(Object.create(WebAssembly) as typeof WebAssembly, {
    Instance: function (module: WebAssembly.Module, imports: WebAssembly.Imports) {
      const exports = { ...new RealInstance(module, imports).exports };
      for (const [name, call] of Object.entries(exports)) {
        if (typeof call !== "function") continue;
        exports[name] = (...given: unknown[]) => {
          if (trap !== name) return (call as (...given: unknown[]) => unknown)(...given);
          trap = undefined;
          throw new WebAssembly.RuntimeError("unreachable");
        };
      }
      return { exports };
    },
  }),
);

const wasm = readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url));
let server: ReturnType<typeof memoryListener>;
let client: Client;
let databases = 0;
const int4 = { name: "n", oid: 23, size: 4 };
const rows = (from: number, to: number) =>
  Buffer.concat(Array.from({ length: to - from }, (_, at) => wire.dataRow([wire.int32(from + at)])));
const begun = () => Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.rowDescription([int4], [1])]);
const ended = (count: number) => Buffer.concat([wire.commandComplete(`SELECT ${count}`), wire.readyForQuery()]);
const shutdown = () => wire.errorResponse({ S: "FATAL", V: "FATAL", C: "57P01", M: "terminating connection" });
const division = () => wire.errorResponse({ S: "ERROR", V: "ERROR", C: "22012", M: "division by zero" });
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function install(connect: Connector): void {
  const capabilities = { canSkipVerification: true, canUseCustomCa: true, canAlpn: true, canClientCertificate: true };
  installRuntime({ name: "node", module: () => wasm, connect, background: () => {}, capabilities });
}

beforeEach(() => {
  server = memoryListener();
  install(server.connect);
  // A database of its own, so that no test knows another's shapes.
  client = createClient({ host: "memory", user: "u", database: `d${databases++}`, sslmode: "disable" });
});
afterEach(() => client.close());

/** The server's side of one session. */
class Session {
  readonly reader = new wire.FrontendReader();
  constructor(readonly peer: Peer) {}

  /** The names of the messages up to and with the next Sync (or the message that stands for it). */
  async flight(): Promise<string[]> {
    const names: string[] = [];
    for (;;) {
      for (let message; (message = this.reader.next());) {
        names.push(message.name);
        if (/^(Sync|Query|Terminate|StartupMessage|CancelRequest|SSLRequest)$/.test(message.name)) return names;
      }
      const bytes = await this.peer.received();
      if (!bytes) return [...names, "end"];
      this.reader.push(Buffer.from(bytes));
    }
  }

  send(...messages: Uint8Array[]): void {
    this.peer.send(Buffer.concat(messages));
  }
}

async function letIn(): Promise<Session> {
  const session = new Session(await server.accepted());
  expect(await session.flight()).toEqual(["StartupMessage"]);
  session.send(wire.authenticationOk(), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
  return session;
}

/** Answers the first flight of a shape that nobody knows, and takes the second. */
async function learn(session: Session): Promise<void> {
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  expect(await session.flight()).toEqual(["Parse", "Bind", "Describe", "Execute", "Sync"]);
}

/** A session in which "select n" has run. */
async function letInKnowing(): Promise<Session> {
  const learning = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1), ended(1));
  await learning;
  return session;
}

test("a statement is learned in one flight and run in the next; a known one takes one", async () => {
  const first = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 2), ended(2));
  expect(await first).toMatchObject({ rows: [{ n: 0 }, { n: 1 }], rowCount: 2, command: "SELECT" });
  const second = client.query("select n", { rowMode: "array" });
  expect(await session.flight()).toEqual(["Parse", "Bind", "Describe", "Execute", "Sync"]);
  session.send(begun(), rows(0, 1), ended(1));
  expect((await second).rows).toEqual([[0]]);
});

test("a call has left before anything else has a turn; one that a value's own code makes meanwhile comes behind", async () => {
  const session = await letInKnowing();
  const json = (value: unknown) => client.query(sql`select ${value}::json`);
  const learningToo = json(4);
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(
    wire.parseComplete(),
    wire.parameterDescription([114]),
    wire.rowDescription([int4]),
    wire.readyForQuery(),
  );
  const execution = ["Parse", "Bind", "Describe", "Execute", "Sync"];
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(0, 1), ended(1));
  await learningToo;

  const { writes } = client.stats();
  let inner: ReturnType<Client["query"]> | undefined;
  const outer = json({
    toJSON() {
      inner ??= client.query("select n");
      return 5;
    },
  });
  expect(inner).toBeInstanceOf(Promise);
  await undefined;
  expect(client.stats().writes).toBe(writes + 1);
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(1, 2), ended(1));
  expect((await outer).rows).toEqual([{ n: 1 }]);
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(2, 3), ended(1));
  expect((await inner!).rows).toEqual([{ n: 2 }]);
});

test("an abort in the same turn as its call is a cancel, since the call has left", async () => {
  const session = await letInKnowing();
  const abort = new AbortController();
  const call = client.query("select n", { signal: abort.signal });
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED", retryable: false });
  expect(await new Session(await server.accepted()).flight()).toEqual(["CancelRequest"]);
  expect(await session.flight()).toEqual(["Parse", "Bind", "Describe", "Execute", "Sync"]);
});

test("an idle connection asks its socket for nothing", async () => {
  const query = client.exec("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), ended(0));
  await query;
  const { reads } = session.peer;
  await pause(20);
  expect(session.peer.reads).toBe(reads);
  expect(client.stats()).toMatchObject({ receivedChunks: reads });
});

test("a consumer that stops stops the reads", async () => {
  const opening = client.stream("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 20_000));
  const reader = (await opening).getReader();
  for (let chunk = 1; chunk < 10; chunk++) session.send(rows(chunk * 20_000, (chunk + 1) * 20_000));
  await pause(20);
  const { reads } = session.peer;
  expect(reads).toBeLessThan(8);
  session.send(ended(200_000));
  let text = "";
  for (let next; !(next = await reader.read()).done;) text += new TextDecoder().decode(next.value);
  expect(text.split("\n").length).toBe(200_001);
  expect(session.peer.reads).toBeGreaterThan(reads);
});

test("rows that swell wait for their consumer, a few megabytes at a time", async () => {
  const swelling = { name: "n", oid: 1700 };
  /** 1e131068: ten bytes of numeric, 131,069 digits. */
  const digits = 131_069,
    count = 200;
  const value = Buffer.concat([1, 32_767, 0, 0, 1].map((part) => wire.int16(part)));
  const opening = client.stream("select n");
  const session = await letIn();
  await session.flight();
  session.send(
    wire.parseComplete(),
    wire.parameterDescription([]),
    wire.rowDescription([swelling]),
    wire.readyForQuery(),
  );
  await session.flight();
  const { reads } = session.peer;
  const all = Array.from({ length: count }, () => wire.dataRow([value]));
  session.send(wire.parseComplete(), wire.bindComplete(), wire.rowDescription([swelling], [1]), ...all, ended(count));
  const reader = (await opening).getReader();
  await pause(20);
  let bytes = 0;
  for (let next; !(next = await reader.read()).done; bytes += next.value.length)
    expect(next.value.length).toBeLessThan((4 << 20) + 2 * digits);
  expect(bytes).toBe(count * (digits + '{"n":}\n'.length));
  expect(session.peer.reads).toBe(reads + 1);
  const next = client.query("select n");
  await session.flight();
  session.send(wire.parseComplete(), wire.bindComplete(), wire.rowDescription([int4], [1]), rows(7, 8), ended(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
});

test("an error in the chunk of the first rows finds nothing written", async () => {
  const opening = client.stream("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 3), division(), wire.readyForQuery());
  await expect(opening).rejects.toMatchObject({ code: "22012", committed: false });
});

test("an error behind CommandComplete, as of a deferred constraint, rejects too", async () => {
  const query = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1), wire.commandComplete("SELECT 1"));
  await pause(5);
  session.send(division(), wire.readyForQuery());
  await expect(query).rejects.toMatchObject({ code: "22012" });
});

test("an error after the first row errors the stream, behind whole rows", async () => {
  const opening = client.stream("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 3));
  const reader = (await opening).getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('{"n":0}\n{"n":1}\n{"n":2}\n');
  session.send(rows(3, 4), division(), wire.readyForQuery());
  await expect(reader.read()).rejects.toMatchObject({ code: "22012", committed: true });
});

test("the first rows do not wait for flushInterval, the later ones do", async () => {
  client = createClient({
    host: "memory",
    user: "u",
    database: `d${databases++}`,
    sslmode: "disable",
    flushInterval: 60_000,
  });
  const opening = client.stream("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1));
  const reader = (await opening).getReader();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('{"n":0}\n');
  session.send(rows(1, 2));
  const later = reader.read();
  expect(await Promise.race([later, pause(50)])).toBe(undefined);
  session.send(rows(2, 3), ended(3));
  expect(new TextDecoder().decode((await later).value)).toBe('{"n":1}\n{"n":2}\n');
  expect((await reader.read()).done).toBe(true);
});

test("rows that trickle do not wait for flushBytes", async () => {
  const opening = client.stream("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1));
  const reader = (await opening).getReader();
  await reader.read();
  session.send(rows(1, 2));
  const from = performance.now();
  expect(new TextDecoder().decode((await reader.read()).value)).toBe('{"n":1}\n');
  expect(performance.now() - from).toBeLessThan(500);
  session.send(ended(2));
  expect((await reader.read()).done).toBe(true);
});

test.each(["end", "reset"] as const)(
  "a connection that ends (%s) rejects the call, and the later ones at once",
  async (how) => {
    const query = client.query("select n");
    const queued = client.query("select n");
    const session = await letIn();
    await learn(session);
    session.send(begun(), rows(0, 1));
    session.peer[how]();
    await expect(query).rejects.toMatchObject({
      name: "ConnectionError",
      code: "CONNECTION_LOST",
      stage: "session",
      retryable: false,
    });
    await expect(queued).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: true });
    await expect(client.query("select n")).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: true });
  },
);

describe("while nothing is asked", () => {
  const idle = async (traits: Parameters<typeof memoryListener>[0]) => {
    server = memoryListener(traits);
    install(server.connect);
    return letInKnowing();
  };
  const ends = {
    fin: ({ peer }: Session) => peer.end(),
    rst: ({ peer }: Session) => peer.reset(),
    "a FATAL error": (session: Session) => session.send(shutdown()),
  };

  test.each(Object.keys(ends) as (keyof typeof ends)[])(
    "%s closes the client, and no byte of the next call leaves",
    async (how) => {
      const session = await idle({ readsWhileIdle: true });
      expect(client.stats().state).toBe("idle");
      const { writes } = client.stats();
      ends[how](session);
      await pause(5);
      expect(client.stats().state).toBe("closed");
      await expect(client.query("select n")).rejects.toMatchObject({
        code: "CONNECTION_LOST",
        retryable: true,
        cause: { code: how === "a FATAL error" ? "57P01" : "CONNECTION_LOST" },
      });
      expect(client.stats().writes).toBe(writes);
    },
  );

  test("notices and settings are told when they come, and the next call is like any other", async () => {
    const session = await idle({ readsWhileIdle: true });
    session.send(wire.parameterStatus("TimeZone", "Mars"));
    await pause(5);
    expect(client.parameterStatus("TimeZone")).toBe("Mars");
    const query = client.query("select n");
    await session.flight();
    session.send(begun(), rows(3, 4), ended(1));
    expect((await query).rows).toEqual([{ n: 3 }]);
    expect(session.peer.reads).toBe(client.stats().receivedChunks + 1);
  });

  test("a socket that does not allow it is not read, so the next call is what notices", async () => {
    const session = await idle({});
    const { reads } = session.peer;
    session.peer.end();
    await pause(5);
    expect(client.stats().state).toBe("idle");
    expect(session.peer.reads).toBe(reads);
    await expect(client.query("select n")).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
    expect(client.stats().state).toBe("closed");
  });

  test("a transaction between two statements hears of it", async () => {
    const session = await idle({ readsWhileIdle: true });
    const beginning = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"), begun(), rows(0, 1)];
    const transaction = client.transaction(async (tx) => {
      await tx.query("select n");
      await new Promise(() => {});
    });
    await session.flight();
    session.send(...beginning, wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
    await pause(5);
    session.send(shutdown());
    await expect(transaction).rejects.toMatchObject({ code: "57P01" });
  });
});

test.each([false, true])(
  "a client that could not connect tries again with its next call; calls that waited share the error (early query: %s)",
  async (earlyQuery) => {
    client = createClient({ host: "memory", user: "u", database: `d${databases++}`, sslmode: "disable", earlyQuery });
    const waiting = [client.query("select n"), client.exec("select n"), client.transaction(() => 1)];
    const refusing = new Session(await server.accepted());
    await refusing.flight();
    refusing.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "53300", M: "too many clients" }));
    refusing.peer.end();
    for (const one of waiting) await expect(one).rejects.toMatchObject({ code: "53300", retryable: true });
    expect(client.stats().state).toBe("new");
    await letInKnowing();
    expect(client.stats().state).toBe("idle");
  },
);

test("a FATAL error ends the connection", async () => {
  const query = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(shutdown());
  await expect(query).rejects.toMatchObject({ name: "PostgresError", code: "57P01" });
  expect(await session.flight()).toEqual(["end"]);
});

const transactions = {
  transaction: () => client.transaction(async (tx) => void (await tx.query("select n"))),
  cursor: async () => {
    for await (const batch of client.cursor("select n", 5)) expect(batch).toEqual([{ n: 0 }]);
  },
};

test.each(["transaction", "cursor"] as const)(
  "a %s whose session ends before COMMIT is answered rejects with that; one whose COMMIT was answered is committed",
  async (how) => {
    for (const answer of [[], [wire.commandComplete("COMMIT"), wire.readyForQuery()]]) {
      const session = await letInKnowing();
      const outcome = transactions[how]().then(
        () => "committed",
        (error: PgzError) => error.code,
      );
      await session.flight();
      session.send(
        wire.parseComplete(),
        wire.bindComplete(),
        wire.commandComplete("BEGIN"),
        begun(),
        rows(0, 1),
        wire.commandComplete("SELECT 1"),
        wire.readyForQuery("T"),
      );
      expect(await session.flight()).toEqual(["Query"]);
      session.send(...answer, shutdown());
      expect(await outcome).toBe(answer.length ? "committed" : "57P01");
      await client.close();
      client = createClient({ host: "memory", user: "u", database: `d${databases++}`, sslmode: "disable" });
    }
  },
);

test("a call inside a transaction rejects with what ended the connection", async () => {
  const session = await letInKnowing();
  let inside: unknown;
  const outcome = client.transaction((tx) => tx.query("select n").catch((error: unknown) => (inside = error)));
  await session.flight();
  session.send(shutdown());
  await expect(outcome).rejects.toMatchObject({ code: "57P01" });
  expect(inside).toMatchObject({ code: "57P01" });
});

test("an abort settles at once, cancels on a second socket, and the next call waits for the end of that", async () => {
  const abort = new AbortController();
  const query = client.query("select n", { signal: abort.signal });
  const session = await letIn();
  await learn(session);
  abort.abort("why");
  await expect(query).rejects.toMatchObject({ name: "AbortError", code: "ABORTED", cause: "why", retryable: false });
  const next = client.query("select n");
  const cancel = new Session(await server.accepted());
  expect(await cancel.flight()).toEqual(["CancelRequest"]);
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceled" }), wire.readyForQuery());
  const flight = session.flight();
  expect(await Promise.race([flight, pause(30)])).toBe(undefined);
  cancel.peer.end();
  expect(await flight).toEqual(["Parse", "Bind", "Describe", "Execute", "Sync"]);
  session.send(begun(), rows(5, 6), ended(1));
  expect((await next).rows).toEqual([{ n: 5 }]);
});

test("no cancel is sent once the operation has ended", async () => {
  let accept: (() => void) | undefined;
  const { connect } = server;
  installRuntime({
    name: "node",
    module: () => wasm,
    connect: (options) =>
      accept === undefined ? connect(options) : new Promise((resolve) => (accept = () => resolve(connect(options)))),
    background: () => {},
    capabilities: { canSkipVerification: true, canUseCustomCa: true, canAlpn: true, canClientCertificate: true },
  });
  const abort = new AbortController();
  const query = client.query("select n", { signal: abort.signal });
  const session = await letIn();
  await learn(session);
  accept = () => {};
  abort.abort();
  await expect(query).rejects.toMatchObject({ code: "ABORTED" });
  await pause(5);
  session.send(begun(), rows(0, 1), ended(1));
  await pause(5);
  accept();
  expect(await Promise.race([server.accepted(), pause(20)])).toBe(undefined);
  const next = client.query("select n");
  await session.flight();
  session.send(begun(), ended(0));
  await next;
});

test("a server that does not heed the cancel loses the connection after two seconds", async () => {
  const query = client.query("select n", { timeout: 20 });
  await learn(await letIn());
  await expect(query).rejects.toMatchObject({ name: "TimeoutError", code: "QUERY_TIMEOUT" });
  const from = performance.now();
  await expect(client.query("select n")).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: true });
  expect(performance.now() - from).toBeGreaterThan(1500);
  expect(performance.now() - from).toBeLessThan(2500);
});

test("a call that was not sent is only removed", async () => {
  const abort = new AbortController();
  const first = client.query("select n");
  const second = client.query("select n", { signal: abort.signal });
  const session = await letIn();
  abort.abort();
  await expect(second).rejects.toMatchObject({ code: "ABORTED", retryable: true });
  await learn(session);
  session.send(begun(), ended(0));
  await first;
});

test("a call behind a stream is refused; one behind a stream that was left waits", async () => {
  const opening = client.stream("select n");
  await expect(client.query("select n")).rejects.toMatchObject({ name: "UsageError", code: "STREAM_OPEN" });
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1));
  const stream = await opening;
  await expect(client.query("select n")).rejects.toMatchObject({ code: "STREAM_OPEN" });
  await stream.cancel();
  const next = client.query("select n");
  const cancel = new Session(await server.accepted());
  await cancel.flight();
  cancel.peer.end();
  session.send(rows(1, 9), ended(9));
  await session.flight();
  session.send(begun(), rows(3, 4), ended(1));
  expect((await next).rows).toEqual([{ n: 3 }]);
});

test.each([
  ["0A000", "RevalidateCachedQuery", 2],
  ["0A000", "exec_stmt_raise", 1],
  ["26000", "FetchPreparedStatement", 2],
  ["08P01", "PortalSetResultFormat", 2],
  ["08P01", "exec_bind_message", 1],
])("%s of %s: run %d times", async (code, routine, times) => {
  const query = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(
    wire.parseComplete(),
    wire.errorResponse({ S: "ERROR", V: "ERROR", C: code, M: "stale", R: routine }),
    wire.readyForQuery(),
  );
  if (times === 1) return void (await expect(query).rejects.toMatchObject({ code }));
  await learn(session);
  session.send(begun(), rows(1, 2), ended(1));
  expect((await query).rows).toEqual([{ n: 1 }]);
});

test("inside a transaction nothing is run twice", async () => {
  const begin = client.exec("begin");
  const session = await letIn();
  await session.flight();
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.noData(), wire.readyForQuery());
  await session.flight();
  session.send(
    wire.parseComplete(),
    wire.bindComplete(),
    wire.noData(),
    wire.commandComplete("BEGIN"),
    wire.readyForQuery("T"),
  );
  await begin;
  const query = client.query("select n");
  await session.flight();
  session.send(
    wire.parseComplete(),
    wire.parameterDescription([]),
    wire.rowDescription([int4]),
    wire.readyForQuery("T"),
  );
  await session.flight();
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "26000", M: "gone" }), wire.readyForQuery("E"));
  await expect(query).rejects.toMatchObject({ code: "26000" });
});

test.each([
  "",
  "null",
  "{}",
  "7",
  "[null]",
  "[[16400]]",
  '[[16400,"c","r",null,null]]',
  '[[16400,"c","r",[23],7]]',
  '[[16400,"c","r",7,["a"]]]',
  "broken{",
])("a catalog that answers %j leaves its types text and its instance whole", async (answer) => {
  const other = createClient({ host: "memory", user: "u", database: `d${databases++}`, sslmode: "disable" });
  const waiting = other.exec("select");
  const others = await letIn();
  await others.flight();
  const query = client.query("select n");
  const session = await letIn();
  await session.flight();
  const own = { name: "n", oid: 16_400 };
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([own]), wire.readyForQuery());
  expect(await session.flight()).toEqual(["Query"]);
  const found = answer ? [wire.dataRow([Buffer.from(answer)])] : [];
  session.send(wire.rowDescription([{ name: "j", oid: 114 }]), ...found, ended(1));
  await session.flight();
  session.send(
    wire.parseComplete(),
    wire.bindComplete(),
    wire.rowDescription([own], [0]),
    wire.dataRow([Buffer.from("x")]),
    ended(1),
  );
  expect((await query).rows).toEqual([{ n: "x" }]);
  others.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "42601", M: "whole" }), wire.readyForQuery());
  await expect(waiting).rejects.toMatchObject({ code: "42601" });
  await other.close();
});

test("a server that goes right behind the answer of its catalog is a lost connection", async () => {
  const query = client.query("select n");
  const session = await letIn();
  await session.flight();
  session.send(
    wire.parseComplete(),
    wire.parameterDescription([]),
    wire.rowDescription([{ name: "n", oid: 16_400 }]),
    wire.readyForQuery(),
  );
  await session.flight();
  const answer = wire.dataRow([Buffer.from('[[16400,"d","own",[23],[]]]')]);
  session.send(
    wire.rowDescription([{ name: "j", oid: 114 }]),
    answer,
    ended(1),
    wire.errorResponse({ S: "FATAL", V: "FATAL", C: "57P01", M: "going" }),
  );
  await expect(query).rejects.toMatchObject({ name: "PostgresError", code: "57P01" });
});

test("of settings that a server makes up a hundred are kept", async () => {
  const query = client.query("select n");
  const session = new Session(await server.accepted());
  await session.flight();
  session.send(wire.authenticationOk(), wire.parameterStatus("TimeZone", "UTC"));
  for (let made = 0; made < 1_000; made++) session.send(wire.parameterStatus(`made.${made}`, "up"));
  session.send(wire.parameterStatus("TimeZone", "CET"), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
  await learn(session);
  session.send(begun(), rows(0, 1), ended(1));
  await query;
  expect(["TimeZone", "made.98", "made.99"].map((name) => client.parameterStatus(name))).toEqual([
    "CET",
    "up",
    undefined,
  ]);
});

test("a server that never answers LISTEN is given up", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const listening = client.listen("c").catch((error: unknown) => error);
    const session = await letIn();
    expect(await session.flight()).toEqual(["Query"]);
    await vi.advanceTimersByTimeAsync(11_000);
    expect(await listening).toMatchObject({ name: "ConnectionError", code: "CONNECTION_LOST" });
  } finally {
    vi.useRealTimers();
  }
});

test.each(["coreconnection_receive", "coreconnection_execute", "coreconnection_rows_length"])(
  "a trap in %s ends every connection of the instance, and the next connect works",
  async (name) => {
    const other = createClient({ host: "memory", user: "u", database: `d${databases++}`, sslmode: "disable" });
    const waiting = other.query("select n");
    await learn(await letIn());
    const query = client.query("select n");
    const session = await letIn();
    await session.flight();
    trap = name;
    session.send(
      wire.parseComplete(),
      wire.parameterDescription([]),
      wire.rowDescription([int4]),
      wire.readyForQuery(),
    );
    await expect(query).rejects.toMatchObject({
      name: "ConnectionError",
      code: "CORE_TRAPPED",
      cause: expect.any(WebAssembly.RuntimeError),
    });
    await expect(waiting).rejects.toMatchObject({ code: "CORE_TRAPPED" });
    await expect(other.query("select n")).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: true });
    await Promise.all([client.close(), other.close()]);

    client = createClient({ host: "memory", user: "u", database: `d${databases++}`, sslmode: "disable" });
    const again = client.query("select n");
    const next = await letIn();
    await learn(next);
    next.send(begun(), rows(1, 2), ended(1));
    expect((await again).rows).toEqual([{ n: 1 }]);
  },
);

test("close says Terminate, once, and needs no server", async () => {
  const query = client.exec("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), ended(0));
  await query;
  await Promise.all([client.close(), client.close()]);
  expect(await session.flight()).toEqual(["Terminate"]);
  expect(await session.flight()).toEqual(["end"]);
  await expect(client.query("select n")).rejects.toMatchObject({ name: "UsageError", code: "CLIENT_CLOSED" });
});

test("close settles in less than a second under a call that never ends, which rejects", async () => {
  const query = client.query("select n");
  const queued = client.query("select n");
  await learn(await letIn());
  const outcome = Promise.allSettled([query, queued]);
  const from = performance.now();
  await client.close();
  expect(performance.now() - from).toBeLessThan(1000);
  for (const { reason } of (await outcome) as PromiseRejectedResult[])
    expect(reason).toMatchObject({ code: "CLIENT_CLOSED" });
});

test("connecting ends at its deadline and with its signal, and shows no password", async () => {
  const config = { host: "memory", user: "u", password: "open sesame", sslmode: "disable" } as const;
  await expect(createClient(config, { connectTimeout: 20 }).query("select n")).rejects.toMatchObject({
    name: "TimeoutError",
    code: "CONNECT_TIMEOUT",
    retryable: true,
  });
  const abort = new AbortController();
  const query = createClient(config, { signal: abort.signal }).query("select n");
  setTimeout(() => abort.abort(), 10);
  const error: unknown = await query.catch((reason: unknown) => reason);
  expect(error).toMatchObject({ name: "AbortError", retryable: true });
  expect(JSON.stringify([error, createClient(config)]) + String(error)).not.toContain("sesame");
});

test("an early query leaves behind the password, before the server has let us in", async () => {
  client = createClient({
    host: "memory",
    user: "u",
    database: "early",
    password: "x",
    sslmode: "disable",
    earlyQuery: true,
    allowCleartextPassword: true,
  });
  const query = client.query(sql`select n`);
  const session = new Session(await server.accepted());
  await session.flight();
  session.send(wire.authentication(3));
  expect(await session.flight()).toEqual(["PasswordMessage", "Parse", "Describe", "Sync"]);
  session.send(wire.authenticationOk(), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  await session.flight();
  session.send(begun(), rows(0, 1), ended(1));
  expect((await query).rows).toEqual([{ n: 0 }]);
});

test("a few boundary calls per chunk, and no byte copied but in and out", async () => {
  const opening = client.stream("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1));
  const reader = (await opening).getReader();
  await reader.read();
  const before = client.stats();
  const chunk = rows(0, 4000);
  for (let sent = 0; sent < 50; sent++) session.send(chunk);
  session.send(ended(200_001));
  let streamed = 0;
  for (let next; !(next = await reader.read()).done;) streamed += next.value.length;
  const after = client.stats();
  expect(after.receivedChunks - before.receivedChunks).toBe(51);
  expect(after.boundaryCalls - before.boundaryCalls).toBeLessThan(51 * 6);
  expect(after.copiedBytes - before.copiedBytes).toBe(after.receivedBytes - before.receivedBytes + streamed);
});
