// Connections that end, over sockets in memory: what a call, a transaction and the next call report.
import { describe, expect, test } from "vitest";
import type { Transaction } from "../../js/api/transaction.ts";
import type { PgzError } from "../../js/util/errors.ts";
import {
  accepted,
  begun,
  client,
  ended,
  execution,
  learn,
  letIn,
  letInKnowing,
  newClient,
  newServer,
  quiet,
  rows,
  type Session,
  shutdown,
  useMemoryServer,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

/** Answers a call of a known statement on a session that has just begun. */
async function answered(query: Promise<{ rows: unknown[] }>, session: Session): Promise<void> {
  await session.flight();
  session.send(begun(), rows(7, 8), ended(1));
  expect((await query).rows).toEqual([{ n: 7 }]);
}

test.each(["end", "reset"] as const)(
  "a connection that ends (%s) rejects the calls on it, and the next call connects again",
  async (how) => {
    const query = client.query("select n");
    const queued = client.query("select n");
    const session = await letIn();
    await learn(session);
    session.send(begun(), rows(0, 1));
    session.peer[how]();
    await expect(query).rejects.toMatchObject({
      name: "ConnectionError",
      code: "CONNECTION_LOST",
      stage: "session",
      retryable: false,
    });
    // It was sent, after the other call.
    await expect(queued).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
    expect(client.stats().state).toBe("lost");
    await answered(client.query("select n"), await letIn());
  },
);

async function allOf<Row>(batches: AsyncIterable<Row[]>): Promise<Row[]> {
  const all: Row[] = [];
  for await (const batch of batches) all.push(...batch);
  return all;
}

describe("while no call is in flight", () => {
  const idle = async (traits: Parameters<typeof newServer>[0]) => {
    newServer(traits);
    return letInKnowing();
  };
  const ends = {
    fin: ({ peer }: Session) => peer.end(),
    rst: ({ peer }: Session) => peer.reset(),
    "a FATAL error": (session: Session) => session.send(shutdown()),
  };

  test.each(Object.keys(ends) as (keyof typeof ends)[])(
    "%s is noticed, and the next call connects again",
    async (how) => {
      const session = await idle({ readsWhileIdle: true });
      expect(client.stats().state).toBe("idle");
      ends[how](session);
      await quiet();
      expect(client.stats().state).toBe("lost");
      await answered(client.query("select n"), await letIn());
      expect(client.stats()).toMatchObject({ state: "idle", errors: 0 });
    },
  );

  test("notices and settings are reported when they arrive, and the next call is unaffected", async () => {
    const session = await idle({ readsWhileIdle: true });
    session.send(wire.parameterStatus("TimeZone", "Mars"));
    await quiet();
    expect(client.parameterStatus("TimeZone")).toBe("Mars");
    const query = client.query("select n");
    await session.flight();
    session.send(begun(), rows(3, 4), ended(1));
    expect((await query).rows).toEqual([{ n: 3 }]);
    expect(session.peer.reads).toBe(client.stats().receivedChunks + 1);
  });

  test("an idle socket without that option is not read, so only the next call notices its end", async () => {
    const session = await idle({});
    const { reads } = session.peer;
    session.peer.end();
    await quiet();
    expect(client.stats().state).toBe("idle");
    expect(session.peer.reads).toBe(reads);
    await expect(client.query("select n")).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
    expect(client.stats().state).toBe("lost");
  });

  test("a transaction between two statements rejects at once", async () => {
    const session = await idle({ readsWhileIdle: true });
    const beginning = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"), begun(), rows(0, 1)];
    const transaction = client.transaction(async (tx) => {
      await tx.query("select n");
      await new Promise(() => {});
    });
    await session.flight();
    session.send(...beginning, wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
    await quiet();
    session.send(shutdown());
    await expect(transaction).rejects.toMatchObject({ code: "57P01" });
  });
});

test.each([false, true])(
  "a client that could not connect tries again at its next call; waiting calls share the error (early query: %s)",
  async (earlyQuery) => {
    newClient({ earlyQuery });
    const waiting = [client.query("select n"), client.exec("select n"), client.transaction(() => 1)];
    const refusing = await accepted();
    await refusing.flight();
    refusing.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "53300", M: "too many clients" }));
    refusing.peer.end();
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
  const queries = () => [client.query("select n"), client.query("select n")];

  test("has not begun: its calls run once more on the next session, in their order", async () => {
    const session = await letInKnowing();
    const [first, second] = queries();
    await session.flight();
    session.send(shutdown());
    const next = await letIn();
    await next.flight();
    next.send(begun(), rows(1, 2), ended(1), begun(), rows(2, 3), ended(1));
    expect((await first!).rows).toEqual([{ n: 1 }]);
    expect((await second!).rows).toEqual([{ n: 2 }]);
    expect(client.stats().errors).toBe(0);
  });

  // Found by the simulator: a cursor failed where any other call was repeated.
  test("has not begun: a cursor begins on the next session", async () => {
    const session = await letInKnowing();
    const reading = allOf(client.cursor<{ n: number }>("select n", 5));
    await session.flight();
    session.send(shutdown());
    const next = await letIn();
    expect(await next.flight()).toEqual(["Parse", "Bind", "Execute", ...execution]);
    next.send(wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"));
    next.send(begun(), rows(4, 6), wire.commandComplete("SELECT 2"), wire.readyForQuery("T"));
    expect(await next.flight()).toEqual(["Query"]);
    next.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
    expect(await reading).toEqual([{ n: 4 }, { n: 5 }]);
    expect(client.stats().errors).toBe(0);
  });

  test("makes the call reject if the second session ends the same way", async () => {
    const session = await letInKnowing();
    const query = client.query("select n");
    await session.flight();
    session.send(shutdown());
    const next = await letIn();
    await next.flight();
    next.send(shutdown());
    await expect(query).rejects.toMatchObject({ code: "57P01", retryable: true });
    expect(client.stats().state).toBe("lost");
  });

  test("may have run the call if a pooler is in between or the simple query protocol cannot tell", async () => {
    const simple = await letInKnowing();
    const call = client.simple("select 1");
    await simple.flight();
    simple.send(shutdown());
    await expect(call).rejects.toMatchObject({ code: "57P01", retryable: false });
    const query = client.query("select n");
    const pooled = await accepted();
    await pooled.flight();
    pooled.send(wire.authenticationOk(), wire.backendKeyData(0x7fffffff, wire.int32(9)), wire.readyForQuery());
    await pooled.flight();
    pooled.send(shutdown());
    await expect(query).rejects.toMatchObject({ code: "57P01", retryable: false });
  });
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
    for (const answer of [[], [wire.commandComplete("COMMIT"), wire.readyForQuery()]]) {
      const session = await letInKnowing();
      const outcome = transactions[how]().then(
        () => "committed",
        (error: PgzError) => error.code,
      );
      await session.flight();
      session.send(
        wire.parseComplete(),
        wire.bindComplete(),
        wire.commandComplete("BEGIN"),
        begun(),
        rows(0, 1),
        wire.commandComplete("SELECT 1"),
        wire.readyForQuery("T"),
      );
      expect(await session.flight()).toEqual(["Query"]);
      session.send(...answer, shutdown());
      expect(await outcome).toBe(answer.length ? "committed" : "57P01");
      await client.close();
      newClient();
    }
  },
);

