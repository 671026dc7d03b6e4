// Queries to a server's catalog on a call's connection (js/session/catalog-questions.ts): what is asked when, what a
// failure means, and how the call proceeds meanwhile.
import { beforeEach, expect, test } from "vitest";
import type { Connection } from "../../js/connection/connection.ts";
import { Operation, type Conversation } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import { Catalog } from "../../js/server/catalog.ts";
import { learnNames, learnTypes } from "../../js/session/catalog-questions.ts";
import { PgzError, PostgresError, ProtocolError } from "../../js/util/errors.ts";
import type { Parser, ValuePolicy } from "../../js/values/converters.ts";
import { COPY_NONE, NO_LIMITS, ROWS_ARRAYS, type Column, type CoreConnection } from "../../js/wasm/boundary.ts";

const typed = (...oids: number[]) => oids.map((typeOid) => ({ typeOid })) as unknown as Column[];
const MOOD = 20_001;
const mood = [MOOD, "e", "mood", [0], [], ","];

/** A catalog query in flight, which the test answers. */
class Asking {
  readonly operation: Operation;
  readonly text: string;
  constructor(command: (handle: CoreConnection) => number, conversation: Conversation) {
    this.operation = new Operation(conversation);
    let given: unknown[] = [];
    command({ simple_query: (...all: unknown[]) => ((given = all), 0) } as unknown as CoreConnection);
    this.text = given[0] as string;
    // The query returns one row, as JSON, which must be complete when the operation ends.
    expect([...given.slice(1), conversation.severalResults]).toEqual([COPY_NONE, ROWS_ARRAYS, NO_LIMITS, true]);
  }

  /** Answers with this text, in pieces, and then with ReadyForQuery. */
  answer(...pieces: string[]): void {
    const { rows, on } = this.operation.conversation;
    for (const piece of pieces) rows!.rows(new TextEncoder().encode(piece));
    Object.assign(this.operation, { rowCount: 1, bytes: 99, command: "SELECT" });
    on!.complete!("SELECT", 1);
    this.operation.end();
  }

  fail(error: PgzError): void {
    this.operation.fail(error);
    this.operation.end();
  }

  /** A CancelRequest for another call ends the query. */
  hit(): void {
    Object.assign(this.operation, { mayBeHit: true, canceled: true });
    this.fail(error("57014"));
  }
}

const error = (code: string) => new PostgresError({ code, message: "no" });
const answerOf = (...rows: unknown[]) => JSON.stringify([rows]);

let asked: Asking[];
let call: { finished: boolean };
let connection: { transactionStatus: string; stopping: Promise<unknown> | undefined };
let catalog: Catalog;
beforeEach(() => {
  asked = [];
  call = {
    finished: false,
    operate: (on: unknown, command: (handle: CoreConnection) => number, conversation: Conversation) => {
      expect(on).toBe(connection);
      const asking = new Asking(command, conversation);
      asked.push(asking);
      return asking.operation;
    },
  } as unknown as typeof call;
  connection = { transactionStatus: "I", stopping: undefined };
  catalog = new Catalog();
});

const real = () => [call as AnyCall, connection as Connection, catalog] as const;
const learn = (...oids: number[]) => learnTypes(...real(), typed(...oids));
const known = (...oids: number[]) => catalog.definitions(typed(...oids)).map(({ oid }) => oid);
/** Lets all pending promises settle. */
const settled = () => new Promise(setImmediate);

// -- types -----------------------------------------------------------------------------------------------------------

test("types are looked up once, in one flight, and built-in types never", async () => {
  expect(await learn(23, 25)).toBe(true);
  expect(asked).toHaveLength(0);
  const question = catalog.question(typed(MOOD));
  const learning = learn(23, MOOD);
  expect(asked.map(({ text }) => text)).toEqual([question]);
  const text = answerOf(mood);
  asked[0]!.answer(text.slice(0, 5), text.slice(5));
  expect(await learning).toBe(true);
  expect(known(MOOD)).toEqual([MOOD]);
  expect(await learn(23, MOOD)).toBe(true);
  expect(asked).toHaveLength(1);
});

test("a catalog that has none of the types answers null", async () => {
  const learning = learn(MOOD);
  asked[0]!.answer("[null]");
  expect([await learning, known(MOOD), catalog.question(typed(MOOD))]).toEqual([true, [], undefined]);
});

test("a catalog query adds nothing to the call's rows, bytes or command", async () => {
  const learning = learn(MOOD);
  const [{ operation }] = asked as [Asking];
  asked[0]!.answer(answerOf(mood));
  await learning;
  expect([operation.rowCount, operation.bytes, operation.command]).toEqual([null, 0, ""]);
});

test.each(["42P01", "0A000", "XX000", "unreadable"])(
  "on a server without such a catalog (%s) types stay text, and no call asks again",
  async (code) => {
    const learning = learn(MOOD);
    if (code === "unreadable") asked[0]!.answer("[[");
    else asked[0]!.fail(error(code));
    expect([await learning, known(MOOD)]).toEqual([true, []]);
    expect(await learn(MOOD)).toBe(true);
    expect(asked).toHaveLength(1);
  },
);

test.each(["57014", "55P03", "53200", "P0042", "22XX0"])(
  "a failure that says nothing about the catalog fails the call (%s), and the next call asks again",
  async (code) => {
    const learning = learn(MOOD);
    asked[0]!.fail(error(code));
    await expect(learning).rejects.toMatchObject({ code });
    void learn(MOOD);
    expect(asked).toHaveLength(2);
  },
);

