// The fault tests, registered with vitest for one runtime: cuts at every byte and every TLS record, bad servers,
// cancels that are held up, and the behaviour that the byte proxy counts.
//
// Runs in the test's process; the driver runs wherever `run` brings a job: here (Node, Deno, Bun), or in workerd.
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { badServerCases } from "./bad-server-cases.ts";
import { FaultHost, type ConnectionReport, type Fault } from "./control.ts";
import type { Job, Outcome, Target } from "./jobs.ts";

export interface FaultSuite {
  /** For the printed lines: "node", "workerd 2026-04-26". */
  label: string;
  /** tests/faults/host.mjs */
  control: string;
  /** The CA of the scripted servers, where the runtime takes one as text. */
  ca: string | undefined;
  run(job: Job): Promise<Outcome>;
  /** Errors nobody caught in the driver's runtime, so far. */
  uncaught(): Promise<string[]>;
}

/** Sessions at a time. A TLS handshake is work, and 2 s are for the driver, not for the queue before it. */
const AT_ONCE = { plain: 16, tls: 6 };
const LIMIT = 2000;
const order = [
  "connect",
  "query",
  "stream",
  "error",
  "together",
  "together, failing",
  "together, last",
  "query again",
  "close",
];
const CUT_CODES = /^(CONNECTION_LOST|CONNECT_FAILED|TLS_FAILED)$/;

