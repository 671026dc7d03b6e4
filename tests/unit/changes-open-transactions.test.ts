// Changes by transaction (js/changes/open-transactions.ts) and how far a stream lags (lag.ts): what is held,
// dropped and delivered, for each order of arrival.
import { expect, test } from "vitest";
import { OpenTransactions } from "../../js/changes/open-transactions.ts";
import type { AnyChange, Insert, Schema } from "../../js/changes/kinds.ts";
import { Lag } from "../../js/changes/lag.ts";
import { createSlotCommand, startCommand } from "../../js/changes/options.ts";

interface Row {
  readonly id: number;
}

const at = { position: "0/10" };
const begin = (xid: number, origin?: string): AnyChange<Row> => ({
  kind: "begin",
  ...at,
  xid,
  committedAt: "then",
  ...(origin && { origin }),
});
const insert = (id: number, xid?: number, subxid?: number): Insert<Row> => ({
  kind: "insert",
  ...at,
  ...(xid && { xid }),
  ...(subxid && { subxid }),
  schema: "public",
  table: "t",
  new: { id },
});
const acknowledged: string[] = [];
const commit = (xid: number, position = "0/20"): AnyChange<Row> => ({
  kind: "commit",
  position,
  xid,
  committedAt: "then",
  acknowledge: async () => void acknowledged.push(position),
});
const part = (xid: number, first: boolean): AnyChange<Row> => ({ kind: "stream", ...at, xid, first });
const abort = (xid: number, subxid?: number): AnyChange<Row> => ({
  kind: "abort",
  ...at,
  xid,
  ...(subxid && { subxid }),
});

/** Adds changes of ten bytes each, and returns the ids of each delivered transaction. */
function given(open: OpenTransactions<Row>, changes: readonly AnyChange<Row>[]) {
  return changes.flatMap((change) => {
    const whole = open.add(change, 10);
    return whole ? [idsOf(whole.changes)] : [];
  });
}
const idsOf = (changes: readonly AnyChange<Row>[]) =>
  changes.flatMap((change) => (change.kind === "insert" ? [change.new.id] : []));

test("a transaction has all changes between begin and commit, and its known facts", async () => {
  const open = new OpenTransactions<Row>(1_000);
  expect(given(open, [begin(1, "far"), insert(1, 1), insert(2, 1)])).toEqual([]);
  const whole = open.add(commit(1, "0/30"), 10)!;
  expect(whole).toMatchObject({ position: "0/30", xid: 1, committedAt: "then", origin: "far" });
  expect(idsOf(whole.changes)).toEqual([1, 2]);
  await whole.acknowledge();
  expect(acknowledged).toEqual(["0/30"]);
  // Its changes would have been lost.
  expect(() => open.add(commit(9), 10)).toThrow("Transaction 9 committed without a begin.");
});

test("parts of several transactions may alternate, and rolled back changes are dropped", () => {
  const open = new OpenTransactions<Row>(1_000);
  const told = given(open, [
    part(1, true),
    insert(1, 1),
    part(2, true),
    insert(2, 2),
    insert(3, 2, 5),
    insert(4, 2, 6),
    part(1, false),
    insert(5, 1),
    abort(2, 5),
    abort(1),
    abort(7),
    part(2, false),
    insert(6, 2, 6),
    commit(2),
  ]);
  expect(told).toEqual([[2, 4, 6]]);
});

test("a repeated first part starts its transaction again, and so does another connection", () => {
  const open = new OpenTransactions<Row>(1_000);
  expect(given(open, [part(1, true), insert(1, 1), part(1, true), insert(2, 1), commit(1)])).toEqual([[2]]);
  given(open, [part(1, true), insert(1, 1)]);
  open.restart();
  expect(given(open, [begin(1), insert(3, 1), commit(1)])).toEqual([[3]]);
});

