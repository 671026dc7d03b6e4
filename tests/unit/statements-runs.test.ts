// How statements run on one connection (js/session/statements.ts): what the core and the sink are told, comments, and
// which statements may run before they are described.
import { beforeEach, expect, test } from "vitest";
import type { Operation, RowSink } from "../../js/connection/operation.ts";
import { encodedStatement, newStatement, shapes, type Shape } from "../../js/server/shapes.ts";
import { PostgresError } from "../../js/util/errors.ts";
import {
  COLUMNS_KNOWN,
  NO_LIMITS,
  ROWS_ARRAYS,
  ROWS_NONE,
  type Column,
  type CoreConnection,
} from "../../js/wasm/boundary.ts";
import { columnOf, NotedSession, shapeOf } from "../support/noted-statements.ts";

const MOOD = 20_001;
const mood = { oid: MOOD, code: 0, of: 25, parts: [], names: [] };
const parameters = Uint8Array.of(0, 0, 0, 0);
const code = ROWS_ARRAYS;

let session: NotedSession;
beforeEach(() => {
  session = new NotedSession();
});

const known = (text: string, types: readonly (typeof mood)[] = []) =>
  shapes.put(session.server.unscoped.key, text, { ...shapeOf([23]), types });

/** A sink that records the columns it is told, and refuses them on request. */
function newSink(refuses = false) {
  const heard: (readonly Column[])[] = [];
  const columns = (given: readonly Column[]) => {
    if (refuses) throw new Error("other columns");
    heard.push(given);
  };
  return { heard, sink: { columns, rows: () => {} } satisfies RowSink };
}

function execute(shape: Shape, sink: RowSink = { rows: () => {} }, preludes: readonly string[] = []): Operation {
  session.block.preludes.splice(0, Infinity, ...preludes);
  const request = { code, limits: NO_LIMITS };
  return session.statements.execute(session.owner, { shape, parameters }, request, sink);
}

// -- executions ------------------------------------------------------------------------------------------------------

test("an execution is sent after its preludes, and after the types that the core must know", () => {
  const shape = known("select m", [mood]);
  const { sink } = newSink();
  const operation = execute(shape, sink, ["begin", "settings"]);
  const types = Uint32Array.of(MOOD, 0, 25, 0);
  const sent = ["execute", shape.id, encodedStatement(shape), parameters, code, NO_LIMITS];
  expect(session.asked[0]!.commands).toEqual([
    ["prelude", "begin"],
    ["prelude", "settings"],
    ["define_types", types, new Uint32Array(), ""],
    sent,
  ]);
  expect(operation).toBe(session.asked[0]!.operation);
  expect(operation.conversation.rows).toBe(sink);
  expect(session.statements.hasRun(shape)).toBe(true);
  execute(shape);
  expect(session.asked[1]!.commands).toEqual([sent]);
});

test("cached columns are passed to the sink at once, and the core does not report them again", () => {
  const shape = known("select n");
  const first = execute(shape, newSink().sink);
  const columns = [columnOf(23)];
  first.conversation.on!.columns!({ shape: shape.id, columns } as never);
  const { heard, sink } = newSink();
  execute(shape, sink);
  expect(heard).toEqual([columns]);
  expect(session.asked[1]!.commands[0]![4]).toBe(code | COLUMNS_KNOWN);
  // The same without columns handlers in the sink.
  execute(shape);
  expect(session.asked[2]!.commands[0]![4]).toBe(code | COLUMNS_KNOWN);
});

test("columns of an unknown statement are not passed on", () => {
  const shape = known("select n");
  const first = execute(shape);
  first.conversation.on!.columns!({ shape: 0, columns: [columnOf(23)] } as never);
  const { heard, sink } = newSink();
  execute({ ...shape, id: 0 }, sink);
  expect(heard).toEqual([]);
});