test("a failure that ends the transaction fails the call, whatever it says about the catalog", async () => {
  const learning = learn(MOOD);
  connection.transactionStatus = "E";
  asked[0]!.fail(error("42P01"));
  await expect(learning).rejects.toMatchObject({ code: "42P01" });
  expect(catalog.question(typed(MOOD))).toBeDefined();
});

test("a failure inside a transaction that continues means that there is no catalog", async () => {
  const learning = learn(MOOD);
  connection.transactionStatus = "T";
  asked[0]!.fail(error("42P01"));
  expect([await learning, catalog.question(typed(MOOD))]).toEqual([true, undefined]);
});

test("a connection that is lost during the query rejects the look-up", async () => {
  const learning = learn(MOOD);
  const loss = new PgzError("CONNECTION_LOST", "gone");
  asked[0]!.operation.end(loss);
  await expect(learning).rejects.toBe(loss);
});

test.each(["answered", "failed"])("a call that is over when its query is %s asks nothing more", async (how) => {
  const learning = learn(MOOD);
  if (how === "answered") asked[0]!.answer(answerOf(mood));
  else asked[0]!.fail(error("57014"));
  call.finished = true;
  expect(await learning).toBe(false);
});

// -- a cancel for another call ---------------------------------------------------------------------------------------

test("a query that a cancel for another call has ended is repeated when no cancel is in flight", async () => {
  const learning = learn(MOOD);
  let stopped = () => {};
  connection.stopping = new Promise<void>((resolve) => (stopped = resolve));
  asked[0]!.hit();
  await settled();
  expect(asked).toHaveLength(1);
  stopped();
  await settled();
  expect(asked.map(({ text }) => text)).toEqual([asked[0]!.text, asked[0]!.text]);
  asked[1]!.answer(answerOf(mood));
  expect([await learning, known(MOOD)]).toEqual([true, [MOOD]]);
});

test.each(["T", "E"])("a cancelled query is not repeated inside a transaction (%s)", async (status) => {
  const learning = learn(MOOD);
  connection.transactionStatus = status;
  asked[0]!.hit();
  await expect(learning).rejects.toMatchObject({ code: "57014" });
  expect(asked).toHaveLength(1);
});

test.each(["before", "while a cancel is in flight"])(
  "a cancelled query is not repeated for a call that is over %s",
  async (when) => {
    const learning = learn(MOOD);
    let stopped = () => {};
    connection.stopping = new Promise<void>((resolve) => (stopped = resolve));
    asked[0]!.hit();
    if (when === "before") call.finished = true;
    else {
      await settled();
      call.finished = true;
      stopped();
    }
    expect(await learning).toBe(false);
    expect(asked).toHaveLength(1);
  },
);

test("a query is not repeated after the call's own cancel or a server's timeout", async () => {
  for (const [at, facts] of [{ mayBeHit: true }, { canceled: true }].entries()) {
    const learning = learn(MOOD);
    Object.assign(asked[at]!.operation, facts);
    asked[at]!.fail(error("57014"));
    await expect(learning).rejects.toMatchObject({ code: "57014" });
    expect(asked).toHaveLength(at + 1);
  }
});

// -- names -----------------------------------------------------------------------------------------------------------

const parse: Parser = (value) => value as unknown;
const policyOf = (...names: string[]) =>
  ({ parsers: new Map(names.map((name) => [name, parse])) }) as unknown as ValuePolicy;
const namesOf = (policy: ValuePolicy | undefined) => learnNames(...real(), policy);

test("without parsers no name is looked up", async () => {
  expect(await namesOf(undefined)).toBe(true);
  expect(await namesOf({ parsers: undefined } as ValuePolicy)).toBe(true);
  expect(asked).toHaveLength(0);
});

test("parsers are found by the types of their names, which are looked up once", async () => {
  const policy = policyOf("mood", "1700");
  const learning = namesOf(policy);
  expect(asked.map(({ text }) => text)).toEqual([catalog.nameQuestion(["mood"])]);
  asked[0]!.answer(`[{"mood": ${MOOD}}]`);
  expect(await learning).toBe(true);
  expect(catalog.parsersByOid(policy.parsers!)).toEqual(
    new Map([
      [MOOD, parse],
      [1_700, parse],
    ]),
  );
  expect(await namesOf(policyOf("mood"))).toBe(true);
  expect(asked).toHaveLength(1);
});

test("the same parsers may have other types on another server", () => {
  const parsers = policyOf("mood").parsers!;
  const other = new Catalog();
  catalog.learnNames({ mood: MOOD });
  other.learnNames({ mood: 7 });
  for (const one of [catalog, other]) one.resolve(parsers);
  expect([catalog, other].map((one) => [...one.parsersByOid(parsers)!.keys()])).toEqual([[MOOD], [7]]);
});

test("a parser for a type that the database does not have is an error with its name", async () => {
  const learning = namesOf(policyOf("mood", "none"));
  asked[0]!.answer(`[{"mood": ${MOOD}, "none": null}]`);
  await expect(learning).rejects.toMatchObject({
    name: "UsageError",
    code: "INVALID_OPTION",
    message: expect.stringContaining('"none"'),
  });
});

test("a failed look-up of names fails the call, unless the call is over", async () => {
  const failed = namesOf(policyOf("mood"));
  asked[0]!.fail(error("42501"));
  await expect(failed).rejects.toMatchObject({ code: "42501" });
  const unreadable = namesOf(policyOf("mood"));
  asked[1]!.answer("{");
  await expect(unreadable).rejects.toSatisfy(
    (found: unknown) => found instanceof ProtocolError && found.cause instanceof SyntaxError,
  );
  const over = namesOf(policyOf("mood"));
  asked[2]!.fail(error("42501"));
  call.finished = true;
  expect(await over).toBe(false);
});
