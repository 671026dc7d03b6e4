// Registers the fault tests with vitest for one runtime: cuts at bytes and TLS records, bad servers, cancels that are
// held up, and the behaviour that the byte proxy counts.
//
// Runs in the test's process; the driver runs wherever `run` brings a job: here (Node, Deno, Bun), or in workerd.
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { canDiffer, waysOf } from "./bad-servers/case.ts";
import { badServerCases } from "./bad-servers/cases.ts";
import type { ConnectionReport } from "./control.ts";
import { cutAll, whole } from "./cuts.ts";
import { SCRIPTS, type Outcome } from "./jobs.ts";
import { isWhole, only, range, sampled, Stage, type FaultSuite } from "./stage.ts";

/** Which bytes and which TLS records of a session are cut. */
const BYTES = { each: 16, elsewhere: 64 };
const RECORDS = { each: 4, elsewhere: 9 };

export function faultSuite(suite: FaultSuite): void {
  const { label, run, uncaught } = suite;
  const stage = new Stage(suite);
  const { host } = stage;
  const play = stage.play.bind(stage);

  beforeAll(() => stage.begin());

  describe("a session cut", () => {
    // FIN and RST differ in how the socket ends, not in what came before. Under TLS one script is cut both after and
    // within records; the others are cut after records by FIN and within records by RST.
    for (const how of ["fin", "rst"] as const) {
      for (const script of SCRIPTS) {
        test(`by ${how} after any byte settles its calls rightly: ${script}`, async () => {
          const { from, end, steps } = await whole(stage, script, false);
          expect(await whole(stage, script, false), "the session is not the same each time").toEqual({
            from,
            end,
            steps,
          });
          const offsets = sampled(range(from, end), suite, BYTES);
          const { wrong, cut, longest } = await cutAll(
            stage,
            run,
            { script, unit: "byte", how, tls: false, steps },
            offsets,
          );
          console.log(
            `[faults] ${label}: ${script} cut by ${how} at ${cut.length} byte offsets, ${from} to ${cut.at(-1)}, ` +
              `of a session of ${end} bytes; longest ${longest} ms`,
          );
          expect(wrong.slice(0, 10), `${wrong.length} of ${offsets.length} offsets`).toEqual([]);
          expect(cut).toEqual(offsets);
        });

        test(`by ${how} at TLS records settles its calls rightly: ${script}`, async () => {
          const { from, end, steps } = await whole(stage, script, true);
          const offsets = sampled(range(from, end), suite, RECORDS);
          const begin = from === 0 ? [0, 1] : [];
          // An end between records is a server's, an end within a record is a network's.
          const units = (["record", "half-record"] as const).filter(
            (unit) => script === "described" || unit === (how === "fin" ? "record" : "half-record"),
          );
          const cut = { script, how, tls: true, steps };
          const found = [{ offsets: begin, ...(await cutAll(stage, run, { ...cut, unit: "byte" }, begin)) }];
          for (const unit of units) found.push({ offsets, ...(await cutAll(stage, run, { ...cut, unit }, offsets)) });
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

    // Deno reads such a link in another way.
    test("by rst within TLS records of an unverified link settles its calls", async () => {
      const { from, end, steps } = await whole(stage, "described", true);
      const offsets = sampled(range(from, end), suite, RECORDS);
      const cut = {
        script: "described",
        unit: "half-record",
        how: "rst",
        tls: true,
        sslmode: "require",
        steps,
      } as const;
      const { wrong, cut: done, longest } = await cutAll(stage, run, cut, offsets);
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

    const chosen = isWhole(suite) ? badServerCases.flatMap(waysOf) : badServerCases.flatMap(canDiffer);
    for (const { name, way, row } of chosen) {
      const {
        scenario,
        options = {},
        idle = 0,
        of = "rows",
        tls = false,
        again,
        timersBelow = 100,
        retryable = false,
      } = row;
      test(name, async () => {
        const { outcome, report } = await play({ scenario, tls }, (to) => ({
          kind: "bad server",
          target: to,
          options: wireable(options),
          way,
          of,
          idle,
          again: again !== undefined,
        }));
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
          // The last statement belongs to another client.
          if (of === "rows") expect(sessions - 1, shown).toBe(again === "new connection" ? 2 : 1);
        }
        if (way === "together")
          expect(neighbours(steps), shown).toEqual(
            again === "new connection" && row.code !== "" ? lostBehind : unharmed,
          );
        expect(outcome.timer, `the delay of a timer that had to fire first: ${shown}`).toBeLessThan(timersBelow);
        const found = report[0] && row.check?.(outcome, report[0], label);
        expect(found || "").toBe("");
        for (const connection of report) {
          if (row.staysOpenOn?.[label] === undefined)
            expect(connection.closedByDriver, "the driver left a socket open").not.toBe("open");
          expect(connection.problem.replace(/^tls: .*/, "")).toBe("");
        }
      });
    }

    /** Of the calls beside the call under test, the first has ended before it, and the last may have run. */
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

    test("by close() waits for no timer of a second, and is sent", async () => {
      const { outcome, report } = await play({}, (to) => ({ kind: "cancel", target: to, options: {}, by: "close" }));
      expect(outcome.problem).toBe("");
      expect(outcome.steps["cancelled"]?.code).toBe(code.close);
      expect(outcome.steps["close"]?.timer).toBeLessThan(1000);
      expect(only(cancels(report)).cancelKey).toBe(report[0]?.key);
    });

    test("whose socket stays open delays neither the call nor the client for ever", async () => {
      const { outcome } = await play({ holdCancel: true }, (to) => ({
        kind: "cancel",
        target: to,
        options: {},
        by: "signal",
      }));
      expect(outcome.problem).toBe("");
      expect(outcome.steps["cancelled"]).toMatchObject({ code: code.signal });
      // The CancelRequest may be sent a second time, which is no wait. The driver gives it up after 2 s.
      expect(outcome.steps["cancelled"]?.timer).toBeLessThan(2_000);
      expect(outcome.steps["again"]?.code).toBe("");
    });

    test("that the server ignores ends the connection, and the next connection works", async () => {
      const { outcome, report } = await play({ ignoreCancel: true }, (to) => ({
        kind: "cancel",
        target: to,
        options: {},
        by: "timeout",
      }));
      expect(outcome.problem).toBe("");
      expect(outcome.steps["cancelled"]?.code).toBe(code.timeout);
      expect(outcome.steps["cancelled"]?.timer, "its timeout, so timers are seen").toBeGreaterThan(0);
      expect(outcome.steps["again"]?.code).toBe("");
      expect(report[0]?.closedByDriver).not.toBe("open");
    });
  });

  test("no error was left uncaught", async () => {
    expect(await uncaught()).toEqual([]);
  });

  afterAll(async () => {
    // Includes errors from the last test's sockets.
    expect(await uncaught()).toEqual([]);
  });
}

/** JSON has no `undefined`, so null means it until the job unpacks it. */
function wireable(options: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).map(([name, value]) => [name, value ?? null]));
}

const escaped = (text: string) => text.replace(/[()]/g, "\\$&");