test("if the sink refuses the columns, the core reports them again, because they may have changed", () => {
  const shape = known("select n");
  session.told.learnColumns(shape.id, [columnOf(23)]);
  execute(shape, newSink(true).sink);
  expect(session.asked[0]!.commands[0]![4]).toBe(code);
});

test("a sink is told the columns again at its turn if an earlier operation changed them", () => {
  const shape = known("select n");
  const [before, after] = [[columnOf(23)], [columnOf(25)]];
  session.told.remember(shape);
  session.told.learnColumns(shape.id, before);
  const { heard, sink } = newSink();
  const operation = execute(shape, sink);
  operation.conversation.isNext!();
  expect(heard).toEqual([before]);
  session.told.learnColumns(shape.id, after);
  operation.conversation.isNext!();
  expect(heard).toEqual([before, after]);
  // All names may be gone by then.
  session.told.forgetAll();
  operation.conversation.isNext!();
  expect(heard).toEqual([before, after]);
});

test("a sink that was told no columns gets them from the core alone", () => {
  const shape = known("select n");
  const { heard, sink } = newSink();
  const operation = execute(shape, sink);
  session.told.learnColumns(shape.id, [columnOf(23)]);
  operation.conversation.isNext!();
  expect(heard).toEqual([]);
  const silent = execute(shape);
  session.told.learnColumns(shape.id, [columnOf(25)]);
  silent.conversation.isNext!();
});

test("a statement of a batch is added where its items find it, and counts as run here", () => {
  const shape = known("select n");
  const commands: unknown[] = [];
  const handle = { batch_statement: (...given: unknown[]) => void commands.push(given) } as unknown as CoreConnection;
  session.statements.addToBatch(handle, shape, session.owner);
  expect(commands).toEqual([[shape.id, encodedStatement(shape)]]);
  expect(session.statements.hasRun(shape)).toBe(true);
});

test.each([
  ["auto", 100, false],
  ["named", 1, false],
  ["named", 0, true],
  ["unnamed", 100, true],
] as const)("prepare %s with room for %i names: a comment stands behind the text: %s", (prepare, room, isSaid) => {
  Object.assign(session.connection.config, { prepare, statementCacheSize: room });
  const shape = known("select n");
  const textOf = () => session.asked.at(-1)!.commands[0]![2];
  execute(shape);
  expect(textOf()).toBe(encodedStatement(shape));
  session.call.comment = "\n/*a='1'*/";
  execute(shape);
  expect(textOf()).toEqual(newStatement(shape, isSaid ? "select n\n/*a='1'*/" : "select n"));
});

// -- what may run first ----------------------------------------------------------------------------------------------

const asRows = { code, policy: undefined };
const first = (text = "select n", request: Parameters<typeof session.statements.firstRun>[2] = asRows) =>
  session.statements.firstRun(text, [], request);
const failed = (message: string, code = "22P02") =>
  session.statements.noteFailedCheck(new PostgresError({ code, message }));
const SETTINGS = 'invalid: "pgz-edge: settings 0ISO"';

test("a statement may run first on a server with a recent version, or with an unknown one", () => {
  const runs = (version?: string) => {
    if (version) session.connection.parameters.set("server_version", version);
    return first();
  };
  expect(runs()!.check.sql).toContain("server_version_num");
  expect(runs("18.1")!.check.sql).not.toContain("server_version_num");
  expect(runs("11.22")).toBeUndefined();
});

test("the check looks at columns if rows are wanted, and before PostgreSQL 16 only a statement without runs first", () => {
  const looks = (request = asRows) => first("select n", request)?.check.sql.includes("result_types");
  const without = { ...asRows, code: ROWS_NONE };
  expect([looks(), looks(without)]).toEqual([true, false]);
  session.connection.parameters.set("server_version", "15.4");
  expect([looks(), looks(without)]).toEqual([undefined, false]);
  session.connection.parameters.set("server_version", "16.0");
  expect([looks(), looks(without)]).toEqual([true, false]);
});

