// How statements are described on one connection (js/session/statements.ts): what is asked, what is cached afterwards
// and for whom, and how names are prepared.
import { beforeEach, expect, test } from "vitest";
import type { Shape } from "../../js/server/shapes.ts";
import { PgzError, PostgresError } from "../../js/util/errors.ts";
import { columnOf, NotedSession, settled, shapeOf } from "../support/noted-statements.ts";

const failure = new PostgresError({ code: "42P01", message: "no" });
const canceled = new PostgresError({ code: "57014", message: "canceled" });
const MOOD = 20_001;
const mood = [MOOD, "e", "mood", [0], [], ","];

let session: NotedSession;
beforeEach(() => {
  session = new NotedSession();
});

const learn = (text: string) => session.statements.learn(session.owner, text);
const prepare = (...texts: string[]) => session.statements.prepare(session.owner, texts);
const last = () => session.asked.at(-1)!;

/** Describes the statement, with one answer. */
async function learned(text: string, types: number[] = [23], parameters: number[] = []): Promise<Shape> {
  const learning = learn(text);
  last().answer(shapeOf(types, parameters));
  return (await learning)!;
}

/** Answers a Describe with columns of these types, and the look-up of the types with these rows. */
async function tellTypes(types: readonly number[], ...catalog: unknown[]): Promise<void> {
  last().answer(shapeOf(types));
  await settled();
  last().tellTypes(...catalog);
}

// -- one statement ---------------------------------------------------------------------------------------------------

test("a statement is described without a name, after the settings, and can be pipelined", async () => {
  session.block.preludes.push("settings");
  const learning = learn("select n");
  expect(last().commands).toEqual([
    ["prelude", "settings"],
    ["describe", "select n", 0],
  ]);
  expect(last().operation.conversation.duplex).toBe(true);
  last().answer(shapeOf([23], [25]));
  expect(await learning).toMatchObject({
    sql: "select n",
    parameterTypes: Uint32Array.of(25),
    resultFormats: Uint8Array.of(1),
    columns: [columnOf(23)],
    types: [],
  });
  expect(session.log).toEqual([]);
});

test("a description is shared by all connections to that server, and not requested again", async () => {
  const shape = await learned("select n");
  const other = new NotedSession(session.server);
  expect([session.statements.known("select n"), other.statements.known("select n")]).toEqual([shape, shape]);
  expect(await session.statements.shape(session.owner, "select n")).toBe(shape);
  expect(session.asked).toHaveLength(1);
  expect(new NotedSession().statements.known("select n")).toBeUndefined();
  // It has not run anywhere yet.
  expect(session.statements.hasRun(shape)).toBe(false);
  session.told.remember(shape);
  expect(session.statements.hasRun(shape)).toBe(true);
});

test("a statement without a cached description is described", async () => {
  const asking = session.statements.shape(session.owner, "select n");
  last().answer(shapeOf([23]));
  expect((await asking)!.sql).toBe("select n");
});

test("an error of a description is thrown, and not cached", async () => {
  const learning = learn("select n");
  last().fail(failure);
  await expect(learning).rejects.toBe(failure);
  expect(session.statements.known("select n")).toBeUndefined();
});

test("a connection that is lost rejects the description", async () => {
  const learning = learn("select n");
  const loss = new PgzError("CONNECTION_LOST", "gone");
  last().operation.end(loss);
  await expect(learning).rejects.toBe(loss);
});

test("a call that is over learns nothing, whatever the answer", async () => {
  for (const isError of [false, true]) {
    const learning = learn("select n");
    if (isError) last().fail(failure);
    else last().answer(shapeOf([23]));
    session.call.finished = true;
    expect(await learning).toBeUndefined();
    session.call.finished = false;
  }
  expect(session.statements.known("select n")).toBeUndefined();
});

