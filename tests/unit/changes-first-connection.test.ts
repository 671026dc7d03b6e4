// The first connection of a stream of changes over sockets in memory: after which failures the stream waits and
// connects again, and how the others are reported.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { changes, type ChangesOptions } from "../../js/adapters/changes.ts";
import { advised } from "../../js/adapters/changes/advice.ts";
import { provide } from "../../js/adapters/changes/core.ts";
import type { AnyChange } from "../../js/adapters/changes/kinds.ts";
import { PostgresError, ProtocolError } from "../../js/index.ts";
import {
  client,
  ended,
  fakeClock,
  install,
  isPending,
  letIn,
  newClient,
  server,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

const wasm = readFileSync(new URL("../../pkg/pgz_changes_bg.wasm", import.meta.url));
provide(() => wasm);
useMemoryServer();

const newest = { server_version: "18.0" };
const options = { slot: "s", publication: "p" } as const;

/** Requests the first change. Its outcome is known when the returned promise settles. */
function first(more: Partial<ChangesOptions> = {}) {
  const feed = changes(client, { ...options, ...more });
  const next = feed[Symbol.asyncIterator]().next();
  next.catch(() => {});
  return { feed, next };
}

const refusal = (code: string, severity = "FATAL") =>
  wire.errorResponse({ S: severity, V: severity, C: code, M: "refused" });

const position = (at: number) => Buffer.concat([wire.int32(0), wire.int32(at)]);
const data = (letter: string, ...parts: Buffer[]) =>
  wire.message("d", Buffer.from("w"), position(16), position(64), position(0), Buffer.from(letter), ...parts);
const copyBoth = wire.message("W", Buffer.of(0), wire.int16(0));
const row = data(
  "I",
  wire.int32(1),
  Buffer.from("N"),
  wire.int16(1),
  Buffer.from("t"),
  wire.int32(1),
  Buffer.from("5"),
);

/** The beginning of a transaction with one row, and its commit, which ends at 64. */
function transaction(): Buffer[] {
  const column = [Buffer.of(1), wire.cstring("n"), wire.int32(23), wire.int32(-1)];
  const names = [wire.cstring("public"), wire.cstring("t"), Buffer.from("d"), wire.int16(1)];
  return [
    data("B", position(48), position(0), wire.int32(7)),
    data("R", wire.int32(1), ...names, ...column),
    row,
    data("C", Buffer.of(0), position(48), position(64), position(0)),
  ];
}

/** The answer to START_REPLICATION, and the beginning of a transaction with one row. */
function begins(session: Session): void {
  session.send(copyBoth, ...transaction().slice(0, -1));
}

/** The next connection, after a pause of the driver. */
async function another(clock: ReturnType<typeof fakeClock>, settings?: Record<string, string>): Promise<Session> {
  const coming = letIn(settings);
  while (await isPending(coming)) await clock.pass(500);
  return coming;
}

interface Server {
  readonly system?: string;
  readonly timeline?: string;
  readonly end?: string;
  readonly isStandby?: boolean;
  readonly confirmed?: string;
  readonly isActive?: boolean;
  readonly hasSlot?: boolean;
  readonly instance?: string;
  readonly missing?: string;
  /** The content of its history file. */
  readonly history?: string;
}

const answer = (...values: readonly (string | undefined)[]) =>
  Buffer.concat([
    wire.rowDescription(values.map((_, at) => ({ name: `c${at}`, oid: 25 }))),
    wire.dataRow(values.map((value) => (value === undefined ? null : Buffer.from(value)))),
    ended(1),
  ]);

/** Answers the first flight: where the slot is, and whose log it is. */
async function answered(session: Session, server: Server = {}): Promise<void> {
  const { system = "7", timeline = "1", end = "0/40", history } = server;
  expect([...(await session.flight()), ...(await session.flight())]).toEqual(["Query", "Query"]);
  session.send(firstRow(server), answer(system, timeline, end, "d"));
  if (history === undefined) return;
  expect(await session.flight()).toEqual(["Query"]);
  session.send(answer("00000002.history", history));
}

/** The same, up to START_REPLICATION. Returns its text. */
async function asked(session: Session, server: Server = {}): Promise<string> {
  await answered(session, server);
  return await command(session, server);
}

/** Answers the question where the slot is, which comes again in the flight of START_REPLICATION. Returns its text. */
async function command(session: Session, server: Server = {}): Promise<string> {
  const [question, start] = [await session.message(), await session.message()];
  expect([question!.name, start!.name]).toEqual(["Query", "Query"]);
  session.send(firstRow(server));
  return Buffer.from(start!.body).toString().replace("\0", "");
}

const firstRow = (server: Server) => {
  const { isStandby, instance = "some time", confirmed = "0/10", isActive, hasSlot = true, missing } = server;
  const slot = hasSlot ? [confirmed, isActive ? "t" : "f"] : [undefined, undefined];
  return answer(isStandby ? "t" : "f", instance, ...slot, missing, "7");
};

const ends: Record<string, (session: Session) => unknown> = {
  "right behind its login": (session) => session.peer.end(),
  "by a reset": (session) => session.peer.reset(),
  "while it asks for its slot": async (session) => {
    await session.flight();
    session.peer.end();
  },
  "while it begins": async (session) => {
    await asked(session);
    session.peer.end();
  },
  "by an administrator": async (session) => {
    await session.flight();
    session.send(refusal("57P01"));
    session.peer.end();
  },
  "by a server that is full": async (session) => {
    await asked(session);
    session.send(refusal("53300"));
    session.peer.end();
  },
};

test.each(Object.keys(ends))("a first connection that ends %s is followed by another", async (name) => {
  using clock = fakeClock();
  const { feed, next } = first();
  await ends[name]!(await letIn());
  const second = await another(clock);
  await asked(second);
  begins(second);
  expect(await next).toMatchObject({ value: { kind: "begin", xid: 7 } });
  expect(feed.stats().connections).toBe(2);
});

test("changes that arrive in one chunk with the beginning of the stream are delivered at once", async () => {
  const { next } = first();
  const session = await letIn();
  await asked(session);
  begins(session);
  expect(await next).toMatchObject({ value: { kind: "begin" } });
});

test("after eight connections that end, the stream reports the loss, and says that reading again is safe", async () => {
  using clock = fakeClock();
  const { feed, next } = first();
  for (let n = 1; n <= 8; n++) (await another(clock)).peer.end();
  await expect(next).rejects.toMatchObject({ code: "CONNECTION_LOST", stage: "session", retryable: true });
  expect(feed.stats().connections).toBe(8);
});

test("a slot that is in use is waited for without a limit", async () => {
  using clock = fakeClock();
  const { feed, next } = first();
  for (let n = 1; n <= 12; n++) {
    const session = await another(clock);
    await asked(session);
    session.send(refusal("55006", "ERROR"), wire.readyForQuery());
  }
  const last = await another(clock);
  await asked(last);
  begins(last);
  expect(await next).toMatchObject({ value: { kind: "begin" } });
  expect(feed.stats().connections).toBe(13);
});

test.each(["42704", "08P01", "28000"])("a permanent failure is reported at once: %s", async (code) => {
  const { feed, next } = first();
  const session = await letIn();
  await asked(session);
  session.send(refusal(code, "ERROR"), wire.readyForQuery());
  await expect(next).rejects.toMatchObject({ code, retryable: false });
  expect(feed.stats().connections).toBe(1);
});

test("a pooler that never answers is reported after the deadline, and reading again is safe", async () => {
  using clock = fakeClock();
  const { next } = first();
  await asked(await letIn());
  await clock.pass(20_000);
  await expect(next).rejects.toMatchObject({ code: "CONNECT_TIMEOUT", retryable: true });
});

test("the error names a slot that was made with a snapshot and may belong to another reader", async () => {
  using clock = fakeClock();
  const { next } = first({ createSlot: "permanent", snapshot: true });
  for (const isLost of [true, false]) {
    const session = await another(clock, newest);
    await answered(session);
    expect(await session.flight()).toEqual(["Query"]);
    session.send(wire.commandComplete("BEGIN"), wire.readyForQuery("T"));
    expect(await session.flight()).toEqual(["Query"]);
    if (isLost) session.peer.end();
    else session.send(refusal("42710", "ERROR"), wire.readyForQuery("E"));
  }
  // The server has half a second to close a connection that it has refused.
  await clock.pass(500);
  await expect(next).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringMatching("This stream may have made it"),
  });
});