test("the check leaves out types that are known, and covers any size if there are parsers", () => {
  session.catalog.learn([{ typeOid: MOOD }], [[MOOD, "e", "mood", [0], [], ","]]);
  const runOf = (parsers?: object) => first("select n", { code, policy: { parsers } as never })!;
  expect(runOf().check.sql).toContain(`<>)all('{${MOOD}}'`);
  expect(runOf().known).toEqual([MOOD]);
  expect([runOf(), runOf({})].map(({ check }) => check.sql.includes("typlen operator(pg_catalog.<)0"))).toEqual([
    true,
    false,
  ]);
});

test("a check that fails for settings makes this session describe all, and a second one the whole server", () => {
  failed(SETTINGS);
  expect(first()).toBeUndefined();
  // The same session fails again, because of calls that were in flight.
  failed(SETTINGS);
  session = new NotedSession(session.server);
  expect(first()).toBeDefined();
  failed(SETTINGS);
  session = new NotedSession(session.server);
  expect(first()).toBeUndefined();
});

test("a check that passes in between resets the count of failures", () => {
  const { server } = session;
  failed(SETTINGS);
  new NotedSession(server).statements.checkPassed();
  session = new NotedSession(server);
  failed(SETTINGS);
  session = new NotedSession(server);
  expect(first()).toBeDefined();
});

test("a check that fails for types affects no other statement", () => {
  for (const _ of "123") failed('invalid: "pgz-edge: types"');
  expect(first()).toBeDefined();
});

test("a check whose name is gone does not count as failed, except behind a pooler", () => {
  failed("prepared statement does not exist", "26000");
  expect(first()).toBeDefined();
  session.connection.isPooled = true;
  failed("prepared statement does not exist", "26000");
  expect(first()).toBeUndefined();
});

test("what the catalog must be asked for, after a description, is asked without describing again", async () => {
  const learned = shapeOf([MOOD]);
  const learning = session.statements.learn(session.owner, "select m", learned);
  expect(session.asked.map(({ commands }) => commands[0]![0])).toEqual(["simple_query"]);
  session.catalog.learn([{ typeOid: MOOD }], [[MOOD, "e", "mood", [0], [], ","]]);
  session.asked[0]!.operation.end();
  expect(await learning).toBe(session.statements.known("select m"));
  const again = session.statements.learn(session.owner, "select m, 2", learned);
  expect(await again).toBe(session.statements.known("select m, 2"));
  expect(session.asked).toHaveLength(1);
});

test("the check has a name on its connection, except behind a pooler", () => {
  const { check } = first()!;
  expect([session.statements.checkIdFor(check, true), session.told.hasRun(check as never)]).toEqual([0, false]);
  expect([session.statements.checkIdFor(check, false), session.told.hasRun(check as never)]).toEqual([check.id, true]);
});

test("what a first run learns is shared, once the catalog knows the types", () => {
  const enumerated = shapeOf([MOOD]);
  const learned = { ...enumerated, columns: enumerated.columns.map((column) => ({ ...column, typeSize: -1 })) };
  expect(first("select m")).toBeDefined();
  expect(session.statements.learnedNow("select m", learned, 77)).toBeUndefined();
  expect(session.statements.known("select m")).toBeUndefined();
  // It would not be known after another first run either.
  expect(first("select m")).toBeUndefined();
  // The text of a type of fixed size is its value.
  expect(session.statements.learnedNow("select e", enumerated, 78)).toBe(session.statements.known("select e"));
  session.catalog.learn([{ typeOid: MOOD }], [[MOOD, "e", "mood", [0], [], ","]]);
  const shape = session.statements.learnedNow("select m", { ...learned, resultFormats: [0] }, 77)!;
  expect(shape).toMatchObject({ id: 77, sql: "select m", types: session.catalog.definitions([{ typeOid: MOOD }]) });
  expect([...shape.resultFormats]).toEqual([1]);
  expect(session.statements.known("select m")).toBe(shape);
});