test("descriptions are separate for each schema key, and for float timestamps", async () => {
  const shape = await learned("select n");
  const known = () => session.statements.known("select n");
  session.changes.key = "1";
  expect(known()).toBeUndefined();
  const later = await learned("select n", [25]);
  session.changes.key = "2";
  expect(known()).toBeUndefined();
  session.changes.key = "1";
  session.connection.integerDatetimes = false;
  expect(known()).toBeUndefined();
  const floats = await learned("select n", [20]);
  session.changes.key = "";
  expect(known()).toBeUndefined();
  const both = await learned("select n", [21]);
  expect(known()).toBe(both);
  session.connection.integerDatetimes = true;
  expect(known()).toBe(shape);
  session.changes.key = "1";
  expect(known()).toBe(later);
  session.connection.integerDatetimes = false;
  expect(known()).toBe(floats);
});

test("a forgotten statement is described again, and one whose name is taken stays cached", async () => {
  const shape = await learned("select n");
  session.statements.forget(shape);
  expect([session.log, session.statements.known("select n")]).toEqual([[["forget", shape.id]], shape]);
  session.statements.forgetShape("select n");
  expect(session.statements.known("select n")).toBeUndefined();
});

test("a statement without binary form is requested as text from then on", async () => {
  const shape = await learned("select n");
  expect(session.statements.refuseBinary(shape)).toBe(true);
  const asText = session.statements.known("select n")!;
  expect([...asText.resultFormats]).toEqual([0]);
  expect(session.statements.refuseBinary(asText)).toBe(false);
  // So is the same type in another statement, and when this one is described anew.
  expect([...(await learned("select other")).resultFormats]).toEqual([0]);
  session.statements.forgetShape("select n");
  expect([...(await learned("select n")).resultFormats]).toEqual([0]);
});

// -- cancels for other calls -----------------------------------------------------------------------------------------

/** A CancelRequest for another call ends the query. The returned function ends that cancel. */
function hit(): () => void {
  let stop = () => {};
  session.connection.stopping = new Promise<void>((resolve) => (stop = resolve));
  Object.assign(last().operation, { mayBeHit: true, canceled: true });
  last().fail(canceled);
  return stop;
}

test("a description that a cancel for another call ended is repeated when the cancel is over", async () => {
  const preparing = prepare("select n");
  const stop = hit();
  await settled();
  expect(session.asked).toHaveLength(1);
  stop();
  await settled();
  expect(session.asked.map(({ commands }) => commands)).toEqual([
    session.asked[0]!.commands,
    session.asked[0]!.commands,
  ]);
  last().answer(shapeOf([23]));
  expect(await preparing).toMatchObject([{ sql: "select n" }]);
});

test("inside a transaction, which has failed too, a cancelled description is not repeated", async () => {
  const learning = learn("select n");
  session.connection.transactionStatus = "E";
  hit()();
  await expect(learning).rejects.toBe(canceled);
  expect(session.asked).toHaveLength(1);
});

test("a call that ends during that cancel asks nothing more", async () => {
  const learning = learn("select n");
  const stop = hit();
  await settled();
  session.call.finished = true;
  stop();
  expect(await learning).toBeUndefined();
  expect(session.asked).toHaveLength(1);
});

// -- names -----------------------------------------------------------------------------------------------------------

test("statements are prepared in one flight, and each has its shape or its error", async () => {
  const preparing = prepare("select n", "select from from", "select m");
  expect(session.asked).toHaveLength(3);
  const [first, , third] = session.asked.map(({ commands }) => commands[0]![2] as number);
  // A name that may be prepared already is closed first, because it could be of an older version.
  expect(session.log).toEqual(session.asked.map(({ commands }) => ["forget", commands[0]![2]]));
  session.asked[0]!.answer(shapeOf([23]));
  session.asked[1]!.fail(failure);
  session.asked[2]!.answer(shapeOf([25]));
  expect(await preparing).toMatchObject([{ sql: "select n", id: first }, failure, { sql: "select m", id: third }]);
  expect(session.told.hasRun({ id: first } as Shape)).toBe(true);
  expect(session.log).toHaveLength(3);
});

