// What doctor concludes about a pooler from the process ids that a server gives. A stand-in patient chooses them,
// because PgBouncer's own are random.
import { expect, test } from "vitest";
import { pooler } from "../../js/cli/doctor/pooler.ts";
import type { Login, Patient } from "../../js/cli/doctor/patient.ts";
import type { Client, ConnectEvent, Options } from "../../js/index.ts";

/** A process id that only PgBouncer gives, and one that Linux could give, as PgBouncer does once in 1,024 times. */
const [MADE_UP, REAL] = [0x7f00_0001, 4_000];

/** Its clients get these process ids, one after the other. All of them reach one server process. */
function patientTelling(...processIds: number[]): Patient {
  const client = ({ observer }: Options = {}): Client => {
    observer?.onConnect?.({ processId: processIds.shift() } as ConnectEvent);
    const closed = { state: "idle" };
    return { transaction: async () => {}, stats: () => closed, close: async () => {} } as unknown as Client;
  };
  return {
    client,
    ask: async () => ({ pid: 7 }),
    firstValue: async () => undefined,
  } as unknown as Patient;
}

async function found(...[login, ...clients]: [number, ...number[]]) {
  const server = { name: "PostgreSQL", isPostgres: true } as Parameters<typeof pooler>[2];
  const [finding] = await pooler(patientTelling(...clients), { processId: login } as Login, server);
  return finding!.facts;
}

test("PgBouncer is recognized by any process id that is impossible on Linux", async () => {
  const pgbouncer = { kind: "pgbouncer", mode: "transaction" };
  expect(await found(MADE_UP, MADE_UP, MADE_UP)).toEqual(pgbouncer);
  expect(await found(REAL, MADE_UP, MADE_UP)).toEqual(pgbouncer);
  expect(await found(REAL, REAL, MADE_UP)).toEqual(pgbouncer);
});

test("a pooler that passes on process ids is of another kind", async () => {
  expect(await found(REAL, REAL, REAL)).toEqual({ kind: "other", mode: "transaction" });
});
