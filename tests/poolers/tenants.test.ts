// Tenants behind PgBouncer 1.18 in transaction mode with four server connections: no result is wrong, and no call
// fails. 1.18 is the hard case, because it does not track prepared statements: a name on one server connection is
// missing on the next.
import { expect, test } from "vitest";
import type { Options } from "../../js/index.ts";
import { direct, driver, pgbouncer, plain, seed, TENANTS, withTenants } from "./pooled.ts";
import { connectRecognised, runLane, stepsOf, sum, type Load } from "./workload.ts";

const modes: { name: string; lanes: number; options: Options }[] = [
  { name: "default options", lanes: 2, options: {} },
  { name: 'prepare: "unnamed"', lanes: 1, options: { prepare: "unnamed" } },
];

test.each(modes)(`${TENANTS} tenants with 50 statements each, $name`, async ({ lanes, options }) => {
  const load: Load = { prefix: `pooled_${options.prepare ?? "auto"}`, seed, repeat: 3, jobs: 1 };
  console.log(`PGZ_SEED=${seed}`);
  const connect = () =>
    connectRecognised((observer) =>
      driver.connect(plain(pgbouncer), { ...options, applicationName: load.prefix, observer }),
    );
  const outcome = await withTenants(load, lanes, async () =>
    sum(
      await Promise.all(
        Array.from({ length: TENANTS * lanes }, (_, n) =>
          runLane(driver, connect, load, Math.floor(n / lanes), n % lanes),
        ),
      ),
    ),
  );
  expect(outcome, `PGZ_SEED=${seed}`).toEqual({ done: TENANTS * lanes * stepsOf(load), wrong: [], failed: [] });
});

test("PgBouncer invents process ids that no server has", async () => {
  const seen: number[] = [];
  const observer = { onConnect: ({ processId }: { processId?: number | undefined }) => void seen.push(processId ?? 0) };
  const look = async (server: typeof direct, times: number) => {
    for (let n = 0; n < times; n++) await (await driver.connect(plain(server), { observer })).close();
    return seen.splice(0);
  };
  // All 32 bits are random, so one in 1024 looks like a server's. Three of 40 looking so happens once in 100,000 runs.
  expect((await look(pgbouncer, 40)).filter((processId) => processId > 2 ** 22).length).toBeGreaterThan(37);
  expect((await look(direct, 3)).filter((processId) => processId > 2 ** 22)).toEqual([]);
});
