// What execute.ts reports at a statement's end (js/statement/execute.ts), on a connection whose queries the test
// answers by hand: the ended operation, nothing if the call was over before, or the failure.
import { expect, test } from "vitest";
import type { Operation } from "../../js/connection/operation.ts";
import type { Session } from "../../js/session/session.ts";
import { execute, Execution } from "../../js/statement/execute.ts";
import { NO_LIMITS, ROWS_COLUMNS } from "../../js/wasm/boundary.ts";
import { columnOf, NotedSession, settled, shapeOf } from "../support/noted-statements.ts";

const QUERY = { text: "select n", values: [] };
const FORM = { code: ROWS_COLUMNS, limits: NO_LIMITS };
const STATEMENT = { query: QUERY, form: FORM, newSink: () => ({ rows: () => {} }) };
const SHAPE = shapeOf([23]);

/** A session outside of transactions, on which statements are described first. */
function newSession(): { noted: NotedSession; session: Session } {
  const noted = new NotedSession();
  const { connection, catalog, statements } = noted;
  const transaction = {
    placeOf: () => "alone",
    status: "I",
    isNone: true,
    isBeginning: false,
    preludes: [],
    carried: (operation: Operation) => operation,
    prepareRepeat: () => Promise.resolve(),
  };
  const config = { ...connection.config, firstRun: "describe" };
  return { noted, session: { connection, catalog, statements, transaction, config } as unknown as Session };
}

test("execute resolves with the operation that had the rows, once the operation is over", async () => {
  const { noted, session } = newSession();
  const said: number[] = [];
  const call = Object.assign(noted.owner, { sent: (bytes: number) => void said.push(bytes) });
  const executing = execute(call, session, STATEMENT);
  noted.asked[0]!.answer(SHAPE);
  await settled();
  // The values take a count of formats and a count of values.
  expect(said).toEqual([QUERY.text.length + 2 + 2]);
  noted.asked[1]!.answer();
  expect(await executing).toBe(noted.asked[1]!.operation);
});

test.each([
  ["while it is described", 0],
  ["while it runs", 1],
])("execute resolves with undefined if the call ends %s", async (_, at) => {
  const { noted, session } = newSession();
  Object.assign(noted.call, { sent: () => {} });
  const executing = execute(noted.owner, session, STATEMENT);
  if (at > 0) noted.asked[0]!.answer(SHAPE);
  await settled();
  noted.call.finished = true;
  noted.asked[at]!.answer(at > 0 ? undefined : SHAPE);
  expect(await executing).toBeUndefined();
  expect(noted.asked).toHaveLength(at + 1);
});

test("an exception in the callback for the end is the failure of the statement", async () => {
  const { noted, session } = newSession();
  Object.assign(noted.call, { sent: () => {} });
  const failure = new Error("mine");
  const failures: unknown[] = [];
  const ended = () => {
    throw failure;
  };
  const ending = { over: () => {}, failed: (error: unknown) => void failures.push(error) };
  new Execution(noted.owner, session, { ...STATEMENT, ended }, ending).begin();
  noted.asked[0]!.answer(SHAPE);
  await settled();
  noted.asked[1]!.answer();
  await settled();
  expect(failures).toEqual([failure]);
});

test("a sink that cannot be created fails the statement, and nothing more is sent", async () => {
  const { noted, session } = newSession();
  const failure = new Error("mine");
  const newSink = () => {
    throw failure;
  };
  const executing = execute(noted.owner, session, { ...STATEMENT, newSink });
  noted.asked[0]!.answer({ ...SHAPE, columns: [columnOf(23)] });
  await expect(executing).rejects.toBe(failure);
  expect(noted.asked).toHaveLength(1);
});
