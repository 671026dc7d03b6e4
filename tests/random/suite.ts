// The random sessions of a test run, written once for all runtimes. Some have fixed seeds, others seeds from the date,
// so that each day tries new sessions and a run can be repeated on the same day.
import { afterAll, expect, test } from "vitest";
import type { Server, TestServers } from "../integration/context.ts";
import type { Report } from "./session.ts";

/** Where a session runs, as JSON. */
export interface Task {
  seed: number;
  server: Server;
  tls: boolean;
  servers: TestServers;
  isPooled: boolean;
}

interface Suite {
  label: string;
  servers: TestServers;
  /** Behind PgBouncer, too. */
  poolers: boolean;
  run(task: Task): Promise<Report>;
  uncaught(): Promise<string[]>;
}

/**
 * The number of sessions of each kind; a hundred take about six seconds. Simulated sessions run the same calls under
 * all network faults, so these show the effect of a runtime's own sockets and a real server.
 */
const FIXED = 20;
const OF_THE_DAY = 10;
const AT_ONCE = 3;

export function randomSuite({ label, servers, poolers, run, uncaught }: Suite): void {
  const day = Math.floor(Date.now() / 86_400_000);
  const seeds = [
    ...Array.from({ length: FIXED }, (_, at) => at + 1),
    ...Array.from({ length: OF_THE_DAY }, (_, at) => day * 1_000 + at),
  ];
  const server = servers.servers.find(({ own }) => own)!;
  const places = [false, ...(server.tls ? [true] : [])].map((tls) => {
    return { name: `random sessions [${server.name} ${tls ? "tls" : "plain"}]`, server, tls, isPooled: false };
  });
  if (poolers && servers.pgbouncer)
    places.push({ name: "random sessions [PgBouncer]", server: servers.pgbouncer, tls: false, isPooled: true });

  places.forEach(({ name, ...place }, of) => {
    test(name, async () => {
      const counts = { calls: 0, disturbed: 0 };
      const faults: string[] = [];
      const waiting = seeds.map((seed) => seed + of * 1_000_000);
      const worker = async () => {
        for (let seed = waiting.shift(); seed !== undefined; seed = waiting.shift()) {
          const report = await run({ ...place, seed, servers });
          counts.calls += report.calls;
          counts.disturbed += report.disturbed;
          if (report.faults.length)
            faults.push(`SEED=${seed}\n${report.script.join("\n")}\n${report.faults.join("\n")}`);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      console.log(
        `[random] ${label}, ${name}: ${seeds.length} sessions, ${counts.calls} calls, ${counts.disturbed} disturbed`,
      );
      expect(faults.slice(0, 3).join("\n\n")).toBe("");
    });
  });

  afterAll(async () => {
    expect(await uncaught()).toEqual([]);
  });
}