test("a call inside a transaction rejects with the error that ended the connection", async () => {
  const session = await letInKnowing();
  let inside: unknown;
  const outcome = client.transaction((tx) => tx.query("select n").catch((error: unknown) => (inside = error)));
  await session.flight();
  session.send(shutdown());
  await expect(outcome).rejects.toMatchObject({ code: "57P01" });
  expect(inside).toMatchObject({ code: "57P01" });
});

// Found by the simulator: the call reported that its callback had returned.
test("a call in a callback whose connection was lost between two calls rejects with that loss", async () => {
  newServer({ readsWhileIdle: true });
  const session = await letInKnowing();
  let goOn = () => {};
  const pause = new Promise<void>((resolve) => (goOn = resolve));
  let inside: unknown;
  let kept: Transaction | undefined;
  const outcome = client.transaction(async (tx) => {
    kept = tx;
    await tx.query("select n");
    await pause;
    inside = await tx.query("select n").catch((error: unknown) => error);
  });
  await session.flight();
  session.send(wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"));
  session.send(begun(), rows(0, 1), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  await quiet();
  session.peer.reset();
  await expect(outcome).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  goOn();
  await quiet();
  expect(inside).toMatchObject({ code: "CONNECTION_LOST", retryable: false });
  await expect(kept!.query("select n")).rejects.toMatchObject({ code: "TRANSACTION_FINISHED" });
});

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
    session.send(
      wire.authenticationOk(),
      wire.backendKeyData(7, wire.int32(9)),
      wire.parameterStatus("integer_datetimes", "on"),
      wire.readyForQuery(),
      wire.commandComplete("SET"),
      wire.readyForQuery(),
    );
  }

  test("is made once more", async () => {
    newClient({ earlyQuery: false });
    const calls = [client.query("select n"), client.query("select n")];
    await greetedWithTooMuch();
    const session = await letIn();
    await learn(session);
    session.send(begun(), rows(7, 8), ended(1));
    expect(await session.flight()).toEqual(execution);
    session.send(begun(), rows(8, 9), ended(1));
    expect((await Promise.all(calls)).map(({ rows }) => rows)).toEqual([[{ n: 7 }], [{ n: 8 }]]);
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
    const session = await letIn();
    await learn(session);
    session.send(begun(), rows(7, 8), ended(1));
    expect((await again).rows).toEqual([{ n: 7 }]);
  });
});