test("a known statement is prepared under its own id if it has not changed", async () => {
  const shape = await learned("select n");
  const preparing = prepare("select n");
  expect(last().commands).toEqual([["describe", "select n", shape.id]]);
  last().answer(shapeOf([23]));
  expect(await preparing).toEqual([shape]);
  expect(session.log).toEqual([["forget", shape.id]]);
});

test("a statement that has changed does not use the id of the previous one", async () => {
  const shape = await learned("select n");
  const preparing = prepare("select n");
  last().answer(shapeOf([25]));
  const [changed] = (await preparing) as Shape[];
  expect(changed!.id).not.toBe(shape.id);
  expect(session.log).toEqual([
    ["forget", shape.id],
    ["forget", shape.id],
  ]);
  // A description without a name needs no id.
  await learned("select n", [20]);
  expect(session.log).toHaveLength(2);
});

test("a call that is over prepares no statement", async () => {
  const preparing = prepare("select n", "select m");
  for (const asked of session.asked) asked.answer(shapeOf([23]));
  session.call.finished = true;
  expect(await preparing).toBeUndefined();
});

// -- types of the database -------------------------------------------------------------------------------------------

test("types of the database are looked up, told to the core, and read in binary if possible", async () => {
  session.textTypes.add(MOOD + 1);
  const learning = learn("select m");
  last().answer({ ...shapeOf([MOOD, MOOD + 1, 23]), resultFormats: [0, 0, 1] });
  await settled();
  expect(last().commands[0]![0]).toBe("simple_query");
  last().tellTypes(mood, [MOOD + 1, "d", "own", [17], [], ","]);
  const shape = (await learning)!;
  // An enum is read as text, because the same text may return another enum.
  expect([...shape.resultFormats]).toEqual([0, 0, 1]);
  expect(shape.types.map(({ oid }) => oid)).toEqual([MOOD, MOOD + 1]);
  expect(session.log).toEqual([
    ["define_types", Uint32Array.of(MOOD, 0, 25, 0, MOOD + 1, 0, 17, 0), new Uint32Array(), ""],
  ]);
  // A type is told only once.
  session.statements.define({} as never, shape.types);
  expect(session.statements.known("select m")).toBe(shape);
});

test("without types of the database the formats are those that the core has reported", async () => {
  const learning = learn("select n");
  last().answer({ ...shapeOf([23, 25]), resultFormats: [1, 0] });
  expect([...(await learning)!.resultFormats]).toEqual([1, 0]);
});

test("a statement whose types were dropped is no longer cached", async () => {
  const learning = learn("select m");
  await tellTypes([MOOD], mood);
  const shape = await learning;
  expect(session.statements.known("select m")).toBe(shape);
  session.statements.handlers.shapeChanged!({ typeOid: MOOD } as never, []);
  expect(session.statements.known("select m")).toBeUndefined();
  expect(session.catalog.question([{ typeOid: MOOD }])).toBeDefined();
});

test("changed columns drop the description of each statement of the call, at once", async () => {
  await learned("select n");
  await learned("select m");
  await learned("select o");
  session.statements.handlers.shapeChanged!({ typeOid: MOOD } as never, ["select n", "select o"]);
  expect(["select n", "select m", "select o"].map((text) => session.statements.known(text) !== undefined)).toEqual([
    false,
    true,
    false,
  ]);
});

test.each([
  ["binary, so it says itself what it is", [1], columnOf(20), "read"],
  ["the text of an enum", [0], { ...columnOf(20_002), typeSize: 4 }, "read"],
  ["the text of varchar", [0], columnOf(1043), "read"],
  ["the text of an array", [0], { ...columnOf(20_002), typeSize: -1 }, "refused"],
  ["the text of a built-in type, which depends on settings", [0], columnOf(701), "refused"],
] as const)("a column of another type than was described is %s: %s", async (_, resultFormats, column, outcome) => {
  const learning = learn("select n");
  last().answer({ ...shapeOf([25]), resultFormats });
  const shape = (await learning)!;
  session.told.remember(shape);
  const told = () => session.statements.handlers.columns!({ shape: shape.id, columns: [column] } as never);
  if (outcome === "read") told();
  else expect(told).toThrow(expect.objectContaining({ code: "SHAPE_CHANGED" }));
  expect(session.statements.known("select n")).toBe(outcome === "read" ? shape : undefined);
  // What the core has told it tells no second time.
  expect(session.told.columns(shape)).toEqual([column]);
});

