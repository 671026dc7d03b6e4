// What the answers of a batch mean for its items (js/statement/batch-run.ts): which item each row belongs to, which
// error each item failed with, and from which item on the batch may run again.
import { expect, test } from "vitest";
import type { Reached } from "../../js/connection/operation.ts";
import type { ValueForm } from "../../js/rows/form.ts";
import type { EncodedBatch } from "../../js/statement/batch-encoding.ts";
import { BatchRun, type Settled } from "../../js/statement/batch-run.ts";
import { fromErrorResponse, type PgzError } from "../../js/util/errors.ts";
import { NO_LIMITS, ROWS_COLUMNS, ROWS_NDJSON, ROWS_NONE, type Column } from "../../js/wasm/boundary.ts";
import { batchOf, INT } from "../support/batch.ts";

const BOUND: Reached = { hasBound: true, failedPart: undefined };
const NOT_BOUND: Reached = { hasBound: false, failedPart: undefined };
const BEFORE: Reached = { hasBound: false, failedPart: "prelude" };

const column = (name: string): Column => ({
  ...{ name, tableOid: 0, columnAttributeNumber: 0, typeOid: 23, typeSize: 4, typeModifier: -1, formatCode: 1 },
});
const error = (code: string, routine?: string): PgzError =>
  fromErrorResponse({ severity: "ERROR", code, message: code, ...(routine && { routine }) });

interface Settings {
  readonly form?: number;
  readonly atomic?: boolean;
  readonly unique?: boolean;
  readonly texts?: readonly string[];
  /** The user's parser of integers. */
  readonly parse?: (value: unknown) => unknown;
  /** The number of each item's statement, and the places of the items in the batch. */
  readonly numbers?: readonly number[];
  readonly order?: readonly number[];
}

function newRun(settings: Settings = {}) {
  const {
    form = ROWS_COLUMNS,
    atomic = false,
    unique = false,
    parse,
    numbers = [0, 0, 0],
    order,
    texts = [],
  } = settings;
  const statements = texts.map((sql) => ({ sql }));
  const encoded = { numbers, order: order ?? numbers.map((_, at) => at), statements } as unknown as EncodedBatch;
  const policy = {
    int8: "string",
    numeric: "string",
    dates: "string",
    bytea: "bytes",
    parsers: parse && new Map([["int4", parse]]),
  };
  const valueForm = { code: form, limits: NO_LIMITS, contentType: "", unique, policy } as unknown as ValueForm;
  const learned: unknown[] = [];
  const learning = { columns: (event: unknown) => void learned.push(event) };
  const run = new BatchRun<unknown>(encoded, { atomic, form: valueForm, mode: "objects" as never }, learning, {
    parsersByOid: (parsers) => new Map([[23, parsers.get("int4")!]]),
  });
  const { rows, on } = run.conversation;
  return {
    run,
    learned,
    columns: (...names: string[]) => rows!.columns!(names.map(column)),
    rows: (...values: number[]) =>
      rows!.rows(
        batchOf(
          [INT],
          values.map((value) => [value]),
        ),
      ),
    bytes: (text: string) => rows!.rows(new TextEncoder().encode(text)),
    /** Ends an item whose rows have `output` units. */
    ended: (command: string, output = 0) => on!.items!([{ command, rowCount: output, output }]),
    failed: (failure: PgzError, reached = BOUND, output = 0) => {
      on!.items!([{ command: null, rowCount: null, output }]);
      return on!.error!(failure, reached);
    },
    switchTo: (statement: number) => on!.switch!({ kind: "switch", statement }),
    settled() {
      const settled: Settled<unknown>[] = [];
      run.settle(settled, "alone");
      return settled;
    },
  };
}

const reasons = (settled: Settled<unknown>[]) =>
  settled.map((one) => (one.status === "rejected" ? (one.reason as PgzError).code : one.value.command));

test("a batch is one conversation with several results, and its items are isolated unless it is atomic", () => {
  for (const atomic of [false, true])
    expect(newRun({ atomic }).run.conversation).toMatchObject({
      duplex: true,
      severalResults: true,
      isolated: !atomic,
    });
});

test("the answers of a batch teach the same descriptions as those of a single statement", () => {
  const { run, learned } = newRun();
  const event = { kind: "columns" as const, shape: 1, columns: [] };
  run.conversation.on!.columns!(event);
  expect(learned).toEqual([event]);
});

