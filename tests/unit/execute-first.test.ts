// How the first run of a statement is carried out (js/statement/execute.ts), over sockets in memory: what may follow it
// on the wire, and the question for types that goes in front of its second flight.
import { beforeEach, expect, test, vi } from "vitest";
import { Call } from "../../js/session/call.ts";
import { sql } from "../../js/statement/sql.ts";
import {
  behindPrelude,
  checked,
  described,
  failed,
  firstFlight,
  missesTypes,
  over,
  says,
  texts,
} from "../support/first-runs.ts";
import {
  accepted,
  begun,
  client,
  execution,
  int4,
  isPending,
  letIn,
  newClient,
  quiet,
  rows,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { written } from "../support/slow-socket.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** The check in front of a statement would have a name from the third on. */
beforeEach(() => newClient({ firstRun: "text", prepare: "unnamed" }));

const mood = { name: "m", oid: 20_001, size: -1 };
const MOOD = '[[20001,"e","mood",[0],[]]]';

async function firstRun(session?: Session): Promise<Session> {
  const next = session ?? (await letIn());
  expect(await next.flight()).toEqual(firstFlight);
  return next;
}

const whole = (value: string, status: "I" | "T" = "I", columns = [int4]) =>
  Buffer.concat([checked(columns), wire.bindComplete(), texts(value), over(1, status)]);

async function goesOn(session: Session): Promise<void> {
  const call = client.query("select k");
  await firstRun(session);
  session.send(whole("7"));
  expect((await call).rows).toEqual([{ n: 7 }]);
}

// -- what may follow it ----------------------------------------------------------------------------------------------

test("first runs follow each other on the wire, and each says how long its text and values are", async () => {
  const said = vi.spyOn(Call.prototype, "sent");
  try {
    const calls = [client.query(sql`select ${"abc"}`), client.query("select n")];
    const session = await firstRun();
    await firstRun(session);
    // Of the values: a count of formats, one of values, and the length of each.
    expect(said.mock.calls).toEqual([["select $1".length + 2 + 2 + 4 + 3], ["select n".length + 2 + 2]]);
    session.send(checked([int4], [25]), wire.bindComplete(), texts("1"), over(1), whole("2"));
    expect((await Promise.all(calls)).map((result) => result.rows)).toEqual([[{ n: 1 }], [{ n: 2 }]]);
  } finally {
    said.mockRestore();
  }
});

test("nothing follows one that BEGIN goes in front of, since it would run outside of the transaction", async () => {
  const transaction = client.transaction((tx) => Promise.all([tx.query("select n"), tx.query("select k")]));
  const session = await letIn();
  expect(await session.flight()).toEqual(behindPrelude);
  const second = session.flight();
  expect(await isPending(second)).toBe(true);
  session.send(checked([int4], [], "BEGIN"), wire.bindComplete(), texts("1"), over(1, "T"));
  expect(await second).toEqual(described);
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "42P01", M: "no" }), wire.readyForQuery("E"));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  await expect(transaction).rejects.toMatchObject({ code: "42P01" });
});

// -- types in front of it --------------------------------------------------------------------------------------------

test("types that its check misses are asked for in front of a second flight, in one write with it", async () => {
  const call = client.query("select m");
  const session = await firstRun();
  session.send(wire.closeComplete(), missesTypes([20_001]));
  expect(await written(session)).toEqual(["Query", ...firstFlight]);
  session.send(says(MOOD), whole("sad", "I", [mood]));
  expect((await call).rows).toEqual([{ m: "sad" }]);
});

test("what the answer in front says of a composite holds for the rows behind it", async () => {
  const pair = { name: "c", oid: 20_002, size: -1 };
  const call = client.query("select c");
  const session = await firstRun();
  session.send(wire.closeComplete(), missesTypes([20_002]));
  expect(await written(session)).toEqual(["Query", ...firstFlight]);
  session.send(says('[[20002,"c","pair",[23],["a"]]]'), whole("(1)", "I", [pair]));
  // Nobody has to ask once more.
  expect((await call).rows).toEqual([{ c: { a: 1 } }]);
  await goesOn(session);
});