test("a snapshot whose link is lost is left to the program to begin again", async () => {
  const { feed, next } = first({ createSlot: "temporary", snapshot: true });
  const session = await letIn(newest);
  await answered(session);
  expect(await session.flight()).toEqual(["Query"]);
  session.send(wire.commandComplete("BEGIN"), wire.readyForQuery("T"));
  await session.flight();
  session.send(
    wire.rowDescription(["slot_name", "consistent_point"].map((name) => ({ name, oid: 25 }))),
    wire.dataRow([Buffer.from("s"), Buffer.from("0/10")]),
    ended(1),
  );
  await session.flight();
  // search_path, for the filters that the next question returns.
  session.send(wire.rowDescription([{ name: "set_config", oid: 25 }]), wire.dataRow([Buffer.from("p")]), ended(1));
  await session.flight();
  const table = {
    oid: 1,
    identity: "d",
    schema: "public",
    name: "t",
    columns: [["n", 23, -1, true, false]],
    filter: null,
    hasLists: false,
    parts: [{ oid: 1, kind: "r", file: 1, schema: "public", name: "t" }],
  };
  session.send(
    wire.rowDescription([{ name: "j", oid: 114 }]),
    wire.dataRow([Buffer.from(JSON.stringify(table))]),
    ended(1),
  );
  await session.flight();
  session.peer.end();
  await expect(next).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: true });
  expect(feed.stats().connections).toBe(1);
});

