// The transaction of a session, and a BEGIN that waits for the next flight (js/session/transaction-block.ts): what is
// sent in which order, and the state after a failed flight.
import { beforeEach, expect, test } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Connection } from "../../js/connection/connection.ts";
import { Operation } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import { commit, simpleQuery, putInFront, TransactionBlock } from "../../js/session/transaction-block.ts";
import { PgzError, PostgresError } from "../../js/util/errors.ts";
import { COPY_NONE, NO_LIMITS, ROWS_NONE, type CoreConnection } from "../../js/wasm/boundary.ts";

const failure = new PostgresError({ code: "42601", message: "no" });
const loss = new PgzError("CONNECTION_LOST", "gone");

/** What a core is told, as one line each. */
function textOf(command: (handle: CoreConnection) => number): string {
  let text = "";
  command({ simple_query: (sent: string) => ((text = sent), 0) } as unknown as CoreConnection);
  return text;
}

/** A connection that records what runs on it. `rolls`: the transaction status after its ROLLBACK. */
let databases = 0;
class Wire {
  readonly config = resolveConfig(`postgres://u@memory/d${databases++}`);
  transactionStatus = "I";
  closed: PgzError | undefined;
  rolls = "I";
  readonly log: string[] = [];

  operate(command: (handle: CoreConnection) => number): Operation {
    this.log.push(textOf(command));
    return new Operation({});
  }

  abandonWithoutCancel(operation: Operation): void {
    this.log.push("abandon without a cancel");
    operation.abandon(async () => {
      await undefined;
      this.log.push("over");
      this.transactionStatus = this.rolls;
    });
  }

  destroy(error: PgzError): void {
    this.log.push(error.code);
    this.closed = error;
  }
}

let connection: Wire;
const blockOf = (statement?: string) =>
  new TransactionBlock(
    connection as unknown as Connection,
    statement === undefined ? undefined : { statement, citusStatement: `${statement} on nodes` },
  );
beforeEach(() => {
  connection = new Wire();
});

/** A block whose BEGIN waits. */
function waiting(statement?: string): TransactionBlock {
  const block = blockOf(statement);
  block.begin("begin");
  return block;
}

/** A block whose BEGIN was sent with a flight that has failed, and that flight. */
async function failedBeginning(status: string) {
  const block = waiting();
  const { operation, arrive } = fly(block);
  await arrive(status, failure);
  return { block, operation };
}

/** A flight of `block`, and its preludes. */
function fly(block: TransactionBlock) {
  const operation = new Operation({});
  const { preludes } = block;
  expect(block.carried(operation)).toBe(operation);
  /** ReadyForQuery with this status. */
  const arrive = async (status: string, error?: PgzError) => {
    connection.transactionStatus = status;
    if (error) operation.fail(error);
    operation.end();
    await operation.done;
  };
  const lose = async () => {
    operation.end(loss);
    await operation.done.catch(() => {});
  };
  return { operation, preludes, arrive, lose };
}

/** What a session reads of its block between two flights. */
const stateOf = (block: TransactionBlock) => ({
  place: block.place,
  isNone: block.isNone,
  isWaiting: block.isWaiting,
  beginFailed: block.beginFailed,
});
const NONE = { place: "alone", isNone: true, isWaiting: false, beginFailed: false };
const WAITING = { place: "begins", isNone: false, isWaiting: true, beginFailed: false };
const INSIDE = { place: "inside", isNone: false, isWaiting: false, beginFailed: false };

test("without a transaction a flight has no prelude", async () => {
  const block = blockOf();
  expect(stateOf(block)).toEqual(NONE);
  const { preludes, arrive } = fly(block);
  expect(preludes).toEqual([]);
  await arrive("I", failure);
  expect(stateOf(block)).toEqual(NONE);
});

test("BEGIN is sent with the next flight, and not again with a later one", async () => {
  const block = waiting();
  expect(stateOf(block)).toEqual(WAITING);
  const first = fly(block);
  expect(first.preludes).toEqual(["begin"]);
  await first.arrive("T");
  expect(stateOf(block)).toEqual(INSIDE);
  const second = fly(block);
  expect(second.preludes).toEqual([]);
  await second.arrive("E", failure);
  // That flight had no BEGIN.
  expect(stateOf(block)).toEqual(INSIDE);
});