test("each item gets its own rows with its statement's columns, in any order of the items", () => {
  const { columns, rows, ended, switchTo, settled, run } = newRun({ numbers: [0, 1, 0, 1], order: [3, 1, 0, 2] });
  columns("a");
  rows(1, 2);
  rows(3);
  ended("SELECT", 3);
  columns("b");
  rows(4);
  ended("SELECT", 1);
  switchTo(0);
  rows(6);
  ended("SELECT", 1);
  switchTo(1);
  rows(5);
  ended("SELECT", 1);
  const all = settled();
  expect(all.map((one) => one.status === "fulfilled" && one.value.rows)).toEqual([
    [{ a: 6 }],
    [{ b: 4 }],
    [{ b: 5 }],
    [{ a: 1 }, { a: 2 }, { a: 3 }],
  ]);
  expect(all.map((one) => one.status === "fulfilled" && one.value.fields!.map(({ name }) => name))).toEqual([
    ["a"],
    ["b"],
    ["b"],
    ["a"],
  ]);
  expect(all[3]).toMatchObject({ value: { command: "SELECT", rowCount: 3 } });
  expect([run.ended, run.commands]).toEqual([4, ["SELECT", "SELECT", "SELECT", "SELECT"]]);
});

test("as bytes, each item gets its own part of the output, and an item without rows gets an empty array", () => {
  const { columns, bytes, ended, failed, settled } = newRun({ form: ROWS_NDJSON, numbers: [1, 1, 0, 1] });
  columns("a");
  bytes('{"a":1}\n{"a"');
  bytes(":2}\n");
  ended("SELECT", 16);
  failed(error("22012"), BOUND, 3);
  bytes("xyz");
  ended("INSERT", 0);
  bytes('{"a":3}\n');
  ended("SELECT", 8);
  const text = (item: Settled<unknown>) =>
    item.status === "fulfilled" ? new TextDecoder().decode(item.value.bytes) : undefined;
  const all = settled();
  expect(all.map(text)).toEqual(['{"a":1}\n{"a":2}\n', undefined, "", '{"a":3}\n']);
  expect(all[2]).toEqual({
    status: "fulfilled",
    value: { bytes: new Uint8Array(), rowCount: 0, command: "INSERT", fields: [] },
  });
});

test("counted, an item has only its command and its row count", () => {
  const { ended, settled } = newRun({ form: ROWS_NONE, numbers: [0] });
  ended("UPDATE", 2);
  expect(settled()).toEqual([{ status: "fulfilled", value: { command: "UPDATE", rowCount: 2 } }]);
});

test("bytes are copied, because their buffer is reused", () => {
  const { run, ended, settled } = newRun({ form: ROWS_NDJSON, numbers: [0] });
  const view = new TextEncoder().encode("ab");
  run.conversation.rows!.rows(view);
  view.fill(0);
  ended("SELECT", 2);
  expect(settled()).toMatchObject([{ value: { bytes: new TextEncoder().encode("ab") } }]);
});

test("two columns with one name end an atomic batch before any row if names must be unique", () => {
  for (const form of [ROWS_COLUMNS, ROWS_NDJSON]) {
    const { columns } = newRun({ form, unique: true, atomic: true });
    const batch = { index: 0, rolledBack: [], skipped: [] };
    expect(() => columns("a", "a")).toThrow(expect.objectContaining({ code: "DUPLICATE_COLUMN", batch }));
    expect(() => columns("a", "b")).not.toThrow();
  }
});

test("isolated items whose statement has two columns with one name are rejected, and the others have their rows", () => {
  const { columns, rows, ended, switchTo, settled } = newRun({ unique: true, numbers: [0, 1, 0, 1] });
  columns("a");
  rows(1);
  ended("SELECT", 1);
  columns("b", "b");
  ended("INSERT", 0);
  switchTo(0);
  rows(2);
  ended("SELECT", 1);
  switchTo(1);
  ended("INSERT", 0);
  const all = settled();
  expect(reasons(all)).toEqual(["SELECT", "DUPLICATE_COLUMN", "SELECT", "DUPLICATE_COLUMN"]);
  expect([all[0], all[2]]).toMatchObject([{ value: { rows: [{ a: 1 }] } }, { value: { rows: [{ a: 2 }] } }]);
});

test("a parser that throws rejects the isolated item whose row it refused, and ends an atomic batch", () => {
  const parse = (value: unknown) => {
    if (value === 2) throw new Error("a two");
    return value;
  };
  const { columns, rows, ended, settled } = newRun({ parse, numbers: [0, 1, 0, 0, 0] });
  columns("a");
  ended("SELECT", 1);
  ended("INSERT", 0);
  ended("SELECT", 2);
  ended("SELECT", 0);
  rows(1, 3, 2);
  rows(4);
  ended("SELECT", 1);
  const all = settled();
  expect(reasons(all)).toEqual(["SELECT", "INSERT", "INVALID_VALUE", "SELECT", "SELECT"]);
  expect(all[2]).toMatchObject({ reason: { transaction: "committed" } });
  expect([all[0], all[4]]).toMatchObject([{ value: { rows: [{ a: 1 }] } }, { value: { rows: [{ a: 4 }] } }]);
  const atomic = newRun({ parse, atomic: true });
  atomic.columns("a");
  atomic.ended("SELECT", 1);
  expect(() => atomic.rows(1, 2)).toThrow(
    expect.objectContaining({ batch: { index: 1, rolledBack: [], skipped: [] } }),
  );
});

