// Connections that end, over sockets in memory: what a call, a transaction and the next call report.
import { describe, expect, test } from "vitest";
import type { PgzError } from "../../js/util/errors.ts";
import { answered, answeredNext, learned } from "../support/memory-calls.ts";
import {
  accepted,
  client,
  execution,
  failure,
  isPending,
  learn,
  letIn,
  letInByPooler,
  letInKnowing,
  newClient,
  newServer,
  quiet,
  refuseLogin,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { answers, running } from "../support/memory-transaction.ts";
import {
  begun,
  completeAndReady,
  executed,
  executedInside,
  loginAnswer,
  ran,
  rows,
  shutdown,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

test.each(["end", "reset"] as const)(
  "a connection that ends (%s) rejects the calls on it, and the next call connects again",
  async (how) => {
    const query = client.query("select n");
    const queued = client.query("select n");
    const session = await letIn();
    await learn(session);
    session.send(begun(), rows(0, 1));
    session.peer[how]();
    const lost = { name: "ConnectionError", code: "CONNECTION_LOST", stage: "session", retryable: false };
    await expect(query).rejects.toMatchObject(lost);
    // It was sent, after the other call.
    await expect(queued).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
    expect(client.stats().state).toBe("lost");
    await answeredNext(client.query("select n"));
  },
);

describe("while no call is in flight", () => {
  const idle = async (traits: Parameters<typeof newServer>[0]) => {
    newServer(traits);
    return letInKnowing();
  };

  test.each<[string, (session: Session) => void]>([
    ["fin", ({ peer }) => peer.end()],
    ["rst", ({ peer }) => peer.reset()],
    ["a FATAL error", (session) => session.send(shutdown())],
  ])("%s is noticed, and the next call connects again", async (_, end) => {
    const session = await idle({ readsWhileIdle: true });
    expect(client.stats().state).toBe("idle");
    end(session);
    await quiet();
    expect(client.stats().state).toBe("lost");
    await answeredNext(client.query("select n"));
    expect(client.stats()).toMatchObject({ state: "idle", errors: 0 });
  });

  test("notices and settings are reported when they arrive, and the next call is unaffected", async () => {
    const session = await idle({ readsWhileIdle: true });
    session.send(wire.parameterStatus("TimeZone", "Mars"));
    await quiet();
    expect(client.parameterStatus("TimeZone")).toBe("Mars");
    await answered(session, client.query("select n"));
    expect(session.peer.reads).toBe(client.stats().receivedChunks + 1);
  });

  test("an idle socket without that option is not read, so only the next call notices its end", async () => {
    const session = await idle({});
    const { reads } = session.peer;
    session.peer.end();
    await quiet();
    expect(client.stats()).toMatchObject({ state: "idle", receivedChunks: reads });
    expect(session.peer.reads).toBe(reads);
    await expect(client.query("select n")).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
    expect(client.stats().state).toBe("lost");
  });
});

test.each([false, true])(
  "a client that could not connect tries again at its next call; waiting calls share the error (early query: %s)",
  async (earlyQuery) => {
    newClient({ earlyQuery });
    const waiting = [client.query("select n"), client.exec("select n"), client.transaction(() => 1)];
    await refuseLogin();
    for (const one of waiting) await expect(one).rejects.toMatchObject({ code: "53300", retryable: true });
    expect(client.stats().state).toBe("new");
    await letInKnowing();
    expect(client.stats().state).toBe("idle");
  },
);

test("a FATAL error ends the connection", async () => {
  const query = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), shutdown());
  await expect(query).rejects.toMatchObject({ name: "PostgresError", code: "57P01", retryable: false });
  expect(await session.flight()).toEqual(["end"]);
});

describe("a session that ends instead of the first answer", () => {
  /** Ends the session that gets the call's flight. */
  async function ends(session: Session): Promise<void> {
    await session.flight();
    session.send(shutdown());
  }

  test("has not begun: its calls run once more on the next session, in their order", async () => {
    const session = await letInKnowing();
    const [first, second] = [client.query("select n"), client.query("select n")];
    await ends(session);
    const next = await letIn();
    await next.flight();
    next.send(executed(1), executed(2));
    expect((await first).rows).toEqual([{ n: 1 }]);
    expect((await second).rows).toEqual([{ n: 2 }]);
    expect(client.stats().errors).toBe(0);
  });

  // Found by the simulator: a cursor failed where any other call was repeated.
  test("has not begun: a cursor begins on the next session", async () => {
    const session = await letInKnowing();
    const reading = (async () => {
      const all: unknown[] = [];
      for await (const batch of client.cursor("select n", 5)) all.push(...batch);
      return all;
    })();
    await ends(session);
    const next = await letIn();
    expect(await next.flight()).toEqual(["Parse", "Bind", "Execute", ...execution]);
    next.send(ran("BEGIN"), executedInside(4, 6));
    await answers(next, "COMMIT");
    expect(await reading).toEqual([{ n: 4 }, { n: 5 }]);
    expect(client.stats().errors).toBe(0);
  });

  test("makes the call reject if the second session ends the same way", async () => {
    const session = await letInKnowing();
    const query = client.query("select n");
    await ends(session);
    await ends(await letIn());
    await expect(query).rejects.toMatchObject({ code: "57P01", retryable: true });
    expect(client.stats().state).toBe("lost");
  });

  test("may have run the call if a pooler is in between or the simple query protocol cannot tell", async () => {
    const simple = await letInKnowing();
    const call = client.simple("select 1");
    await ends(simple);
    await expect(call).rejects.toMatchObject({ code: "57P01", retryable: false });
    const query = client.query("select n");
    const pooled = await letInByPooler();
    await ends(pooled);
    await expect(query).rejects.toMatchObject({ code: "57P01", retryable: false });
  });

  test("fails a transaction and the call inside it, and neither is repeated", async () => {
    const session = await letInKnowing();
    let inside: unknown;
    const outcome = client.transaction(async (tx) => (inside = await failure(tx.query("select n"))));
    await ends(session);
    await expect(outcome).rejects.toMatchObject({ code: "57P01" });
    expect(inside).toMatchObject({ code: "57P01" });
    expect(await isPending(accepted())).toBe(true);
  });
});