test("a scope's settings precede each flight outside a transaction, and inside only that with BEGIN", async () => {
  const block = blockOf("settings");
  expect([block.settings, fly(block).preludes, fly(block).preludes]).toEqual([
    ["settings"],
    ["settings"],
    ["settings"],
  ]);
  block.begin("begin");
  const first = fly(block);
  expect(first.preludes).toEqual(["begin", "settings"]);
  await first.arrive("T");
  expect([block.settings, fly(block).preludes]).toEqual([[], []]);
  connection.transactionStatus = "E";
  expect(block.settings).toEqual([]);
});

test("a BEGIN that was withdrawn is not sent", async () => {
  const block = waiting();
  block.withdraw();
  expect(stateOf(block)).toEqual(NONE);
  expect(fly(block).preludes).toEqual([]);
});

test("a flight with BEGIN that ends outside of a transaction has not begun one, so BEGIN still waits", async () => {
  const { block } = await failedBeginning("I");
  expect(stateOf(block)).toEqual({ ...WAITING, beginFailed: true });
  const again = fly(block);
  expect(again.preludes).toEqual(["begin"]);
  await again.arrive("T");
  expect(stateOf(block)).toEqual({ ...INSIDE, beginFailed: true });
  // In the next transaction nothing has failed yet.
  block.begin("begin next");
  expect(block.beginFailed).toBe(false);
});

test("a flight with BEGIN that fails inside its transaction has begun it", async () => {
  const { block } = await failedBeginning("E");
  expect(stateOf(block)).toEqual({ ...INSIDE, beginFailed: true });
  expect(fly(block).preludes).toEqual([]);
});

test("a statement that ends its transaction in the flight with BEGIN leaves no BEGIN waiting", async () => {
  const block = waiting();
  await fly(block).arrive("I");
  expect(stateOf(block)).toEqual(NONE);
});

test("a connection that is lost during BEGIN has not refused it", async () => {
  const block = waiting();
  const { operation, lose } = fly(block);
  operation.fail(failure);
  await lose();
  expect(stateOf(block)).toEqual(WAITING);
});

// -- BEGIN in a flight of its own ------------------------------------------------------------------------------------

/** As much of a call as `begun` needs: its operations run on the connection. */
function calling(finished = false) {
  const operations: Operation[] = [];
  const call = {
    finished,
    operate: (on: Wire, command: (handle: CoreConnection) => number) => {
      const operation = on.operate(command);
      operations.push(operation);
      return operation;
    },
  };
  return { call, operations, begun: (block: TransactionBlock) => block.begun(call as unknown as AnyCall) };
}

test("if no BEGIN waits, nothing is sent, and the call continues unless it is over", async () => {
  const block = blockOf("settings");
  expect([await calling().begun(block), await calling(true).begun(block)]).toEqual([true, false]);
  expect(connection.log).toEqual([]);
});

test("BEGIN and settings are sent as one Query if they cannot be preludes of a flight", async () => {
  const block = waiting("settings");
  const { begun, operations } = calling();
  const beginning = begun(block);
  expect(connection.log).toEqual(["begin; settings"]);
  connection.transactionStatus = "T";
  operations[0]!.end();
  expect(await beginning).toBe(true);
  expect(stateOf(block)).toEqual(INSIDE);
});

test("an error of BEGIN is thrown, unless its call is over", async () => {
  for (const isOver of [false, true]) {
    const block = waiting();
    const { begun, operations, call } = calling();
    const beginning = begun(block).catch((error: unknown) => error);
    operations[0]!.fail(failure);
    operations[0]!.end();
    call.finished = isOver;
    expect(await beginning).toBe(isOver ? false : failure);
  }
});

test("a connection that is lost during BEGIN rejects", async () => {
  const block = waiting();
  const { begun, operations } = calling();
  const beginning = begun(block);
  operations[0]!.end(loss);
  await expect(beginning).rejects.toBe(loss);
});

// -- repeats and ROLLBACK --------------------------------------------------------------------------------------------

test("a failed flight that began a transaction is rolled back, and BEGIN is sent again with the repeat", async () => {
  const { block, operation } = await failedBeginning("E");
  await block.prepareRepeat(operation);
  expect(connection.log).toEqual(["ROLLBACK", "abandon without a cancel", "over"]);
  expect(stateOf(block)).toEqual(WAITING);
  expect(fly(block).preludes).toEqual(["begin"]);
});