test("a batch with a BEGIN of its own says of no item that it is committed", () => {
  const { columns, ended, settled } = newRun({ unique: true, numbers: [0], texts: ["begin", "select"] });
  columns("a", "a");
  ended("SELECT", 0);
  const [{ reason }] = settled() as [PromiseRejectedResult];
  expect([(reason as PgzError).code, (reason as PgzError).transaction]).toEqual(["DUPLICATE_COLUMN", undefined]);
});

// -- failures --------------------------------------------------------------------------------------------------------

test("a failed item of a batch that is not atomic leaves the others unaffected", () => {
  const { run, ended, failed, settled } = newRun();
  ended("INSERT", 1);
  expect(failed(error("22012"))).toBe(true);
  ended("INSERT", 1);
  expect(reasons(settled())).toEqual(["INSERT", "22012", "INSERT"]);
  expect([run.ended, run.unbound, (run.failure(1) as PgzError).code]).toEqual([3, [], "22012"]);
});

test("a failed item of an atomic batch fails all of it, and `ended` is the item's index", () => {
  const { run, ended, failed } = newRun({ atomic: true });
  ended("INSERT", 1);
  const failure = error("22012");
  expect(failed(failure)).toBe(false);
  expect([run.ended, run.commands, run.failure(1)]).toEqual([1, ["INSERT"], failure]);
});

test("unbound items are listed, except those that failed before their statement", () => {
  const { run, ended, failed } = newRun({ numbers: [0, 1, 2, 3] });
  failed(error("42P01"), NOT_BOUND);
  ended("SELECT");
  failed(error("42501"), BEFORE);
  failed(error("26000"), NOT_BOUND);
  expect(run.unbound).toEqual([0, 3]);
});

test("after a failed Parse, later items of that statement report its error, not a missing statement", () => {
  const { failed, settled } = newRun({ numbers: [0, 0, 1, 0] });
  failed(error("42P01"), NOT_BOUND);
  failed(error("26000"), NOT_BOUND);
  failed(error("26000"), NOT_BOUND);
  failed(error("23505"), BOUND);
  expect(reasons(settled())).toEqual(["42P01", "42P01", "26000", "23505"]);
});

test("a lost statement is retryable if it was not bound, and other failures are not", () => {
  for (const [code, reached, retryable] of [
    ["26000", NOT_BOUND, true],
    ["26000", BOUND, false],
    ["42P01", NOT_BOUND, false],
  ] as const) {
    const { failed, settled } = newRun({ numbers: [0] });
    failed(error(code), reached);
    expect(settled()).toMatchObject([{ reason: { code, retryable } }]);
  }
});

// -- repeats ---------------------------------------------------------------------------------------------------------

test("without a failure that a repeat could cure, nothing is repeated", () => {
  const { run, ended } = newRun();
  ended("SELECT");
  expect(run.repeatableFrom(undefined)).toBeUndefined();
  const atomic = newRun({ atomic: true });
  atomic.failed(error("22012"));
  expect(atomic.run.repeatableFrom(undefined)).toBeUndefined();
});

test("an atomic batch runs again from its start, unless one of its commands may have ended the transaction", () => {
  for (const [commands, from] of [
    [[], 0],
    [["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", ""], 0],
    [["SELECT", "COMMIT"], undefined],
    [["SELECT INTO"], undefined],
    [["CREATE TABLE"], undefined],
    [["REFRESH SELECT"], undefined],
  ] as const) {
    const { run, ended, failed } = newRun({ atomic: true, numbers: Array<number>(9).fill(0) });
    for (const command of commands) ended(command);
    failed(error("26000"), NOT_BOUND);
    expect(run.repeatableFrom(commands.length), commands.join()).toBe(from);
  }
});

test("a batch that is not atomic runs again from its first failed item, unless a later item has run", () => {
  const { run, ended, failed } = newRun({ numbers: [0, 1, 1, 2] });
  ended("INSERT", 1);
  failed(error("26000"), NOT_BOUND);
  failed(error("26000"), NOT_BOUND);
  expect(run.repeatableFrom(1)).toBe(1);
  expect(run.repeatableFrom(2)).toBe(2);
  expect(run.repeatableFrom(0)).toBeUndefined();
  ended("INSERT", 1);
  expect(run.repeatableFrom(1)).toBeUndefined();
  expect(run.repeatableFrom(3)).toBeUndefined();
  expect(run.repeatableFrom(4)).toBe(4);
});

test("an item that failed after Bind may have run, so nothing before it is repeated", () => {
  const { run, failed } = newRun({ numbers: [0, 1] });
  failed(error("26000"), NOT_BOUND);
  failed(error("22012"), BOUND);
  expect(run.repeatableFrom(0)).toBeUndefined();
});
