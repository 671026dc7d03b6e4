// The fault tests, registered with vitest for one runtime: cuts at every byte and every TLS record, bad servers,
// cancels that are held up, and the behaviour that the byte proxy counts.
//
// Runs in the test's process; the driver runs wherever `run` brings a job: here (Node, Deno, Bun), or in workerd.
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { waysOf } from "./bad-servers/case.ts";
import { badServerCases } from "./bad-servers/cases.ts";
import { FaultHost, type ConnectionReport, type Fault } from "./control.ts";
import { SCRIPTS, type Job, type Outcome, type Script, type Settled, type Target } from "./jobs.ts";

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
/** Sessions whose reports are asked for together. */
const REPORTS_AT_ONCE = 64;
const CUT_CODES = /^(CONNECTION_LOST|CONNECT_FAILED|TLS_FAILED)$/;

export function faultSuite({ label, control, ca, run, uncaught }: FaultSuite): void {
  const host = new FaultHost(control);
  let identity: { user: string; password: string };
  // A database of its own per plan: ports are used again, and what the driver knows of a shape would shorten the
  // session.
  const target = ({ id, port }: { id: number; port: number }, tls = false, sslmode?: "require"): Target => ({
    host: "127.0.0.1",
    port,
    database: `scripted_${id}`,
    ...identity,
    sslmode: sslmode ?? (tls ? "verify-full" : "disable"),
    ...(tls && !sslmode && ca !== undefined ? { ca } : {}),
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
    await play({}, (to) => ({ kind: "cut", target: to, script: "described" }));
  });

  describe("a session cut", () => {
    /** The login is cut in the scripts that begin with all of it; the others begin behind a short one. */
    const hasLogin = (script: Script) => script === "described" || script === "early";

    /** A whole session, and the steps of its script. */
    const whole = async (script: Script, tls: boolean) => {
      const fault = { tls, trust: !hasLogin(script) };
      const { outcome, report } = await play(fault, (to) => ({ kind: "cut", target: to, script }));
      expect(outcome).toMatchObject({ problem: "", failed: "" });
      const [session, next, ...others] = report;
      expect(others).toEqual([]);
      for (const connection of [session, next]) expect(connection).toMatchObject({ kind: "main", problem: "", tls });
      // Deno and Bun reset a TLS socket whose close_notify they do not wait for; Terminate has arrived before.
      for (const connection of [session, next])
        expect(connection?.closedByDriver).toMatch(tls ? /^(fin|rst)$/ : /^fin$/);
      if (!session) throw new Error("no session");
      expect(session.names.at(-1)).toBe("Terminate");
      const { loginBytes, loginRecords, sessionBytes, sessionRecords } = session;
      const [login, end] = tls ? [loginRecords, sessionRecords] : [loginBytes, sessionBytes];
      return { from: hasLogin(script) ? 0 : login, end, steps: Object.keys(outcome.steps) };
    };

    interface Cut {
      script: Script;
      unit: "byte" | "record" | "half-record";
      how: "fin" | "rst";
      tls: boolean;
      /** Instead of verify-full. */
      sslmode?: "require";
      /** Of its script, in their order. */
      steps: string[];
    }
    interface Played {
      after: number;
      id: number;
      outcome: Outcome;
    }

    /**
     * Cuts at each offset, some sessions at a time, and gives the offsets that were really cut, with what went wrong.
     */
    const cutAll = async (cut: Cut, offsets: number[]) => {
      const { script, unit, how, tls, sslmode, steps } = cut;
      const wrong: string[] = [];
      const done: number[] = [];
      let longest = 0;
      const faults = offsets.map((after) => ({ tls, trust: !hasLogin(script), cut: { unit, after, how } }));
      const plans = await host.plans(faults);
      const waiting = offsets.map((after, i) => ({ after, ...item(plans, i) }));
      const failures: { after: number; step: number }[] = [];
      const played: Played[] = [];
      const judgeAll = async (some: Played[]) => {
        const reports = await host.reports(some.map(({ id }) => id));
        for (const [i, { after, outcome }] of some.entries()) {
          const report = item(reports, i);
          const found = judge(outcome, report, cut, after);
          if (found) wrong.push(`${script} cut by ${how} after ${after} ${unit}s: ${found}`);
          if (report[0]?.cut) done.push(after);
          longest = Math.max(longest, Math.round(outcome.total));
          if (outcome.failed) failures.push({ after, step: steps.indexOf(outcome.failed) });
        }
      };
      const worker = async () => {
        for (let next = waiting.shift(); next; next = waiting.shift()) {
          const outcome = await run({ kind: "cut", target: target(next, tls, sslmode), script });
          played.push({ after: next.after, id: next.id, outcome });
          if (played.length >= REPORTS_AT_ONCE) await judgeAll(played.splice(0));
        }
      };
      await Promise.all(Array.from({ length: tls ? AT_ONCE.tls : AT_ONCE.plain }, worker));
      await judgeAll(played);
      failures.sort((a, b) => a.after - b.after);
      // The later the cut, the later the step that meets it: says that the cuts are where they claim to be. A reset
      // takes back what was not read yet, of calls together that of another one.
      const group = (step: number) => (how === "rst" ? groupOf(steps[step] ?? "") : steps[step]) ?? "";
      for (const [i, { after, step }] of failures.entries()) {
        const before = failures[i - 1];
        if (before && step < before.step && group(step) !== group(before.step))
          wrong.push(
            `${script} cut by ${how} after ${after} ${unit}s failed in ${steps[step]}, ` +
              `the cut before that in ${steps[before.step]}`,
          );
      }
      return { wrong, cut: done.sort((a, b) => a - b), longest };
    };

    const judge = (
      outcome: Outcome,
      report: ConnectionReport[],
      { unit, tls, steps }: Cut,
      after: number,
    ): string | undefined => {
      const [first, ...others] = report;
      if (outcome.problem) return outcome.problem;
      if (!first?.cut || (unit === "byte" ? first.sent : first.records) !== after)
        return `the server cut elsewhere: ${JSON.stringify({ ...first, received: "" })}`;
      // An end between two calls may be noticed before the second one, which then connects again.
      const isIdle = outcome.failed === "" && others.length === 2;
      if (outcome.failed === "" && !isIdle) return "nothing failed";
      if (outcome.total > LIMIT) {
        const times = Object.entries(outcome.steps).map(([name, { ms }]) => `${name} ${Math.round(ms)}`);
        return `took ${Math.round(outcome.total)} ms: ${times.join(", ")}`;
      }
      for (const [name, settled] of Object.entries(outcome.steps)) {
        const { code, text, retryable, wanted } = settled;
        // Calls made together with the one that failed are lost with it; the client comes back for those behind them.
        const mayBeLost = name === outcome.failed || isBehind(name, steps, outcome.failed);
        if (code !== wanted && !(mayBeLost && CUT_CODES.test(code))) return `${name}: ${code} ${text}`;
        if (code === "TLS_FAILED" && !retryable) return `${name}: a network that failed is not retryable: ${text}`;
        const lie = tls ? "" : lieOf(name, settled, first);
        if (lie) return `${name}: ${lie}: ${text}`;
      }
      if (first.closedByDriver === "open") return "the driver left its socket open";
      for (const { problem, closedByDriver } of others)
        if (problem || closedByDriver === "open") return `the next connection: ${problem || "left open"}`;
      const isBack = Object.entries(outcome.steps).some(
        ([name, { code, wanted }]) => isLater(name, steps, outcome.failed) && code === wanted,
      );
      return others.length === (isBack || isIdle ? 2 : 1) ? undefined : `the driver made ${report.length} connections`;
    };

    const groupOf = (step: string) => step.split(":")[0];

    /** A call of the same client behind the one that failed. */
    const isLater = (name: string, steps: string[], failed: string) =>
      steps.indexOf(name) > steps.indexOf(failed) && !/^(close|next)/.test(name);

    /** And made together with it. */
    const isBehind = (name: string, steps: string[], failed: string) =>
      isLater(name, steps, failed) && groupOf(name) === groupOf(failed);

    /** What an error says, against what the server has seen in plain text. */
    const lieOf = (name: string, { code, retryable, transaction }: Settled, { received }: ConnectionReport) => {
      const mark = { query: "scripted_rows", stream: "scripted_stream", pairs: "scripted_pairs" }[name] ?? `${name} 1`;
      if (retryable && received.includes(mark)) return "retryable, though the server has seen it";
      if (!name.startsWith("transaction") || code === "") return undefined;
      // Behind CommandComplete of COMMIT, which the cut may have let through, it has committed.
      const commits = received.split("COMMIT\0").length - 1 > (name === "transaction" ? 0 : 1);
      const known = commits ? /^(unknown|committed)$/ : /^(undefined|unknown)$/;
      return known.test(String(transaction))
        ? undefined
        : `COMMIT ${commits ? "left" : "stayed"}, and it is ${transaction}`;
    };

    // FIN and RST differ in how the socket ends, not in what came before: by RST only one script is cut at every byte,
    // the others at every fourth, and under TLS they are cut behind records by FIN and within records by RST.
    for (const how of ["fin", "rst"] as const) {
      for (const script of SCRIPTS) {
        const each = how === "fin" || script === "described" ? 1 : 4;
        test(`by ${how} at every ${each === 1 ? "" : "fourth "}byte: ${script}`, { timeout: 300_000 }, async () => {
          const { from, end, steps } = await whole(script, false);
          expect(await whole(script, false), "the session is not the same each time").toEqual({ from, end, steps });
          const offsets = range(from, end).filter((after) => after % each === 0);
          const { wrong, cut, longest } = await cutAll({ script, unit: "byte", how, tls: false, steps }, offsets);
          console.log(
            `[faults] ${label}: ${script} cut by ${how} at ${cut.length} byte offsets, ${from} to ${cut.at(-1)}, ` +
              `of a session of ${end} bytes; longest ${longest} ms`,
          );
          expect(wrong.slice(0, 10), `${wrong.length} of ${offsets.length} offsets`).toEqual([]);
          expect(cut).toEqual(offsets);
        });

        test(`by ${how} at every TLS record: ${script}`, { timeout: 300_000 }, async () => {
          const { from, end, steps } = await whole(script, true);
          const offsets = range(from, end);
          const begin = from === 0 ? [0, 1] : [];
          // Ends between records are those of a server, ends within one those of a network.
          const units = (["record", "half-record"] as const).filter(
            (unit) => script === "described" || unit === (how === "fin" ? "record" : "half-record"),
          );
          const cut = { script, how, tls: true, steps };
          const found = [{ offsets: begin, ...(await cutAll({ ...cut, unit: "byte" }, begin)) }];
          for (const unit of units) found.push({ offsets, ...(await cutAll({ ...cut, unit }, offsets)) });
          const wrong = found.flatMap((each) => each.wrong);
          console.log(
            `[faults] ${label}: ${script} cut by ${how} behind or within (${units.join()}) each of the TLS records ` +
              `${from} to ${end - 1}; longest ${Math.max(...found.map(({ longest }) => longest))} ms`,
          );
          expect(wrong.slice(0, 10), `${wrong.length} cuts`).toEqual([]);
          for (const { offsets, cut } of found) expect(cut).toEqual(offsets);
        });
      }
    }

    // Deno reads such a link by other means.
    test("by rst within every TLS record of a link that is not verified", { timeout: 300_000 }, async () => {
      const { from, end, steps } = await whole("described", true);
      const offsets = range(from, end);
      const cut = {
        script: "described",
        unit: "half-record",
        how: "rst",
        tls: true,
        sslmode: "require",
        steps,
      } as const;
      const { wrong, cut: done, longest } = await cutAll(cut, offsets);
      console.log(
        `[faults] ${label}: unverified, cut by rst within TLS records ${from} to ${end - 1}; longest ${longest} ms`,
      );
      expect(wrong.slice(0, 10), `${wrong.length} cuts`).toEqual([]);
      expect(done).toEqual(offsets);
    });
  });

  describe("a bad server:", () => {
    test("each scenario has a row", async () => {
      const { scenarios } = await host.info();
      expect([...new Set(badServerCases.map(({ scenario }) => scenario))].sort()).toEqual([...scenarios].sort());
    });

    for (const { name, way, row } of badServerCases.flatMap(waysOf)) {
      const {
        scenario,
        options = {},
        idle = 0,
        of = "rows",
        tls = false,
        again,
        within = 100,
        retryable = false,
      } = row;
      test(name, async () => {
        const attempt = () =>
          play({ scenario, tls }, (to) => ({
            kind: "bad server",
            target: to,
            options: wireable(options),
            way,
            of,
            idle,
            again: again !== undefined,
            deadline: Math.max(LIMIT, within),
          }));
        let { outcome, report } = await attempt();
        // A machine that is busy elsewhere may be slow once or twice; a timer is slow each time.
        for (let tries = 1; tries < 3 && outcome.ms > within; tries++) ({ outcome, report } = await attempt());

        const { steps } = outcome;
        const seen = steps[row.at === "nowhere" ? "query" : row.at === "anywhere" ? outcome.failed || "query" : row.at];
        const shown = JSON.stringify(steps);
        expect(outcome.problem, shown).toBe("");
        expect(seen?.code ?? "missing", shown).toMatch(
          typeof row.code === "string" ? new RegExp(`^${escaped(row.code)}$`) : row.code,
        );
        if (row.name !== undefined) expect(seen?.name, shown).toBe(row.name);
        if (row.at === "query" && idle === 0) expect(seen?.retryable, shown).toBe(retryable);
        if (again !== undefined && row.at !== "connect") {
          expect(steps["again"]?.code, shown).toBe("");
          const sessions = report.filter(({ kind, names }) => kind === "main" && names.length > 0).length;
          // The last one is another client's.
          if (of === "rows") expect(sessions - 1, shown).toBe(again === "new connection" ? 2 : 1);
        }
        if (way === "together")
          expect(neighbours(steps), shown).toEqual(
            again === "new connection" && row.code !== "" ? lostBehind : unharmed,
          );
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

    /** Of the calls on the wire beside the one under test the first is over before it, and the last may have run. */
    const neighbours = ({ before, behind }: Outcome["steps"]) => ({
      before: before?.code,
      behind: behind?.code === "" ? "" : { name: behind?.name, retryable: behind?.retryable },
    });
    const unharmed = { before: "", behind: "" };
    const lostBehind = { before: "", behind: { name: expect.any(String) as string, retryable: false } };
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
      expect(outcome.steps["again"]?.code).toBe("");
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
      expect(outcome.steps["again"]?.code).toBe("");
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

const range = (from: number, end: number) => Array.from({ length: end - from }, (_, i) => from + i);
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