test("a transaction that began with it is rolled back first, and begins again behind the question", async () => {
  const transaction = client.transaction((tx) => tx.query("select m"));
  const session = await letIn();
  expect(await session.flight()).toEqual(behindPrelude);
  const begins = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")];
  session.send(wire.closeComplete(), ...begins, missesTypes([20_001], "E"));
  expect(await written(session)).toEqual(["Query"]);
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  expect(await written(session)).toEqual(["Query", ...behindPrelude]);
  session.send(says(MOOD), checked([mood], [], "BEGIN"), wire.bindComplete(), texts("sad"), over(1, "T"));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  expect((await transaction).rows).toEqual([{ m: "sad" }]);
});

test("parsers' names are asked for behind the types, and the statement leaves behind both answers", async () => {
  const types = { mood: (text: string) => text.toUpperCase() };
  const call = client.query("select m", { types });
  const session = await letIn();
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says('{"mood":20001}'));
  await firstRun(session);
  session.send(wire.closeComplete(), missesTypes([20_001]));
  expect(await written(session)).toEqual(["Query"]);
  session.send(says(MOOD));
  expect(await written(session)).toEqual(["Query"]);
  session.send(says('{"mood":20001}'));
  await firstRun(session);
  session.send(whole("sad", "I", [mood]));
  expect((await call).rows).toEqual([{ m: "SAD" }]);
});

test("where first runs have come to an end meanwhile it is described behind the question", async () => {
  const calls = [client.query("select m"), client.query("select n")];
  const session = await firstRun();
  await firstRun(session);
  const settings = failed("22P02", 'invalid input syntax for type integer: "pgz-edge: settings"');
  const checks = [wire.parseComplete(), wire.parseComplete(), wire.bindComplete()];
  session.send(wire.closeComplete(), missesTypes([20_001]), wire.closeComplete(), ...checks, settings);
  const shape = [
    wire.parseComplete(),
    wire.parameterDescription([]),
    wire.rowDescription([int4]),
    wire.readyForQuery(),
  ];
  const answers = new Map([
    ["Query", [says(MOOD)]],
    [described.join(), shape],
    [execution.join(), [begun(), rows(5, 6), over(1)]],
  ]);
  for (const _ of "12345") session.send(...answers.get((await session.flight()).join())!);
  expect((await Promise.all(calls)).map((result) => result.rows)).toEqual([[{ n: 5 }], [{ n: 5 }]]);
});

// -- calls that end meanwhile ----------------------------------------------------------------------------------------

test("a call that ends under the question is over, and the statement does not run again", async () => {
  const abort = new AbortController();
  const types = { mood: (text: string) => text.toUpperCase() };
  const call = client.query("select m", { types, signal: abort.signal });
  const session = await letIn();
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says('{"mood":20001}'));
  await firstRun(session);
  session.send(wire.closeComplete(), missesTypes([20_001]));
  expect(await session.flight()).toEqual(["Query"]);
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(failed("57014"));
  await goesOn(session);
});

test("a call that ends while its transaction is rolled back asks nothing", async () => {
  const abort = new AbortController();
  const transaction = client.transaction((tx) => tx.query("select m", { signal: abort.signal }));
  const ending = expect(transaction).rejects.toMatchObject({ code: "ABORTED" });
  const session = await letIn();
  await session.flight();
  const begins = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")];
  session.send(wire.closeComplete(), ...begins, missesTypes([20_001], "E"));
  expect(await session.flight()).toEqual(["Query"]);
  abort.abort();
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  await ending;
  await goesOn(session);
});

// -- descriptions ----------------------------------------------------------------------------------------------------

test("a value that the server's description does not suit is the call's error, and nothing is left on the wire", async () => {
  newClient({ firstRun: "describe", prepare: "unnamed" });
  const call = client.query(sql`select ${"x"}`);
  const session = await letIn();
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([23]), wire.rowDescription([int4]));
  session.send(wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ name: "UsageError", code: "INVALID_PARAMETER" });
  const next = client.query("select k");
  expect(await session.flight()).toEqual(described);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(1, 2), over(1));
  expect((await next).rows).toEqual([{ n: 1 }]);
  await quiet();
});