test.each([
  ["13.9", { streaming: true }, 14],
  ["14.2", { twoPhase: true }, 15],
  ["15.1", { origin: "any" }, 16],
  ["16beta1", { createSlot: "temporary", failover: true }, 17],
] as const)("a server of version %s is too old for %o", async (version, more, oldest) => {
  const { next } = first(more);
  const session = await letIn({ server_version: version });
  expect(await session.flight()).toEqual(["Terminate"]);
  session.peer.end();
  const message = expect.stringMatching(`needs PostgreSQL ${oldest} or newer, not ${Number.parseInt(version, 10)}`);
  await expect(next).rejects.toMatchObject({ code: "INVALID_OPTION", message });
});

// -- whose log it is --------------------------------------------------------------------------------------------------

/** Expects the stream to end by what its server's log lacks, in these words, after half a second for its connection. */
async function isLost(clock: ReturnType<typeof fakeClock>, next: Promise<unknown>, words: string): Promise<void> {
  await clock.pass(500);
  await expect(next).rejects.toMatchObject({ code: "CHANGES_LOST", message: expect.stringMatching(words) });
}

/** A stream that has yielded the beginning of a transaction, on a server whose log ends at 0/40. */
async function reading(clock: ReturnType<typeof fakeClock>, more: Partial<ChangesOptions> = {}) {
  const feed = changes(client, { ...options, ...more });
  const reader = feed[Symbol.asyncIterator]();
  const begun = reader.next();
  const session = await another(clock);
  await asked(session);
  begins(session);
  await begun;
  return { feed, reader, session };
}

test("a server of another system ends a stream that has read", async () => {
  using clock = fakeClock();
  const { reader, session } = await reading(clock);
  for (let left = 2; left; left--) await reader.next();
  const next = reader.next();
  next.catch(() => {});
  session.peer.end();
  await answered(await another(clock), { system: "8" });
  await isLost(clock, next, "system 8");
});

test("a position beyond the end of a primary's log is refused, bare or not", async () => {
  using clock = fakeClock();
  for (const from of ["0/41", "7-1-1t"]) {
    const { next } = first({ from });
    await answered(await another(clock));
    await isLost(clock, next, "ends at 0/40");
  }
});