test("a callback's transaction that is lost may be made again: the server had not begun what was in flight", async () => {
  const inside: unknown[] = [];
  const { session, call } = await running(async (tx) => void inside.push(await failure(tx.query("select n"))));
  await session.flight();
  session.send(shutdown());
  const lost = { code: "57P01", transaction: "rolled back", retryable: true };
  await expect(call).rejects.toMatchObject(lost);
  expect(inside).toMatchObject([lost]);
});

const transactions = {
  transaction: () => client.transaction(async (tx) => void (await tx.query("select n"))),
  cursor: async () => {
    for await (const batch of client.cursor("select n", 5)) expect(batch).toEqual([{ n: 0 }]);
  },
};

test.each(["transaction", "cursor"] as const)(
  "a %s whose session ends before COMMIT is answered rejects with that error, and after the answer it is committed",
  async (how) => {
    for (const answer of [[], [completeAndReady("COMMIT")]]) {
      const session = await letInKnowing();
      const outcome = transactions[how]().then(
        () => "committed",
        (error: PgzError) => error.code,
      );
      await session.flight();
      session.send(ran("BEGIN"), executedInside(0));
      expect(await session.flight()).toEqual(["Query"]);
      session.send(...answer, shutdown());
      expect(await outcome).toBe(answer.length ? "committed" : "57P01");
      await client.close();
      newClient();
    }
  },
);

// Found by the simulator: the statement had been sent with the login, and the error said that a retry was safe.
test.each([
  ["takes too long", "CONNECT_TIMEOUT", () => {}],
  ["is lost", "CONNECTION_LOST", ({ peer }: Session) => peer.reset()],
] as const)("what has left with a login that %s may have run, and what has not has not", async (_, code, end) => {
  newClient({ password: "x", earlyQuery: true, allowCleartextPassword: true, connectTimeout: 100 });
  for (const isLetInSoon of [false, true]) {
    const call = client.exec("insert into t values (1)");
    const outcome = expect(call).rejects.toMatchObject({ code, retryable: !isLetInSoon });
    const session = await accepted();
    await session.flight();
    if (isLetInSoon) {
      session.send(wire.authentication(3));
      expect(await session.flight()).toEqual(["PasswordMessage", "Parse", "Describe", "Sync"]);
    }
    end(session);
    await outcome;
  }
});

describe("a connection that ends with its login, before any call was sent", () => {
  /** Greets a client as pgpool-II does on a connection that another client has left too early. */
  async function greetedWithTooMuch(): Promise<void> {
    const session = await accepted();
    await session.flight();
    // All in one chunk.
    session.send(loginAnswer(), completeAndReady("SET"));
  }

  test("is made once more", async () => {
    newClient({ earlyQuery: false });
    const [first, second] = [client.query("select n"), client.query("select n")];
    await greetedWithTooMuch();
    const session = await letIn();
    await learned(session, first, 7);
    await answered(session, second, 8);
  });

  test("is given up if the client is closed meanwhile", async () => {
    newClient({ earlyQuery: false });
    const query = client.query("select n");
    await greetedWithTooMuch();
    const session = await accepted();
    await client.close();
    await expect(query).rejects.toMatchObject({ code: "CLIENT_CLOSED" });
    expect(await session.flight()).toEqual(["StartupMessage"]);
    expect(await session.message()).toBeUndefined();
  });

  test("makes the call fail as retryable if the second connection ends the same way", async () => {
    newClient({ earlyQuery: false });
    const query = client.query("select n");
    await greetedWithTooMuch();
    await greetedWithTooMuch();
    await expect(query).rejects.toMatchObject({
      code: "CONNECTION_LOST",
      retryable: true,
      cause: { code: "UNEXPECTED_MESSAGE" },
    });
    const again = client.query("select n");
    await learned(await letIn(), again);
  });
});