export function faultSuite({ label, control, ca, run, uncaught }: FaultSuite): void {
  const host = new FaultHost(control);
  let identity: { user: string; password: string };
  // A database of its own per plan: ports are used again, and what the driver knows of a shape would shorten the
  // session.
  const target = ({ id, port }: { id: number; port: number }, tls = false): Target => ({
    host: "127.0.0.1",
    port,
    database: `scripted_${id}`,
    ...identity,
    sslmode: tls ? "verify-full" : "disable",
    ...(tls && ca !== undefined ? { ca } : {}),
  });
  /** One plan, one job, one report. */
  const play = async (
    fault: Fault,
    job: (target: Target) => Job,
  ): Promise<{ outcome: Outcome; report: ConnectionReport[] }> => {
    const plan = only(await host.plans([fault]));
    const outcome = await run(job(target(plan, fault.tls)));
    return { outcome, report: only(await host.reports([plan.id])) };
  };

  beforeAll(async () => {
    const { user, password } = await host.info();
    identity = { user, password };
    // The wasm is compiled at the first connection: the clock of the tests below is for servers.
    await play({}, (to) => ({ kind: "cut", target: to }));
  });

  describe("a session cut", () => {
    const length = async (tls: boolean): Promise<ConnectionReport> => {
      const { outcome, report } = await play({ tls }, (to) => ({ kind: "cut", target: to }));
      expect(outcome).toMatchObject({ problem: "", failed: "" });
      const [session, next, ...others] = report;
      expect(others).toEqual([]);
      for (const connection of [session, next]) expect(connection).toMatchObject({ kind: "main", problem: "", tls });
      // Deno and Bun reset a TLS socket whose close_notify they do not wait for; Terminate has arrived before.
      for (const connection of [session, next])
        expect(connection?.closedByDriver).toMatch(tls ? /^(fin|rst)$/ : /^fin$/);
      if (!session) throw new Error("no session");
      expect(session.names.at(-1)).toBe("Terminate");
      return session;
    };

    /**
     * Cuts at each offset, some sessions at a time, and gives the offsets that were really cut, with what went wrong.
     */
    const cutAll = async (
      unit: "byte" | "record" | "half-record",
      how: "fin" | "rst",
      offsets: number[],
      tls: boolean,
    ) => {
      const wrong: string[] = [];
      const cut = new Set<number>();
      let furthest = 0;
      const plans = await host.plans(offsets.map((after) => ({ tls, cut: { unit, after, how } })));
      const waiting = offsets.map((after, i) => ({ after, ...item(plans, i) }));
      const failures: { after: number; step: number }[] = [];
      const worker = async () => {
        for (let next = waiting.shift(); next; next = waiting.shift()) {
          const { after } = next;
          const outcome = await run({ kind: "cut", target: target(next, tls) });
          const report = only(await host.reports([next.id]));
          const found = judge(outcome, report, unit, after);
          if (found) wrong.push(`cut by ${how} after ${after} ${unit}s: ${found}`);
          if (report[0]?.cut) cut.add(after);
          furthest = Math.max(furthest, outcome.total);
          failures.push({ after, step: order.indexOf(outcome.failed) });
        }
      };
      await Promise.all(Array.from({ length: tls ? AT_ONCE.tls : AT_ONCE.plain }, worker));
      failures.sort((a, b) => a.after - b.after);
      // The later the cut, the later the step that meets it: says that the cuts are where they claim to be.
      for (const [i, { after, step }] of failures.entries()) {
        const before = failures[i - 1];
        if (before && step < before.step)
          wrong.push(
            `cut by ${how} after ${after} ${unit}s failed in ${order[step]}, ` +
              `the cut before that in ${order[before.step]}`,
          );
      }
      return { wrong, cut: [...cut].sort((a, b) => a - b), longest: Math.round(furthest) };
    };

    const judge = (outcome: Outcome, report: ConnectionReport[], unit: string, after: number): string | undefined => {
      const [first, next, ...others] = report;
      if (outcome.problem) return outcome.problem;
      if (!first?.cut || (unit === "byte" ? first.sent : first.records) !== after)
        return `the server cut elsewhere: ${JSON.stringify({ ...first, received: "" })}`;
      if (outcome.failed === "") return "nothing failed";
      if (outcome.total > LIMIT) {
        const steps = Object.entries(outcome.steps).map(([name, { ms }]) => `${name} ${Math.round(ms)}`);
        return `took ${Math.round(outcome.total)} ms: ${steps.join(", ")}`;
      }
      for (const [name, { code, text, retryable }] of Object.entries(outcome.steps)) {
        if (code === "TLS_FAILED" && !retryable) return `${name}: a network that failed is not retryable: ${text}`;
        const late = order.indexOf(name) >= order.indexOf(outcome.failed);
        if (name === "close" || name.startsWith("next")) {
          if (code !== "") return `${name}: ${text}`;
        } else if (late && !CUT_CODES.test(code)) return `${name}: ${code || "worked on a dead connection"} ${text}`;
      }
      if (others.length > 0) return `the driver made ${report.length} connections`;
      if (first.closedByDriver === "open") return "the driver left its socket open";
      if (next?.problem || next?.closedByDriver === "open")
        return `the next connection: ${next.problem || "left open"}`;
      return undefined;
    };

    for (const how of ["fin", "rst"] as const) {
      test(`by ${how} at every byte`, { timeout: 300_000 }, async () => {
        const { sessionBytes } = await length(false);
        expect((await length(false)).sessionBytes, "the session is not the same length each time").toBe(sessionBytes);
        const offsets = range(sessionBytes);
        const { wrong, cut, longest } = await cutAll("byte", how, offsets, false);
        console.log(
          `[faults] ${label}: cut by ${how} at ${cut.length} byte offsets, 0 to ${cut.at(-1)}, ` +
            `of a session of ${sessionBytes} bytes; longest ${longest} ms`,
        );
        expect(wrong.slice(0, 10), `${wrong.length} of ${sessionBytes} offsets`).toEqual([]);
        expect(cut).toEqual(offsets);
      });

      test(`by ${how} at every TLS record`, { timeout: 300_000 }, async () => {
        const { sessionRecords } = await length(true);
        const offsets = range(sessionRecords);
        const before = await cutAll("byte", how, [0, 1], true);
        const between = await cutAll("record", how, offsets, true);
        const within = await cutAll("half-record", how, offsets, true);
        const wrong = [...before.wrong, ...between.wrong, ...within.wrong];
        console.log(
          `[faults] ${label}: cut by ${how} behind ${between.cut.length} and within ${within.cut.length} TLS records ` +
            `of a session of ${sessionRecords}; longest ${Math.max(between.longest, within.longest)} ms`,
        );
        expect(wrong.slice(0, 10), `${wrong.length} of ${2 * sessionRecords + 2} cuts`).toEqual([]);
        expect(between.cut).toEqual(offsets);
        expect(within.cut).toEqual(offsets);
      });
    }
  });

  describe("a bad server:", () => {
    test("each scenario has a row", async () => {
      const { scenarios } = await host.info();
      expect([...new Set(badServerCases.map(({ scenario }) => scenario))].sort()).toEqual([...scenarios].sort());
    });

    for (const row of badServerCases) {
      const { scenario, options = {}, idle = 0, by = "query", tls = false, again, within = 100 } = row;
      test(row.with === undefined ? scenario : `${scenario} (${row.with})`, async () => {
        const attempt = () =>
          play({ scenario, tls }, (to) => ({
            kind: "bad server",
            target: to,
            options: wireable(options),
            by,
            idle,
            again: again !== undefined,
            deadline: Math.max(LIMIT, within),
          }));
        let { outcome, report } = await attempt();
        // A machine that is busy elsewhere may be slow once or twice; a timer is slow each time.
        for (let tries = 1; tries < 3 && outcome.ms > within; tries++) ({ outcome, report } = await attempt());

        const { steps } = outcome;
        const seen = steps[row.at === "nowhere" ? "query" : row.at === "anywhere" ? outcome.failed : row.at];
        const shown = JSON.stringify(steps);
        expect(outcome.problem, shown).toBe("");
        expect(seen?.code ?? "missing", shown).toMatch(
          typeof row.code === "string" ? new RegExp(`^${escaped(row.code)}$`) : row.code,
        );
        if (row.name !== undefined) expect(seen?.name, shown).toBe(row.name);
        if (again !== undefined && row.at !== "connect") expect(steps["again"]?.code, shown).toBe(again);
        expect(outcome.ms, `milliseconds to the failure: ${shown}`).toBeLessThan(within);
        const found = report[0] && row.check?.(outcome, report[0], label);
        expect(found || "").toBe("");
        for (const connection of report) {
          if (row.staysOpenOn?.[label] === undefined)
            expect(connection.closedByDriver, "the driver left a socket open").not.toBe("open");
          expect(connection.problem.replace(/^tls: .*/, "")).toBe("");
        }
      });
    }
  });

  describe("a cancel", () => {
    const cancels = (report: ConnectionReport[]) => report.filter(({ kind }) => kind === "cancel");
    const code = { timeout: "QUERY_TIMEOUT", signal: "ABORTED", close: "CLIENT_CLOSED" };

    for (const tls of [false, true]) {
      for (const by of ["timeout", "signal"] as const) {
        test(`by ${by}${tls ? " under TLS" : ""} reaches the server, and the connection is used again`, async () => {
          const { outcome, report } = await play({ tls }, (to) => ({ kind: "cancel", target: to, options: {}, by }));
          expect(outcome.problem).toBe("");
          expect(outcome.steps["cancelled"]?.code).toBe(code[by]);
          expect(outcome.steps["again"]).toMatchObject({ code: "" });
          const [cancel, ...others] = cancels(report);
          expect(others).toEqual([]);
          expect(cancel).toMatchObject({
            cancelKey: report[0]?.key,
            tls,
            names: tls ? ["SSLRequest", "CancelRequest"] : ["CancelRequest"],
            closedByDriver: "fin",
          });
          expect(cancel?.received.slice(0, 8)).toBe(tls ? "\0\0\0\x08\x04\xd2\x16\x2f" : "\0\0\0\x10\x04\xd2\x16\x2e");
        });
      }
    }

    test("carries a key of 256 bytes", async () => {
      const fault = { scenario: "cancel key of 256 bytes" };
      const { outcome, report } = await play(fault, (to) => ({
        kind: "cancel",
        target: to,
        options: { maxProtocolVersion: "3.2" },
        by: "signal",
      }));
      expect(outcome.problem).toBe("");
      expect(report[0]?.key.length).toBe(2 * 260);
      expect(only(cancels(report)).cancelKey).toBe(report[0]?.key);
      expect(outcome.steps["again"]?.code).toBe("");
    });

    test("by close() settles within a second and is sent", async () => {
      const { outcome, report } = await play({}, (to) => ({ kind: "cancel", target: to, options: {}, by: "close" }));
      expect(outcome.problem).toBe("");
      expect(outcome.steps["cancelled"]?.code).toBe(code.close);
      expect(outcome.steps["close"]?.ms).toBeLessThan(1000);
      expect(only(cancels(report)).cancelKey).toBe(report[0]?.key);
    });

    test("whose socket stays open does not hold up the call, nor the client for ever", async () => {
      const { outcome } = await play({ holdCancel: true }, (to) => ({
        kind: "cancel",
        target: to,
        options: {},
        by: "signal",
      }));
      expect(outcome.problem).toBe("");
      expect(outcome.steps["cancelled"]).toMatchObject({ code: code.signal });
      expect(outcome.steps["cancelled"]?.ms).toBeLessThan(300);
      expect(outcome.steps["again"]?.code).toMatch(/^(CONNECTION_LOST)?$/);
    });

    test("that the server ignores costs the connection, not the next one", async () => {
      const { outcome, report } = await play({ ignoreCancel: true }, (to) => ({
        kind: "cancel",
        target: to,
        options: {},
        by: "timeout",
      }));
      expect(outcome.problem).toBe("");
      expect(outcome.steps["cancelled"]?.code).toBe(code.timeout);
      expect(outcome.steps["again"]?.code).toBe("CONNECTION_LOST");
      expect(report[0]?.closedByDriver).not.toBe("open");
    });
  });

  test("no error was left uncaught", async () => {
    expect(await uncaught()).toEqual([]);
  });

  afterAll(async () => {
    // Also those that came from the last test's sockets.
    expect(await uncaught()).toEqual([]);
  });
}

/** JSON has no `undefined`: null stands for it until the job unpacks it. */
function wireable(options: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).map(([name, value]) => [name, value ?? null]));
}

const range = (n: number) => Array.from({ length: n }, (_, i) => i);
const escaped = (text: string) => text.replace(/[()]/g, "\\$&");

function item<T>(list: T[], i: number): T {
  const found = list[i];
  if (found === undefined) throw new Error(`nothing at ${i}`);
  return found;
}

function only<T>(list: T[]): T {
  expect(list.length).toBe(1);
  return item(list, 0);
}
