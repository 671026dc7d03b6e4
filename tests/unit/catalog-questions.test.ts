// Questions to a server's catalog on a call's connection (js/session/catalog-questions.ts): what is asked when, what a
// failure means, and what becomes of the call meanwhile.
import { beforeEach, expect, test, vi } from "vitest";
import type { Connection } from "../../js/connection/connection.ts";
import { Operation, type Conversation } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import { Catalog } from "../../js/session/catalog.ts";
import { learnNames, learnTypes, learnTypesAnew, TypesInFront } from "../../js/session/catalog-questions.ts";
import { PgzError, PostgresError, ProtocolError } from "../../js/util/errors.ts";
import type { Parser, ValuePolicy } from "../../js/values/converters.ts";
import { COPY_NONE, NO_LIMITS, ROWS_ARRAYS, type Column, type CoreConnection } from "../../js/wasm/boundary.ts";

const typed = (...oids: number[]) => oids.map((typeOid) => ({ typeOid })) as unknown as Column[];
const MOOD = 20_001;
const mood = [MOOD, "e", "mood", [0], []];
const pair = [20_003, "c", "pair", [MOOD, 23], ["a", "b"]];

/** A question on its way, which the test answers. */
class Asking {
  readonly operation: Operation;
  readonly text: string;
  constructor(command: (handle: CoreConnection) => number, conversation: Conversation) {
    this.operation = new Operation(conversation);
    let given: unknown[] = [];
    command({ simple_query: (...all: unknown[]) => ((given = all), 0) } as unknown as CoreConnection);
    this.text = given[0] as string;
    // Its one row is wanted as JSON, and must be there when it is complete.
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

  /** A CancelRequest for another call ends it. */
  hit(): void {
    Object.assign(this.operation, { exposed: true, canceled: true });
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
/** All that promises lead to. */
const settled = () => new Promise(setImmediate);

// -- types -----------------------------------------------------------------------------------------------------------

test("types are asked for in one flight, once, and those of PostgreSQL itself never", async () => {
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

test("types are asked for anew whatever is known of them", async () => {
  catalog.learn(typed(MOOD), [mood] as never);
  const question = catalog.questionAnew(typed(MOOD));
  const learning = learnTypesAnew(...real(), typed(MOOD));
  expect(asked.map(({ text }) => text)).toEqual([question]);
  asked[0]!.answer(answerOf([MOOD, "d", "mood", [25], []]));
  expect([await learning, catalog.definitions(typed(MOOD))[0]!.of]).toEqual([true, 25]);
  expect(await learnTypesAnew(...real(), typed(23))).toBe(true);
  expect(asked).toHaveLength(1);
});

test("a catalog that knows none of the types says null", async () => {
  const learning = learn(MOOD);
  asked[0]!.answer("[null]");
  expect([await learning, known(MOOD), catalog.question(typed(MOOD))]).toEqual([true, [], undefined]);
});

test("a question counts for nobody who watches the call", async () => {
  const learning = learn(MOOD);
  const [{ operation }] = asked as [Asking];
  asked[0]!.answer(answerOf(mood));
  await learning;
  expect([operation.rowCount, operation.bytes, operation.command]).toEqual([null, 0, ""]);
});

test.each(["42P01", "0A000", "XX000", "unreadable"])(
  "on a server without such a catalog (%s) its types stay text, and nobody asks again",
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
  "a failure that says nothing of the catalog is the call's (%s), and the next call asks again",
  async (code) => {
    const learning = learn(MOOD);
    asked[0]!.fail(error(code));
    await expect(learning).rejects.toMatchObject({ code });
    void learn(MOOD);
    expect(asked).toHaveLength(2);
  },
);

test("a failure that ends the transaction is the call's, whatever it says of the catalog", async () => {
  const learning = learn(MOOD);
  connection.transactionStatus = "E";
  asked[0]!.fail(error("42P01"));
  await expect(learning).rejects.toMatchObject({ code: "42P01" });
  expect(catalog.question(typed(MOOD))).toBeDefined();
});

test("a failure inside of a transaction that goes on says that there is no catalog", async () => {
  const learning = learn(MOOD);
  connection.transactionStatus = "T";
  asked[0]!.fail(error("42P01"));
  expect([await learning, catalog.question(typed(MOOD))]).toEqual([true, undefined]);
});

test("a connection that goes under the question rejects", async () => {
  const learning = learn(MOOD);
  const loss = new PgzError("CONNECTION_LOST", "gone");
  asked[0]!.operation.end(loss);
  await expect(learning).rejects.toBe(loss);
});

test.each(["answered", "failed"])(
  "of a call that is over when its question is %s nothing is asked any more",
  async (how) => {
    const learning = learn(MOOD);
    if (how === "answered") asked[0]!.answer(answerOf(mood));
    else asked[0]!.fail(error("57014"));
    call.finished = true;
    expect(await learning).toBe(false);
  },
);

// -- a cancel for another call ---------------------------------------------------------------------------------------

test("a question that a cancel for another call ended is asked again when no cancel is under way", async () => {
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

test.each(["T", "E"])("inside of a transaction (%s) it is not asked again", async (status) => {
  const learning = learn(MOOD);
  connection.transactionStatus = status;
  asked[0]!.hit();
  await expect(learning).rejects.toMatchObject({ code: "57014" });
  expect(asked).toHaveLength(1);
});

test.each(["before", "while a cancel is under way"])("nor for a call that is over %s", async (when) => {
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
});

test("a cancel of the call's own, or a timeout of the server's, is no reason to ask again", async () => {
  for (const [at, facts] of [{ exposed: true }, { canceled: true }].entries()) {
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
  ({ parsers: { byName: new Map(names.map((name) => [name, parse])), byOid: new Map() } }) as unknown as ValuePolicy;
const namesOf = (policy: ValuePolicy | undefined) => learnNames(...real(), policy);

test("without parsers no name is asked for", async () => {
  expect(await namesOf(undefined)).toBe(true);
  expect(await namesOf({ parsers: undefined } as ValuePolicy)).toBe(true);
  expect(asked).toHaveLength(0);
});

test("parsers are found by the types that their names have, which are asked for once", async () => {
  const policy = policyOf("mood", "1700");
  const learning = namesOf(policy);
  expect(asked.map(({ text }) => text)).toEqual([catalog.nameQuestion(["mood"])]);
  asked[0]!.answer(`[{"mood": ${MOOD}}]`);
  expect(await learning).toBe(true);
  expect(policy.parsers!.byOid).toEqual(
    new Map([
      [MOOD, parse],
      [1_700, parse],
    ]),
  );
  expect(await namesOf(policyOf("mood"))).toBe(true);
  expect(asked).toHaveLength(1);
});

test("a parser whose type the database does not have is told by its name", async () => {
  const learning = namesOf(policyOf("mood", "none"));
  asked[0]!.answer(`[{"mood": ${MOOD}, "none": null}]`);
  await expect(learning).rejects.toMatchObject({
    name: "UsageError",
    code: "INVALID_OPTION",
    message: expect.stringContaining('"none"'),
  });
});

test("what is wrong with the question for names is the call's error, unless the call is over", async () => {
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

// -- in front of statements ------------------------------------------------------------------------------------------

const inFront = (policy: ValuePolicy | undefined, ...oids: number[]) => TypesInFront.ask(...real(), oids, policy);

test.each([undefined, { parsers: undefined } as ValuePolicy])(
  "types in front of a statement are asked for at once, without a promise, and known by the answer",
  async (policy) => {
    catalog.learn(typed(MOOD, 20_003), [mood, pair] as never);
    const [before] = catalog.definitions(typed(MOOD));
    const types = inFront(policy, MOOD) as TypesInFront;
    expect(types).toBeInstanceOf(TypesInFront);
    expect(asked.map(({ text }) => text)).toEqual([catalog.questionAnew(typed(MOOD))]);
    // It was made of this, and may be made of something else by now.
    expect(types.include(before!)).toBe(false);
    asked[0]!.answer(answerOf(mood));
    expect(types.include(before!)).toBe(true);
    expect(types.include(catalog.definitions(typed(20_003))[0]!)).toBe(false);
    await settled();
  },
);

test("types in front whose question fails are not known, and the failure is nobody's", async () => {
  const rejections = vi.fn();
  process.on("unhandledRejection", rejections);
  const types = inFront(undefined, MOOD) as TypesInFront;
  asked[0]!.fail(error("57014"));
  await settled();
  process.off("unhandledRejection", rejections);
  expect(rejections).not.toHaveBeenCalled();
  expect(types.include({ oid: MOOD, code: 0, of: 25, parts: [], names: [] })).toBe(false);
});

test("with parsers the names are asked for behind the types, which may have changed what they mean", async () => {
  const policy = policyOf("mood");
  catalog.learnNames({ mood: 7 });
  const asking = inFront(policy, MOOD);
  expect(asking).toBeInstanceOf(Promise);
  asked[0]!.answer(answerOf(mood));
  await settled();
  expect(asked.map(({ text }) => text)[1]).toBe(catalog.nameQuestion(["mood"]));
  asked[1]!.answer(`[{"mood": ${MOOD}}]`);
  const types = await asking;
  expect(types!.include(catalog.definitions(typed(MOOD))[0]!)).toBe(true);
  expect([...policy.parsers!.byOid.keys()]).toEqual([MOOD]);
});

test.each([0, 1])("with parsers nothing comes of it for a call that is over behind question %i", async (last) => {
  const asking = inFront(policyOf("mood"), MOOD);
  const answers = [answerOf(mood), `[{"mood": ${MOOD}}]`];
  for (let at = 0; at <= last; at++) {
    await settled();
    asked[at]!.answer(answers[at]!);
    if (at === last) call.finished = true;
  }
  expect(await asking).toBeUndefined();
  expect(asked).toHaveLength(last + 1);
});
