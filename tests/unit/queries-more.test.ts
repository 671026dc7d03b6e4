// The parts of queries.ts that involve other modules, over sockets in memory: scopes, cursors that are left, and the
// error of a failed call.
import { beforeEach, expect, test } from "vitest";
import {
  begun,
  client,
  ended,
  execution,
  failure,
  isPending,
  letInKnowing,
  newClient,
  rows,
  texts,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { failed } from "../support/first-runs.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

test("in a scope each call refuses what could end or outlive its settings, before anything is sent", async () => {
  const scope = client.scope({ settings: { "a.b": 1 } });
  const calls: (() => unknown)[] = [
    () => scope.query("begin"),
    () => scope.exec("begin"),
    () => scope.rows("begin"),
    () => scope.json("begin"),
    () => scope.stream("begin"),
    () => scope.cursor("begin", 1),
    () => scope.batch(["select 1", "begin"]),
    () => scope.prepare("begin"),
    () => scope.describe("begin"),
    () => scope.simple("select 1"),
  ];
  for (const call of calls)
    await expect((async () => await call())()).rejects.toMatchObject({ name: "UsageError", code: "NOT_IN_SCOPE" });
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

test("each call refuses options that are not an object, with an error of the driver", async () => {
  for (const call of [
    () => client.json("select 1", null as never),
    () => client.prepare("select 1", null as never),
    () => client.describe("select 1", null as never),
    () => client.simple("select 1", null as never),
    async () => client.cursor("select 1", 1, null as never),
  ])
    await expect(call()).rejects.toMatchObject({ name: "UsageError", code: "INVALID_OPTION" });
});

test("the error of a failed description has the text of the statement", async () => {
  const session = await letInKnowing();
  const call = failure(client.describe("select m"));
  await session.flight();
  session.send(failed("42703"));
  expect(await call).toMatchObject({ code: "42703", query: "select m" });
});

test("NDJSON of a batch follows the option columnNames", async () => {
  const session = await letInKnowing();
  const call = client.batch(["select a_b"], { results: "ndjson", columnNames: "camelCase" });
  await session.flight();
  const named = wire.rowDescription([{ name: "a_b", oid: 23, size: 4 }], [1]);
  const description = wire.rowDescription([{ name: "a_b", oid: 23, size: 4 }]);
  session.send(wire.parseComplete(), wire.parameterDescription([]), description, wire.readyForQuery());
  await session.flight();
  session.send(wire.parseComplete(), wire.bindComplete(), named, rows(1, 2), ended(1));
  expect(new TextDecoder().decode((await call)[0]!.bytes)).toBe('{"aB":1}\n');
});

// -- cursors ----------------------------------------------------------------------------------------------------------

/** Answers the first flight of a cursor with two rows, and with more to come or not. */
async function firstBatch(session: Session, hasMore: boolean): Promise<void> {
  expect(await session.flight()).toEqual(["Parse", "Bind", "Execute", ...execution]);
  session.send(wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"));
  session.send(begun(), rows(1, 3), hasMore ? wire.message("s") : wire.commandComplete("SELECT 2"));
  session.send(wire.readyForQuery("T"));
}

test("a cursor that is left rolls its transaction back, and the next call runs after that", async () => {
  const session = await letInKnowing();
  const seen: unknown[] = [];
  const reading = (async () => {
    for await (const batch of client.cursor("select n", 2)) {
      seen.push(...batch);
      break;
    }
  })();
  await firstBatch(session, true);
  expect(await texts(session)).toEqual(["ROLLBACK"]);
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  await reading;
  expect(seen).toEqual([{ n: 1 }, { n: 2 }]);
  const next = client.query("select n");
  expect(await texts(session)).toEqual(["select n"]);
  session.send(begun(), rows(7, 8), ended(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
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
  await firstBatch(session, false);
  expect(await texts(session)).toEqual(["COMMIT"]);
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  expect(await texts(session)).toEqual(["select n"]);
  session.send(begun(), rows(7, 8), ended(1));
  await reading;
  expect((await inner!).rows).toEqual([{ n: 7 }]);
  expect(await isPending(session.flight())).toBe(true);
});
