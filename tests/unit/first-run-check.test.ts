// The check before a first run as a statement of its connection, over sockets in memory: when it has a name, what it
// asks of which server, and what follows if its name is lost.
import { beforeEach, expect, test } from "vitest";
import { answer, behindBegin, behindPrelude, described, firstFlight, laterFlight } from "../support/flights.ts";
import {
  accepted,
  client,
  execution,
  logIn,
  newClient,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import {
  checkedLater,
  completeAndReady,
  description,
  ended,
  errorAndReady,
  executed,
  executedWithoutRows,
  fatal,
  firstBegun,
  firstDescribed,
  firstExecuted,
  ran,
  textRows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ firstRun: "text" }));

/** Accepts the next session as a server that reports this version, as PostgreSQL does. */
const letInBy = (version: string, processId?: number): Promise<Session> =>
  logIn(accepted(), { server_version: version }, processId);

/** Checks that the next first runs take these flights, on this session or on a new one. */
async function takes(place: Session | (() => Promise<Session>), ...flights: string[][]): Promise<void> {
  let session = typeof place === "function" ? undefined : place;
  for (const [at, flight] of flights.entries()) {
    const call = client.query(`select ${at}, ${flights.length}`);
    session ??= await (place as () => Promise<Session>)();
    await answer(session, flight);
    // The name of a check that was lost is closed too, because servers accept Close of a missing name.
    if (flight.length > firstFlight.length) session.send(wire.closeComplete());
    const answers = flight === laterFlight ? [checkedLater(), wire.bindComplete(), textRows("7"), ended(1)] : undefined;
    session.send(...(answers ?? [firstExecuted("7")]));
    expect((await call).rows).toEqual([{ n: 7 }]);
  }
}

/** A session on which the second first run has prepared the check. */
async function runFirst(): Promise<Session> {
  const calls = [client.query("select n"), client.query("select k")];
  const session = await letInBy("18.1");
  for (const _ of calls) await answer(session, firstFlight, firstExecuted("7"));
  await Promise.all(calls);
  return session;
}

const lost = [wire.closeComplete(), ...firstDescribed(), errorAndReady("26000")];

test("the check is prepared once, and again after its name was lost", async () => {
  const session = await runFirst();
  await takes(session, laterFlight, laterFlight);
  const discards = client.exec("discard all");
  await answer(session, described, description([]));
  await answer(session, execution, executedWithoutRows("DISCARD ALL"));
  await discards;
  await takes(session, ["Close", ...firstFlight], firstFlight, laterFlight);
});

/** The statement runs as its first run has described it. */
async function runs(session: Session, call: Promise<{ rows: unknown[] }>): Promise<void> {
  await answer(session, execution, executed(5));
  expect((await call).rows).toEqual([{ n: 5 }]);
}

test("after a check that the server has lost the statement runs as described, and later checks have no name", async () => {
  const session = await runFirst();
  const call = client.query("select m");
  await answer(session, laterFlight, ...lost);
  await runs(session, call);
  // A pooler may be the reason, so from now on the check has no name here.
  await takes(session, firstFlight, firstFlight);
});

test("after a pipelined statement with a syntax error the check is prepared again", async () => {
  const before = client.query("select n");
  const session = await letInBy("18.1");
  await answer(session, firstFlight, firstExecuted("7"));
  await before;
  const calls = ["select from from", "select m"].map((text) => client.query(text));
  calls[0]!.catch(() => {});
  await answer(session, firstFlight);
  await answer(session, laterFlight, wire.closeComplete(), errorAndReady("42601"), ...lost);
  await expect(calls[0]).rejects.toMatchObject({ code: "42601" });
  await runs(session, calls[1]!);
  await takes(session, firstFlight, firstFlight, laterFlight);
});

test.each([
  ["prepare: unnamed", { prepare: "unnamed" }, [firstFlight, firstFlight, firstFlight]],
  ["no place for a name", { statementCacheSize: 0 }, [firstFlight, firstFlight, firstFlight]],
  ["prepare: named", { prepare: "named" }, [firstFlight, laterFlight, laterFlight]],
] as const)("the check is named as statements are: %s", async (_, options, flights) => {
  newClient({ firstRun: "text", ...options });
  await takes(() => letInBy("18.1"), ...flights);
});

test("behind a pooler the check has no name", async () => {
  await takes(() => letInBy("18.1", 2 ** 31 - 1), firstFlight, firstFlight, firstFlight);
});

test("a transaction that begins with a lost check begins again", async () => {
  const session = await runFirst();
  const transaction = client.transaction((tx) => tx.query("select m"));
  const flight = ["Close", "Parse", "Bind", "Execute", ...laterFlight.slice(1)];
  await answer(session, flight, wire.closeComplete(), ran("BEGIN"), ...firstDescribed());
  session.send(errorAndReady("26000", "E"));
  await answer(session, ["Query"], completeAndReady("ROLLBACK"));
  await answer(session, behindBegin, ran("BEGIN"), executed(7, 8, "T"));
  await answer(session, ["Query"], completeAndReady("COMMIT"));
  expect((await transaction).rows).toEqual([{ n: 7 }]);
});

test("a FATAL error during COMMIT, which a pooler may have sent, leaves open whether it committed", async () => {
  const transaction = client.transaction(async (tx) => {
    await tx.exec("delete from t");
    await tx.last("delete from u");
  });
  transaction.catch(() => {});
  const session = await letInBy("18.1");
  await answer(session, behindPrelude, firstBegun([], [], "BEGIN"), ended(0, "T"));
  await answer(session, described, description([], [], "T"));
  await answer(session, execution);
  await answer(session, execution, executedWithoutRows("DELETE 0", "T"));
  session.send(fatal("08P01"));
  await expect(transaction).rejects.toMatchObject({ code: "08P01", transaction: "unknown", retryable: false });
});

test("a server is not asked for its version if it has reported it", async () => {
  const first = client.query("select n");
  const session = await letInBy("16.4");
  const parsed = [];
  for (let message = await session.message(); message!.name !== "Sync"; message = await session.message())
    if (message!.name === "Parse") parsed.push(message!.body.toString());
  expect([parsed[1]!.includes("result_types"), parsed[1]!.includes("server_version_num")]).toEqual([true, false]);
  session.send(firstExecuted("7"));
  await first;
});