test.each([
  ["as text, like the only one that was described", [25], 20_002, "refused"],
  ["as text, where none was described", [], 701, "refused"],
  ["in binary, like the only one that was described", [23], 20_002, "read"],
] as const)("a column that is new, and comes %s: %#", async (_, types, typeOid, outcome) => {
  const learning = learn("select n");
  last().answer({ ...shapeOf(types), resultFormats: types.map((oid) => (oid === 25 ? 0 : 1)) });
  const shape = (await learning)!;
  session.told.remember(shape);
  const columns = [...types.map((oid) => columnOf(oid)), { ...columnOf(typeOid), typeSize: -1 }];
  const told = () => session.statements.handlers.columns!({ shape: shape.id, columns } as never);
  if (outcome === "refused") expect(told).toThrow(expect.objectContaining({ code: "SHAPE_CHANGED" }));
  else told();
});

test("a statement with a type that is gone is described once more, under the same name", async () => {
  const preparing = prepare("select m");
  const first = last();
  await tellTypes([MOOD]);
  await settled();
  expect(session.asked).toHaveLength(3);
  expect(last().commands).toEqual(first.commands);
  last().answer(shapeOf([23]));
  expect(await preparing).toMatchObject([{ columns: [columnOf(23)], id: first.commands[0]![2] }]);
  expect(session.asked).toHaveLength(3);
});

test("two statements with the same type that is gone are both described once more", async () => {
  const preparing = session.statements.prepare(session.owner, ["select m", "select m, n"]);
  for (const asked of session.asked.splice(0)) asked.answer(shapeOf([MOOD]));
  await settled();
  last().tellTypes();
  for (const text of ["select m", "select m, n"]) {
    await settled();
    expect(last().commands[0]!.slice(0, 2)).toEqual(["describe", text]);
    last().answer(shapeOf([23]));
  }
  expect((await preparing)!.map((shape) => (shape as Shape).columns)).toEqual([[columnOf(23)], [columnOf(23)]]);
});

test("a type that the catalog does not have is text, once it has been described a second time", async () => {
  const learning = learn("select m");
  await tellTypes([MOOD]);
  await settled();
  last().answer({ ...shapeOf([MOOD]), resultFormats: [0] });
  expect([...(await learning)!.resultFormats]).toEqual([0]);
  expect(session.asked).toHaveLength(3);
});

test("in a failed transaction no types are asked for, and nothing is cached without them", async () => {
  const preparing = session.statements.prepare(session.owner, ["select m", "select"]);
  const [first, second] = session.asked;
  first!.answer(shapeOf([MOOD]));
  session.connection.transactionStatus = "E";
  second!.fail(failure);
  expect(await preparing).toMatchObject([{ sql: "select m" }, failure]);
  expect(session.asked).toHaveLength(2);
  expect(session.statements.known("select m")).toBeUndefined();
});

test.each(["the catalog", "the second description"])("a call that is over after %s learns nothing", async (what) => {
  const learning = learn("select m");
  await tellTypes([MOOD]);
  if (what === "the catalog") session.call.finished = true;
  await settled();
  if (what !== "the catalog") {
    last().answer(shapeOf([23]));
    session.call.finished = true;
  }
  expect(await learning).toBeUndefined();
  expect(session.statements.known("select m")).toBeUndefined();
});

test("a second description that fails because a type is gone is the error", async () => {
  const learning = learn("select m");
  await tellTypes([MOOD]);
  await settled();
  last().fail(failure);
  await expect(learning).rejects.toBe(failure);
});