test("a position of another timeline is compared with the server's history", async () => {
  using clock = fakeClock();
  const history = "1\t0/20\tno recovery target specified\n";
  const { next } = first({ from: "7-1-x" });
  await answered(await another(clock), { timeline: "2", history });
  await isLost(clock, next, "after 0/20");
  const { feed, next: other } = first({ from: "7-1-w" });
  const session = await another(clock);
  await answered(session, { timeline: "2", history });
  expect(await command(session)).toMatch("LOGICAL 0/20");
  begins(session);
  await other;
  expect([feed.fullPosition("0/20"), feed.fullPosition("0/21")]).toEqual(["7-1-w", "7-2-x"]);
  expect(feed.fullPosition("7-1-w")).toBe("7-1-w");
  for (const none of ["x", "", "0/zz", "0-0-0"])
    expect(() => feed.fullPosition(none)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
  // What a cluster says of a write whose position it could not ask for.
  expect(() => changes(client, { ...options, from: "0-0-0" })).toThrow(/Option "from" must be a position/);
});

test("a standby that lags is asked until it has the position", async () => {
  using clock = fakeClock();
  const { feed, next } = first({ from: "0/50" });
  const session = await another(clock, newest);
  for (const end of ["0/40", "0/4F", "0/50"]) {
    const answering = answered(session, { isStandby: true, end });
    while (await isPending(answering)) await clock.pass(500);
    expect(feed.stats().state).toBe("connecting");
  }
  expect(await command(session)).toMatch("LOGICAL 0/50");
  begins(session);
  expect(await next).toMatchObject({ value: { kind: "begin" } });
});

test("a slot that another connection reads is asked about again: that reader may still move it", async () => {
  using clock = fakeClock();
  const { reader, session } = await reading(clock);
  for (let left = 2; left; left--) await reader.next();
  const next = reader.next();
  next.catch(() => {});
  session.peer.end();
  const second = await another(clock);
  await answered(second, { isActive: true });
  const answering = answered(second, { confirmed: "0/30" });
  while (await isPending(answering)) await clock.pass(500);
  await isLost(clock, next, "slot is at 0/30");
});

test("a slot that is moved between the question and the beginning of the stream ends it", async () => {
  using clock = fakeClock();
  const { next } = first();
  const session = await letIn();
  await answered(session);
  await command(session, { confirmed: "0/30" });
  session.send(copyBoth);
  await isLost(clock, next, "moved .* 0/30");
});

test("what a server said before the stream began does not hold for the next one", async () => {
  using clock = fakeClock();
  const { next } = first();
  const session = await letIn();
  expect(await asked(session, { confirmed: "0/30" })).toMatch("LOGICAL 0/30");
  session.peer.end();
  const second = await another(clock);
  expect(await asked(second, { confirmed: "0/10" })).toMatch("LOGICAL 0/10");
  begins(second);
  expect(await next).toMatchObject({ value: { kind: "begin" } });
});

test("a slot that vanishes before the stream has begun is not made anew", async () => {
  using clock = fakeClock();
  const { next } = first({ createSlot: "permanent" });
  const session = await letIn();
  await answered(session);
  session.peer.end();
  await answered(await another(clock), { hasSlot: false });
  await isLost(clock, next, "any more");
});

test("a run that has read nothing needs what earlier runs have acknowledged", async () => {
  using clock = fakeClock();
  const { feed, next } = first();
  const session = await letIn();
  await asked(session, { confirmed: "0/30" });
  session.send(copyBoth);
  while (feed.stats().state !== "streaming") await clock.pass(1);
  session.peer.end();
  const history = "1\t0/20\tno recovery target specified\n";
  await answered(await another(clock), { timeline: "2", history, instance: "another time" });
  await isLost(clock, next, "after 0/20");
});

test("a standby without the slot is left for another server", async () => {
  using clock = fakeClock();
  const { reader, session } = await reading(clock);
  for (let left = 2; left; left--) await reader.next();
  const next = reader.next();
  session.peer.end();
  const second = await another(clock, newest);
  await answered(second, { isStandby: true, hasSlot: false });
  second.peer.end();
  const third = await another(clock, newest);
  expect(await asked(third)).toMatch("LOGICAL 0/10");
  begins(third);
  expect(await next).toMatchObject({ value: { kind: "begin", xid: 7 } });
});

test("a standby that is too old is refused before the stream begins: it may be promoted meanwhile", async () => {
  using clock = fakeClock();
  const { next } = first();
  await answered(await letIn({ server_version: "15.2" }), { isStandby: true });
  await clock.pass(500);
  const advice = expect.stringMatching("connect to the primary");
  await expect(next).rejects.toMatchObject({ code: "0A000", advice });
});

test("a temporary slot that another connection uses is refused by the server, not waited for", async () => {
  using clock = fakeClock();
  const { next } = first({ createSlot: "temporary" });
  const session = await letIn();
  await answered(session, { isActive: true });
  expect(Buffer.from((await session.message())!.body).toString()).toMatch("CREATE_REPLICATION_SLOT");
  session.send(refusal("42710", "ERROR"), wire.readyForQuery());
  await clock.pass(500);
  await expect(next).rejects.toMatchObject({ code: "42710" });
});

test("an abort while the server makes the slot of a snapshot drops it", async () => {
  const controller = new AbortController();
  const { next } = first({ createSlot: "permanent", snapshot: true, signal: controller.signal });
  const session = await letIn(newest);
  await answered(session, { hasSlot: false });
  await session.flight();
  session.send(wire.commandComplete("BEGIN"), wire.readyForQuery("T"));
  await session.flight();
  controller.abort();
  session.send(
    wire.rowDescription(["slot_name", "consistent_point"].map((name) => ({ name, oid: 25 }))),
    wire.dataRow([Buffer.from("s"), Buffer.from("0/10")]),
    ended(1),
  );
  session.peer.end();
  const other = await letIn(newest);
  expect(Buffer.from((await other.message())!.body).toString()).toMatch('DROP_REPLICATION_SLOT "s" WAIT');
  other.send(wire.commandComplete("DROP_REPLICATION_SLOT"), wire.readyForQuery());
  await expect(next).rejects.toMatchObject({ code: "ABORTED" });
});

test("a missing publication is refused before the stream begins", async () => {
  using clock = fakeClock();
  const { next } = first();
  const session = await letIn();
  await answered(session, { missing: "p" });
  expect(await session.flight()).toEqual(["Terminate"]);
  await clock.pass(500);
  const advice = expect.stringMatching("create publication");
  const message = 'publication "p" does not exist';
  await expect(next).rejects.toMatchObject({ name: "PostgresError", code: "42704", message, advice });
});

test("a warning of a missing publication is an error, and nothing is acknowledged after it", async () => {
  using clock = fakeClock();
  const notices: unknown[] = [];
  newClient({ observer: { onNotice: (notice) => void notices.push(notice) } });
  const { reader, session } = await reading(clock, { statusInterval: 1_000 });
  for (let left = 2; left; left--) await reader.next();
  const next = reader.next();
  next.catch(() => {});
  const warning = { S: "WARNUNG", V: "WARNING", C: "55000", M: "ohne Publikation »p«", R: "LoadPublications" };
  const keepalive = wire.message("d", Buffer.from("k"), Buffer.alloc(7), Buffer.of(64), Buffer.alloc(8), Buffer.of(1));
  session.send(wire.message("N", ...fieldsOf(warning)), keepalive);
  expect(await session.flight()).toEqual(["Terminate"]);
  await clock.pass(500);
  await expect(next).rejects.toMatchObject({ code: "42704", detail: "ohne Publikation »p«", retryable: false });
  expect(notices).toEqual([
    { severity: "WARNING", code: "55000", message: "ohne Publikation »p«", routine: "LoadPublications" },
  ]);
});

const fieldsOf = (fields: Record<string, string>) => [
  ...Object.entries(fields).map(([code, text]) => Buffer.concat([Buffer.from(code), wire.cstring(text)])),
  Buffer.of(0),
];

test.each([false, true])("a commit that was yielded does not come again, acknowledged: %s", async (isAcknowledged) => {
  using clock = fakeClock();
  const feed = changes(client, options)[Symbol.asyncIterator]();
  const kinds: string[] = [];
  const read = async () => {
    const { value: change } = (await feed.next()) as { value: AnyChange };
    kinds.push(change.kind);
    return change;
  };
  const begin = read();
  const first = await letIn();
  await asked(first);
  first.send(copyBoth, ...transaction());
  await begin;
  for (let change; change?.kind !== "commit";) {
    change = await read();
    if (change.kind === "commit" && isAcknowledged) await change.acknowledge();
  }
  first.peer.end();
  const next = read();
  const second = await another(clock);
  await asked(second);
  // Whatever the slot says: an acknowledgement may have been lost on its way.
  second.send(copyBoth, ...transaction(), data("B", position(64), position(0), wire.int32(8)), row);
  expect(await next).toMatchObject({ kind: "begin", xid: 8 });
  expect(kinds).toEqual(["begin", "schema", "insert", "commit", "begin"]);
});

const writes: Record<string, () => Promise<void>> = {
  // The workerd for Node 20, if the server closes the connection at that moment.
  "never settles": () => new Promise<void>(() => {}),
  fails: () => Promise.reject(new Error("broken pipe")),
};

test.each(Object.keys(writes))("an acknowledgement whose write %s holds nothing up, and loses nothing", async (how) => {
  using clock = fakeClock();
  let breaks = false;
  let sockets = 0;
  install(async (target) => {
    const socket = await server.connect(target);
    const isFirst = sockets++ === 0;
    return { ...socket, write: (bytes) => (isFirst && breaks ? writes[how]!() : socket.write(bytes)) };
  });
  const feed = changes(client, options)[Symbol.asyncIterator]();
  const read = async () => ((await feed.next()) as { value: AnyChange }).value;
  const begin = read();
  const first = await letIn();
  await asked(first);
  first.send(copyBoth, ...transaction());
  await begin;
  breaks = true;
  for (let change; change?.kind !== "commit";) {
    change = await read();
    if (change.kind === "commit") await change.acknowledge();
  }
  // However long the consumer takes, it gets what has arrived.
  first.send(data("B", position(80), position(0), wire.int32(8)), row);
  first.peer.end();
  await clock.pass(60_000);
  expect(await read()).toMatchObject({ kind: "begin", xid: 8 });
  expect(await read()).toMatchObject({ kind: "insert" });
  const next = read();
  const second = await another(clock);
  expect(await asked(second)).toContain(" 0/40 ");
  second.send(copyBoth, data("B", position(80), position(0), wire.int32(8)), row);
  expect(await next).toMatchObject({ kind: "begin", xid: 8 });
});

test.each([
  ["a row outside a transaction", [row]],
  ["a part of a transaction, unasked", [data("S", wire.int32(7), Buffer.of(1))]],
  ["the end of a part that has not begun", [data("E")]],
  ["a commit without its beginning", transaction().slice(-1)],
])("%s is a violation of the protocol", async (_, sent) => {
  const { next } = first();
  const session = await letIn();
  await asked(session);
  session.send(copyBoth, ...sent);
  session.peer.end();
  const error = await next.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(ProtocolError);
  expect(error).toMatchObject({ code: "UNEXPECTED_MESSAGE" });
});

type Acknowledge = () => Promise<void>;

/** Reads up to a commit. Returns its `acknowledge`, and the end of the reading. */
const readers: Record<
  string,
  () => Promise<{ acknowledge: Acknowledge; leave: () => Promise<unknown>; next: () => Promise<unknown> }>
> = {
  async changes() {
    const iterator = changes(client, options)[Symbol.asyncIterator]();
    for (;;) {
      const { value: change } = (await iterator.next()) as { value: AnyChange };
      if (change.kind !== "commit") continue;
      return { acknowledge: change.acknowledge, leave: () => iterator.return!(), next: () => iterator.next() };
    }
  },
  async transactions() {
    const iterator = changes(client, options).transactions();
    const { value } = await iterator.next();
    return { acknowledge: value!.acknowledge, leave: () => iterator.return(), next: () => iterator.next() };
  },
};

describe.each(Object.keys(readers))("an acknowledgement in the loop of %s", (name) => {
  async function read() {
    const reading = readers[name]!();
    const session = await letIn();
    await asked(session);
    session.send(copyBoth, ...transaction());
    return { session, ...(await reading) };
  }

  test("is refused after the loop was left", async () => {
    const { session, acknowledge, leave } = await read();
    const leaving = leave();
    await session.flight();
    session.peer.end();
    await leaving;
    await expect(acknowledge()).rejects.toMatchObject({
      name: "UsageError",
      code: "CHANGES_OVER",
      message: expect.stringContaining('from: "7-1-1s"'),
      cause: { code: "ABORTED" },
    });
  });

  test("is not refused if it was made before that", async () => {
    const { session, acknowledge, leave } = await read();
    void acknowledge();
    const leaving = leave();
    const sent: string[] = [];
    while (sent.at(-1) !== "Terminate") sent.push(...(await session.flight()));
    expect(sent).toContain("CopyData");
    session.peer.end();
    await leaving;
    await acknowledge();
  });

  test("is refused after the stream has failed, with its error", async () => {
    const { session, acknowledge, next } = await read();
    const failing = next();
    session.send(row);
    await session.flight();
    session.peer.end();
    await expect(failing).rejects.toMatchObject({ code: "UNEXPECTED_MESSAGE" });
    await expect(acknowledge()).rejects.toMatchObject({ code: "CHANGES_OVER", cause: { code: "UNEXPECTED_MESSAGE" } });
  });
});

test.each([
  'can no longer get changes from replication slot "s"',
  'cannot read from logical replication slot "s"',
  'can no longer access replication slot "s"',
])("a slot whose log was removed has advice, in the words of each version: %s", (message) => {
  const error = new PostgresError({ severity: "ERROR", code: "55000", message });
  expect(advised(error).advice).toMatch(/^The server has removed WAL.* Drop the slot/);
});