test("of several descriptions in one go the first carries BEGIN, and their call may begin the transaction again", async () => {
  const block = blockOf();
  block.begin("begin");
  const call = {} as AnyCall;
  const describe = () => {
    const { preludes } = block;
    return { preludes, operation: block.describes(new Operation({}, call as never)) };
  };
  const [first, second] = [describe(), describe()];
  expect([first.preludes, second.preludes, block.isBeginning]).toEqual([["begin"], [], true]);
  connection.transactionStatus = "T";
  for (const { operation } of [first, second]) {
    operation.end();
    await operation.done;
  }
  expect([block.isWaiting, block.isBeginning]).toEqual([false, false]);
  expect([block.placeOf(call), block.placeOf({} as AnyCall), block.place]).toEqual(["begins", "inside", "inside"]);
  const run = block.carried(new Operation({}, call as never));
  expect([block.isBeginning, block.placeOf(call)]).toEqual([true, "inside"]);
  connection.transactionStatus = "E";
  run.fail(failure);
  run.end();
  await run.done;
  await block.prepareRepeat(run);
  expect(block.preludes).toEqual(["begin"]);
});

test("what another call sends after a description keeps the transaction", async () => {
  const block = blockOf();
  block.begin("begin");
  const [call, other] = [{} as AnyCall, {} as AnyCall];
  const described = block.describes(new Operation({}, call as never));
  connection.transactionStatus = "T";
  described.end();
  await described.done;
  const between = block.carried(new Operation({}, other as never));
  between.end();
  await between.done;
  expect(block.placeOf(call)).toBe("inside");
  const run = block.carried(new Operation({}, call as never));
  run.fail(failure);
  run.end();
  await run.done;
  await block.prepareRepeat(run);
  expect([connection.log, block.isWaiting]).toEqual([[], false]);
});

test("a flight inside a transaction, or after another BEGIN, does not make BEGIN repeat", async () => {
  const block = blockOf();
  await block.prepareRepeat(undefined);
  block.begin("begin");
  const first = fly(block);
  await first.arrive("T");
  const second = fly(block);
  await second.arrive("E", failure);
  for (const operation of [second.operation, first.operation, undefined]) await block.prepareRepeat(operation);
  expect([connection.log, stateOf(block)]).toEqual([[], INSIDE]);
  block.begin("begin next");
  const third = fly(block);
  await third.arrive("E", failure);
  await block.prepareRepeat(second.operation);
  expect([connection.log, block.isWaiting]).toEqual([[], false]);
});

test("a failed flight whose transaction was withdrawn does not make BEGIN repeat", async () => {
  const { block, operation } = await failedBeginning("E");
  block.withdraw();
  await block.prepareRepeat(operation);
  expect([connection.log, block.isWaiting]).toEqual([[], false]);
});

test("a failed flight of the previous transaction does not make the next one's BEGIN repeat", async () => {
  const { block, operation } = await failedBeginning("I");
  block.begin("begin next");
  await block.prepareRepeat(operation);
  expect(fly(block).preludes).toEqual(["begin next"]);
});

test("if the connection ends instead of rolling back, the repeat fails with the reason", async () => {
  const { block, operation } = await failedBeginning("E");
  connection.rolls = "E";
  await expect(block.prepareRepeat(operation)).rejects.toMatchObject({
    code: "CONNECTION_LOST",
    message: expect.stringContaining("could not be rolled back"),
  });
  expect(connection.log).toEqual(["ROLLBACK", "abandon without a cancel", "over", "CONNECTION_LOST"]);
});

test("ROLLBACK is sent only if a transaction is open on an open connection", async () => {
  const block = waiting();
  await block.rollBack();
  expect([connection.log, block.isWaiting]).toEqual([[], false]);
  connection.transactionStatus = "T";
  connection.closed = loss;
  await block.rollBack();
  expect(connection.log).toEqual([]);
  connection.closed = undefined;
  await block.rollBack();
  expect(connection.log).toEqual(["ROLLBACK", "abandon without a cancel", "over"]);
});

// -- what a core is told ---------------------------------------------------------------------------------------------

test("the driver's own statements ask for no rows, and COMMIT is not a Query", () => {
  const told: unknown[][] = [];
  const handle = {
    prelude: (...given: unknown[]) => void told.push(["prelude", ...given]),
    simple_query: (...given: unknown[]) => told.push(["simple_query", ...given]),
    execute: (...given: unknown[]) => told.push(["execute", ...given]),
  } as unknown as CoreConnection;
  putInFront(handle, ["a", "b"]);
  expect([simpleQuery("c")(handle), commit(handle)]).toEqual([3, 4]);
  expect(told).toEqual([
    ["prelude", "a"],
    ["prelude", "b"],
    ["simple_query", "c", COPY_NONE, ROWS_NONE, NO_LIMITS],
    // No format codes, the text, no types, and no parameters.
    ["execute", 0, new TextEncoder().encode("\0\0COMMIT\0\0\0"), new Uint8Array(4), ROWS_NONE, NO_LIMITS],
  ]);
});