test("held bytes are bounded for all transactions together, and delivered or dropped ones no longer count", () => {
  const open = new OpenTransactions<Row>(40);
  expect(given(open, [begin(1), insert(1, 1), insert(2, 1), insert(3, 1), insert(4, 1), commit(1)])).toEqual([
    [1, 2, 3, 4],
  ]);
  given(open, [part(1, true), insert(1, 1), insert(2, 1, 7), part(2, true), insert(3, 2), insert(4, 2)]);
  given(open, [abort(1, 7), insert(5, 2)]);
  expect(() => open.add(insert(6, 2), 10)).toThrow(
    expect.objectContaining({ code: "RESPONSE_TOO_LARGE", limit: "bytes", value: 40, observed: 50 }),
  );
  open.restart();
  given(open, [part(1, true), insert(1, 1), insert(2, 1), insert(3, 1), insert(4, 1)]);
});

test("rows of a snapshot come in groups, and a message outside of a transaction comes alone", async () => {
  const open = new OpenTransactions<Row>(1_000);
  const schema: Schema = {
    kind: "schema",
    ...at,
    schema: "public",
    table: "t",
    oid: 1,
    replicaIdentity: "default",
    columns: [],
  };
  expect(open.takeRows()).toBeUndefined();
  given(open, [schema, insert(1), insert(2)]);
  const rows = open.takeRows()!;
  expect(rows.changes.map(({ kind }) => kind)).toEqual(["schema", "insert", "insert"]);
  expect(rows).not.toHaveProperty("xid");
  await rows.acknowledge();
  expect(open.takeRows()).toBeUndefined();
  given(open, [{ kind: "snapshot", ...at }]);
  expect(open.takeRows()?.changes).toEqual([{ kind: "snapshot", ...at }]);
  const message = { kind: "message", ...at, transactional: false, prefix: "app", content: "hi" } as const;
  expect(open.add(message, 10)).toMatchObject({ position: at.position, changes: [message] });
});

test("the lag counts from when unacknowledged changes were read, with the commits of a second together", () => {
  const lag = new Lag();
  expect(lag.seconds(0)).toBe(0);
  lag.read(10n, 1_000);
  lag.read(20n, 1_500);
  lag.read(20n, 5_000);
  lag.read(30n, 3_000);
  expect(lag.seconds(4_000)).toBe(3);
  lag.acknowledged(10n);
  expect(lag.seconds(4_000)).toBe(3);
  lag.acknowledged(20n);
  expect(lag.seconds(4_000)).toBe(1);
  lag.acknowledged(30n);
  expect(lag.seconds(4_000)).toBe(0);
  lag.read(40n, 9_000);
  expect(lag.seconds(8_000)).toBe(0);
});

test("the commands contain the requested options, in the server's form", () => {
  const publications = ["p'1", 'q"2'];
  const options = { slot: 'a"b', publication: publications };
  expect(createSlotCommand(options, 14)).toBe(`CREATE_REPLICATION_SLOT "a""b" LOGICAL pgoutput NOEXPORT_SNAPSHOT`);
  const all = { ...options, createSlot: "temporary", snapshot: true, twoPhase: true, failover: true } as const;
  expect(createSlotCommand(all, 17)).toBe(
    `CREATE_REPLICATION_SLOT "a""b" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use', TWO_PHASE true, FAILOVER true)`,
  );
  const head = `START_REPLICATION SLOT "a""b" LOGICAL 0/10`;
  const names = `publication_names '"p''1","q""2"'`;
  expect(startCommand(options, publications, "0/10")).toBe(`${head} (proto_version '1', ${names})`);
  expect(startCommand({ ...options, streaming: true, messages: true }, publications, "0/10")).toBe(
    `${head} (proto_version '2', ${names}, messages 'true', streaming 'on')`,
  );
  expect(startCommand({ ...options, twoPhase: true, origin: "none" }, publications, "0/10")).toBe(
    `${head} (proto_version '3', ${names}, origin 'none', two_phase 'on')`,
  );
});
