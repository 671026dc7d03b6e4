// Calls of queries.ts whose rows become values, over sockets in memory: what each takes, what it returns, and what it
// refuses before anything is sent.
import { beforeEach, expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { answer, behindBegin, described } from "../support/flights.ts";
import {
  client,
  execution,
  failure,
  isPending,
  letInKnowing,
  newClient,
  queryText,
  quiet,
  texts,
  useMemoryServer,
} from "../support/memory-session.ts";
import {
  begun,
  completeAndReady,
  description,
  division,
  errorAndReady,
  executed,
  executedWithoutRows,
  int4,
  ran,
  rows,
  suspended,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const fields = [expect.objectContaining({ name: "n", typeOid: 23 })];

// -- query and exec ---------------------------------------------------------------------------------------------------

test("query returns rows, count, command and fields, and no `truncated` if all rows are there", async () => {
  const session = await letInKnowing();
  const call = client.query("select n");
  await answer(session, execution, executed(1, 3));
  expect(await call).toStrictEqual({ rows: [{ n: 1 }, { n: 2 }], rowCount: 2, command: "SELECT", fields });
});

test("exec counts rows and drops them, and an exceeded limit is an error", async () => {
  newClient({ prepare: "unnamed", onLimit: "truncate", maxRows: 3 });
  const session = await letInKnowing();
  const { bytes } = client.stats();
  const call = client.exec("select n");
  await answer(session, execution, executed(1, 4));
  expect(await call).toStrictEqual({ command: "SELECT", rowCount: 3 });
  // No row was encoded.
  expect(client.stats().bytes).toBe(bytes);
  const more = client.exec("select n");
  await answer(session, execution, executed(1, 5));
  await expect(more).rejects.toMatchObject({ name: "ResponseTooLargeError", limit: "rows" });
});

test("invalid arguments of query and exec reject, and nothing connects", async () => {
  for (const call of [
    () => client.query(5 as never),
    () => client.query("select 1", { rowMode: "objects" as never }),
    () => client.query("select 1", { rowMode: null as never }),
    () => client.query("select 1", [undefined]),
    () => client.exec(5 as never),
    () => client.exec("select 1", { maxRows: -1 } as never),
    () => client.exec(["select 1"] as never),
  ])
    await expect(call()).rejects.toMatchObject({ name: "UsageError" });
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

test("a statement that may be pipelined follows the previous one at once, others wait for its end", async () => {
  const session = await letInKnowing();
  const calls = [client.query("select n"), client.exec("select n"), client.exec("vacuum")];
  expect([await session.flight(), await session.flight()]).toEqual([execution, execution]);
  const third = session.flight();
  expect(await isPending(third)).toBe(true);
  session.send(executed(1), executed(1));
  expect(await third).toEqual(described);
  // A statement that cannot be pipelined holds back the next one too.
  const next = client.query("select n");
  session.send(description([]));
  await session.flight();
  const last = session.flight();
  expect(await isPending(last)).toBe(true);
  session.send(executedWithoutRows("VACUUM"));
  expect(await last).toEqual(execution);
  session.send(executed(1));
  await Promise.all([...calls, next]);
});

// -- rows -------------------------------------------------------------------------------------------------------------

test("a loop gets its rows, and its promises settle at the end; a second loop sends the query again", async () => {
  newClient({ prepare: "unnamed", onLimit: "truncate", maxRows: 2 });
  const session = await letInKnowing();
  const all = client.rows<{ n: number }>("select n");
  for (const [from, to] of [
    [1, 2],
    [5, 8],
  ] as const) {
    const seen: number[] = [];
    const looping = (async () => {
      for await (const { n } of all) seen.push(n);
    })();
    await answer(session, execution, executed(from, to));
    await looping;
    const isCut = to - from > 2;
    expect(seen).toEqual(isCut ? [5, 6] : [1]);
    expect(all).toMatchObject({ command: "SELECT", fields });
    // The count is the server's.
    expect(all.rowCount).toBe(to - from);
    expect(all.truncated?.limit).toBe(isCut ? "rows" : undefined);
  }
  expect(client.stats().queries).toBe(3);
});

test("rows accepts values and rowMode, and a failed loop throws the query's error", async () => {
  const session = await letInKnowing();
  const seen: unknown[] = [];
  const looping = (async () => {
    for await (const row of client.rows("select n", [], { rowMode: "array" })) seen.push(row);
  })();
  await answer(session, execution, begun(), rows(1, 3));
  await quiet();
  session.send(division(), wire.readyForQuery());
  await expect(looping).rejects.toMatchObject({ code: "22012", query: "select n" });
  expect(seen).toEqual([[1], [2]]);
  expect(client.stats().state).toBe("idle");
});

test("rows throws at once for invalid arguments", () => {
  expect(() => client.rows(5 as never)).toThrow(expect.objectContaining({ name: "UsageError" }));
  expect(() => client.rows("select 1", { rowMode: 1 as never })).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION" }),
  );
});

test("a loop that is left before its turn sends nothing, and the next call runs", async () => {
  const session = await letInKnowing();
  const before = client.query("select n");
  const iterator = client.rows("select n")[Symbol.asyncIterator]();
  const first = failure(iterator.next());
  await session.flight();
  await iterator.return!();
  session.send(executed(1));
  await before;
  expect(await first).toEqual({ done: true, value: undefined });
  const next = client.query("select n");
  await answer(session, execution, executed(4));
  expect((await next).rows).toEqual([{ n: 4 }]);
});

// -- simple -----------------------------------------------------------------------------------------------------------

const cells = (text: string) => [wire.rowDescription([int4]), wire.dataRow([Buffer.from(text)])];

test("simple returns a result for each statement, each with its own fields", async () => {
  const session = await letInKnowing();
  const call = client.simple("select 7; set a.b = 1; select 8", { rowMode: "array" });
  expect(await queryText(session)).toBe("select 7; set a.b = 1; select 8");
  session.send(...cells("7"), wire.commandComplete("SELECT 1"), wire.commandComplete("SET"));
  session.send(...cells("8"), completeAndReady("SELECT 1"));
  expect(await call).toStrictEqual([
    { rows: [[7]], rowCount: 1, command: "SELECT", fields },
    { rows: [], rowCount: null, command: "SET", fields: [] },
    { rows: [[8]], rowCount: 1, command: "SELECT", fields },
  ]);
});

test("the error of a simple call that was aborted lists the commands before it", async () => {
  const session = await letInKnowing();
  const stop = new AbortController();
  const aborted = failure(client.simple("set a.b = 1; select pg_sleep(9)", { signal: stop.signal }));
  await answer(session, ["Query"]);
  session.send(wire.commandComplete("SET"));
  await quiet();
  stop.abort();
  expect(await aborted).toMatchObject({ code: "ABORTED", completed: ["SET"] });
});

test("simple takes no values, and an exceeded limit is an error", async () => {
  await expect(client.simple(sql`select ${1}`)).rejects.toMatchObject({ code: "INVALID_QUERY" });
  await expect(client.simple("select 1", { rowMode: 5 as never })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  expect(client.stats().state).toBe("new");
  newClient({ prepare: "unnamed", onLimit: "truncate" });
  const session = await letInKnowing();
  const call = failure(client.simple("select 7", { maxRows: 1 }));
  await answer(session, ["Query"]);
  session.send(...cells("7"), wire.dataRow([Buffer.from("8")]), completeAndReady("SELECT 2"));
  expect(await call).toMatchObject({ name: "ResponseTooLargeError", limit: "rows" });
});

test("in a transaction BEGIN is sent before a text of simple, which is not sent if BEGIN fails", async () => {
  const session = await letInKnowing();
  const run = () => failure(client.transaction(async (tx) => (await tx.simple("select 7"))[0]!.rows));
  const call = run();
  expect(await queryText(session)).toBe("BEGIN");
  session.send(completeAndReady("BEGIN", "T"));
  expect(await queryText(session)).toBe("select 7");
  session.send(...cells("7"), completeAndReady("SELECT 1", "T"));
  expect(await queryText(session)).toBe("COMMIT");
  session.send(completeAndReady("COMMIT"));
  expect(await call).toEqual([{ n: 7 }]);
  const second = run();
  expect(await queryText(session)).toBe("BEGIN");
  session.send(errorAndReady("57014"));
  expect(await second).toMatchObject({ code: "57014" });
});

// -- cursor -----------------------------------------------------------------------------------------------------------

test.each([0, -1, 1.5, 2 ** 31, NaN, "5", undefined])("a cursor's size cannot be %s", (size) => {
  expect(() => client.cursor("select n", size as number)).toThrow(
    expect.objectContaining({ name: "UsageError", code: "INVALID_OPTION" }),
  );
});

test.each([1, 2 ** 31 - 1])(
  "a cursor may fetch %d rows at a time, and its loop does not run without rows",
  async (size) => {
    const session = await letInKnowing();
    let turns = 0;
    const reading = (async () => {
      for await (const _ of client.cursor("select n", size)) turns++;
    })();
    const flight: { name: string; body: Buffer }[] = [];
    for (let message; (message = (await session.message())!).name !== "Sync";) flight.push(message);
    expect(
      flight
        .filter(({ name }) => name === "Execute")
        .at(-1)!
        .body.readInt32BE(flight.at(-1)!.body.length - 4),
    ).toBe(size);
    session.send(ran("BEGIN"), executed(1, 1, "T"));
    expect(await queryText(session)).toBe("COMMIT");
    session.send(completeAndReady("COMMIT"));
    await reading;
    expect(turns).toBe(0);
  },
);

test("batches of a cursor follow rowMode, and an exceeded limit is an error", async () => {
  newClient({ prepare: "unnamed", onLimit: "truncate" });
  const session = await letInKnowing();
  const seen: unknown[] = [];
  const reading = (async () => {
    for await (const batch of client.cursor("select n", 2, { rowMode: "array", maxRows: 2 })) seen.push(batch);
  })().catch((error: unknown) => error);
  await answer(session, behindBegin, ran("BEGIN"), begun(), rows(1, 3), suspended());
  await answer(session, ["Execute", "Sync"], rows(3, 4), completeAndReady("SELECT 1", "T"));
  expect(await queryText(session)).toBe("ROLLBACK");
  session.send(completeAndReady("ROLLBACK"));
  expect(await reading).toMatchObject({ name: "ResponseTooLargeError", limit: "rows" });
  expect(seen).toEqual([[[1], [2]]]);
});

test("during a cursor's last batch the connection is free for other calls", async () => {
  const session = await letInKnowing();
  let inner: Promise<{ rows: unknown[] }> | undefined;
  const reading = (async () => {
    for await (const _ of client.cursor("select n", 9)) {
      inner = client.query("select n");
      await inner;
    }
  })();
  await answer(session, behindBegin, ran("BEGIN"), executed(1, 3, "T"));
  expect(await texts(session)).toEqual(["COMMIT"]);
  session.send(completeAndReady("COMMIT"));
  expect(await texts(session)).toEqual(["select n"]);
  session.send(executed(7));
  await reading;
  expect((await inner!).rows).toEqual([{ n: 7 }]);
  expect(await isPending(session.flight())).toBe(true);
});
