// Cuts or silences a session after so many bytes: each offset once, and a check of the driver's reaction.
//
// Knows the scripts of jobs.ts by their steps, and the two ends of a session: the driver's results, and the server's
// report. Must not know which tests there are.
import { expect } from "vitest";

import type { ConnectionReport, Fault, How } from "./control.ts";
import type { CutJob, Outcome, Script, Settled } from "./jobs.ts";
import { item, type FaultSuite, type Stage } from "./stage.ts";

export interface Cut {
  script: Script;
  unit: "byte" | "record" | "half-record";
  how: How;
  tls: boolean;
  /** Used instead of verify-full. */
  sslmode?: "require";
  /** Calls that may share a connection of the pool. */
  pipelining?: number | undefined;
  /** The steps of its script, in order. */
  steps: string[];
}

interface Played {
  after: number;
  id: number;
  outcome: Outcome;
}

/**
 * Sessions at a time. A TLS handshake uses the processor, and the 2 s are for the driver, not for the queue before it.
 * Waiting for a silent server uses none: such sessions are many, and begin one by one.
 */
const AT_ONCE = { plain: 16, tls: 6, silent: 60 };
const BETWEEN_BEGINS = 25;
/**
 * Milliseconds for a whole session; for each call when the server falls silent; and for a busy machine. The last is
 * less than the drain: workerd's timers wait until no event is left.
 */
const LIMIT = 2000;
const PATIENCE = 1500;
const SLACK = 1500;
/** Milliseconds that the driver waits for ReadyForQuery on a connection whose call is over. */
const DRAIN = 2000;
/** Milliseconds that the end of a pool takes at most, after the time that its calls get. */
const CLOSE = 1000;
/** Number of sessions whose reports are requested together. */
const REPORTS_AT_ONCE = 64;
const CUT_CODES = /^(CONNECTION_LOST|CONNECT_FAILED|TLS_FAILED)$/;
const SILENCE_CODES = /^(QUERY_TIMEOUT|CONNECT_TIMEOUT)$/;

const isSilent = (how: How) => how === "silence" || how === "half-open";

/**
 * The scripts that begin with a whole login, and the pool's, are cut in the login too. The others begin after a short
 * login.
 */
const hasLogin = (script: Script) => script === "described" || script === "early";
const beginsWithLogin = (script: Script) => hasLogin(script) || script === "pool";

/** Plays a whole session without a cut. Returns its length and the steps of its script. */
export async function whole(stage: Stage, script: Script, tls: boolean, pipelining?: number) {
  // The pool's next call runs on the same connection, so it is left out.
  const isPool = script === "pool";
  const { outcome, report } = await stage.play({ tls, trust: !hasLogin(script) }, (target) => ({
    kind: "cut",
    target,
    script,
    ...(isPool ? { alone: true, pipelining } : {}),
  }));
  expect(outcome).toMatchObject({ problem: "", failed: "" });
  expect(report.length).toBe(isPool ? 1 : 2);
  for (const connection of report) {
    expect(connection).toMatchObject({ kind: "main", problem: "", tls });
    // Deno and Bun reset a TLS socket whose close_notify they do not wait for; Terminate has arrived before.
    expect(connection.closedByDriver).toMatch(tls ? /^(fin|rst)$/ : /^fin$/);
  }
  const session = item(report, 0);
  expect(session.names.at(-1)).toBe("Terminate");
  const { loginBytes, loginRecords, sessionBytes, sessionRecords } = session;
  const [login, end] = tls ? [loginRecords, sessionRecords] : [loginBytes, sessionBytes];
  return { from: beginsWithLogin(script) ? 0 : login, end, steps: Object.keys(outcome.steps) };
}

/**
 * Cuts at each offset, some sessions at a time. Returns the offsets that were really cut, and the failures.
 *
 * A session that took too long is played again, up to nine times: a driver that waits too long is late each time, and a
 * busy machine only sometimes. Such sessions are played one by one, because six handshakes at a time take 1.7 of the 2
 * seconds where two other processes are busy. Those that wait for a silent server are played half as many at a time in
 * each round. (Sixty at a time in each of five rounds were too many for the old workerd, beside a load of 13.)
 */
export async function cutAll(stage: Stage, run: FaultSuite["run"], cut: Cut, offsets: number[]) {
  const atOnce = isSilent(cut.how) ? AT_ONCE.silent : cut.tls ? AT_ONCE.tls : AT_ONCE.plain;
  let all = lateToo(await playAll(stage, run, cut, offsets, atOnce), cut);
  let some = atOnce;
  for (let tries = 0; tries < 9 && all.late.length > 0; tries++) {
    some = isSilent(cut.how) ? Math.ceil(some / 2) : 1;
    const told = all.late.slice(0, 10).map(({ text }) => text);
    console.log([`[faults] ${all.late.length} took too long and are played again, first:`, ...told].join("\n"));
    const late = [...new Set(all.late.map(({ after }) => after))];
    const again = await playAll(stage, run, cut, late, some);
    const round = {
      wrong: [...all.wrong, ...again.wrong],
      late: again.late,
      cut: [...all.cut.filter((after) => !late.includes(after)), ...again.cut],
      failures: [...all.failures.filter(({ after }) => !late.includes(after)), ...again.failures],
      longest: Math.max(all.longest, again.longest),
    };
    all = lateToo(round, cut);
  }
  return summed(all, cut);
}

/**
 * Adds the calls that failed before a cut by silence: they missed their deadline, which may happen on a busy machine.
 */
function lateToo(all: Awaited<ReturnType<typeof playAll>>, cut: Cut) {
  return isSilent(cut.how) ? { ...all, late: [...all.late, ...outOfOrder(all.failures, cut)] } : all;
}

/** A session that is late in the last round is wrong. */
function summed({ wrong, late, cut: done, failures, longest }: Awaited<ReturnType<typeof playAll>>, cut: Cut) {
  const others = isSilent(cut.how) ? late : [...late, ...outOfOrder(failures, cut)];
  return { wrong: [...wrong, ...others.map(({ text }) => text)], cut: done.sort((a, b) => a - b), longest };
}

async function playAll(stage: Stage, run: FaultSuite["run"], cut: Cut, offsets: number[], atOnce: number) {
  const { script, unit, how, tls, sslmode, pipelining, steps } = cut;
  const wrong: string[] = [];
  const late: { after: number; text: string }[] = [];
  const done: number[] = [];
  let longest = 0;
  const fault = (after: number): Fault => ({ tls, trust: !hasLogin(script), cut: { unit, after, how } });
  const plans = await stage.host.plans(offsets.map(fault));
  const waiting = offsets.map((after, i) => ({ after, ...item(plans, i) }));
  const failures: { after: number; step: number }[] = [];
  const played: Played[] = [];
  const judgeAll = async (some: Played[]) => {
    const reports = await stage.host.reports(some.map(({ id }) => id));
    for (const [i, { after, outcome }] of some.entries()) {
      const report = item(reports, i);
      const found = judge(outcome, report, cut, after);
      const tooLong = found ? undefined : lateOf(outcome, cut);
      const told = (text: string) => `${script} cut by ${how} after ${after} ${unit}s: ${text}: ${timesOf(outcome)}`;
      if (found?.mayBeLate) late.push({ after, text: told(found.text) });
      else if (found) wrong.push(told(found.text));
      if (tooLong) late.push({ after, text: told(tooLong) });
      if (report[0]?.cut) done.push(after);
      longest = Math.max(longest, Math.round(outcome.total));
      if (outcome.failed) failures.push({ after, step: steps.indexOf(outcome.failed) });
    }
  };
  const options: Partial<CutJob> = { pipelining, ...(isSilent(how) ? { patience: PATIENCE } : {}) };
  const worker = async (_: unknown, i: number) => {
    if (isSilent(how)) await new Promise((resolve) => setTimeout(resolve, i * BETWEEN_BEGINS));
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const outcome = await run({ kind: "cut", target: stage.target(next, tls, sslmode), script, ...options });
      played.push({ after: next.after, id: next.id, outcome });
      if (played.length >= REPORTS_AT_ONCE) await judgeAll(played.splice(0));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  await judgeAll(played);
  return { wrong, late, cut: done, failures, longest };
}

/**
 * A later cut must fail a later step, which shows that the cuts are where they claim to be. A reset discards bytes that
 * were not read yet, so among calls made together it may fail an earlier call.
 */
function outOfOrder(failures: { after: number; step: number }[], { script, unit, how, steps }: Cut) {
  const group = (step: number) => (how === "rst" ? groupOf(steps[step] ?? "") : steps[step]) ?? "";
  failures.sort((a, b) => a.after - b.after);
  return failures.flatMap(({ after, step }, i) => {
    const before = failures[i - 1];
    if (!before || step >= before.step || group(step) === group(before.step)) return [];
    const those = `${steps[step]}, the cut before that in ${steps[before.step]}`;
    return [{ after, text: `${script} cut by ${how} after ${after} ${unit}s failed in ${those}` }];
  });
}

interface Wrong {
  text: string;
  /** If the machine stops for longer than a call's deadline, calls that were not cut fail too. */
  mayBeLate: boolean;
}

/**
 * Returns what is wrong with a session, apart from its time. Its stored rows and its error flags never depend on time.
 */
function judge(outcome: Outcome, report: ConnectionReport[], cut: Cut, after: number): Wrong | undefined {
  const isLate = isSilent(cut.how) && hasMissedDeadline(outcome, report);
  // If steps are missing, the session's writes are not known.
  const text = outcome.problem ? undefined : storedOrSaidWrong(outcome, report, cut);
  if (text) return { text, mayBeLate: false };
  const other = wentWrong(outcome, report, cut, after);
  return other ? { text: other, mayBeLate: isLate } : undefined;
}

/**
 * Returns whether a call missed its deadline or a connection did not end. A silent server or the machine may be the
 * cause.
 */
function hasMissedDeadline({ steps, problem }: Outcome, report: ConnectionReport[]): boolean {
  const isOpen = report.some(({ closedByDriver }) => closedByDriver === "open");
  return isOpen || /_TIMEOUT\b/.test(problem) || Object.values(steps).some(({ code }) => SILENCE_CODES.test(code));
}

/** Checks the flags of errors and the contents of the ledger. */
function storedOrSaidWrong(outcome: Outcome, report: ConnectionReport[], { tls }: Cut): string | undefined {
  const sessions = report.filter(({ kind }) => kind !== "cancel");
  for (const [name, settled] of Object.entries(outcome.steps)) {
    const { code, text, retryable } = settled;
    if (code === "TLS_FAILED" && !retryable) return `${name}: a network that failed is not retryable: ${text}`;
    const lie = tls ? "" : lieOf(name, settled, sessions);
    if (lie) return `${name}: ${lie}: ${text}`;
  }
  return ledgerFault(outcome, report);
}

function wentWrong(outcome: Outcome, report: ConnectionReport[], cut: Cut, after: number): string | undefined {
  const { unit, how, steps, script } = cut;
  const [first, ...others] = report.filter(({ kind }) => kind !== "cancel");
  if (outcome.problem) return outcome.problem;
  if (!first?.cut || (unit === "byte" ? first.sent : first.records) !== after)
    return `the server cut elsewhere: ${JSON.stringify({ ...first, received: "" })}`;
  // After its script, a client's work is continued by a new client, and a pool's by the pool itself.
  const next = script === "pool" ? 0 : 1;
  // An end between two calls may be noticed before the second call, which then connects again.
  const isIdle = outcome.failed === "" && others.length === 1 + next;
  if (outcome.failed === "" && !isIdle) return "nothing failed";
  const codes = isSilent(how) ? SILENCE_CODES : CUT_CODES;
  for (const [name, settled] of Object.entries(outcome.steps)) {
    const { code, text, wanted } = settled;
    // Calls made together with the failed call are lost with it; the client connects again for later calls.
    const mayBeLost = name === outcome.failed || isBehind(name, steps, outcome.failed);
    if (code !== wanted && !(mayBeLost && codes.test(code))) return `${name}: ${code} ${text}`;
  }
  for (const { kind, problem, closedByDriver } of report)
    if (problem || closedByDriver === "open") return `a connection (${kind}): ${problem || "left open by the driver"}`;
  const isBack = Object.entries(outcome.steps).some(
    ([name, { code, wanted }]) => isLater(name, steps, outcome.failed) && code === wanted,
  );
  // With a silent connection in its place, a pool may have opened two others.
  if (isSilent(how) && others.length === 2) return undefined;
  const connects = script === "pool" ? 1 : next + Number(isBack || isIdle);
  return others.length === connects ? undefined : `the driver made ${report.length} connections`;
}

const groupOf = (step: string) => step.split(":")[0];

/** Returns whether this call of the same client comes after the failed call. */
const isLater = (name: string, steps: string[], failed: string) =>
  steps.indexOf(name) > steps.indexOf(failed) && !/^(close|next)/.test(name);

/** Returns whether it was also made together with the failed call. */
const isBehind = (name: string, steps: string[], failed: string) =>
  isLater(name, steps, failed) && groupOf(name) === groupOf(failed);

/**
 * Compares the flags of an error with what the server has seen in plain text. The first session is the one that is cut.
 * A machine that stops for longer than a call's deadline makes a call of a pool fail in another session, too. Only what
 * is written has a mark that no later call has.
 */
function lieOf(name: string, { code, hasNoEffect, transaction, writes }: Settled, sessions: ConnectionReport[]) {
  const reads: Record<string, string> = { query: "scripted_rows", stream: "scripted_stream", pairs: "scripted_pairs" };
  const mark = reads[name] ?? writes?.[0] ?? `${name} 1`;
  const [first] = sessions;
  const own = sessions.find(({ received }) => received.includes(mark)) ?? first;
  if (hasNoEffect && (writes ? own : first)?.received.includes(mark))
    return "without effect, though the server has seen it";
  if (!name.startsWith("transaction") || code === "") return undefined;
  // After CommandComplete of COMMIT, which may have arrived before the cut, the transaction has committed.
  const commits = (own?.received.split("COMMIT\0").length ?? 0) - 1 > (name === "transaction" ? 0 : 1);
  const known = commits ? /^(unknown|committed)$/ : /^(undefined|unknown|rolled back)$/;
  return known.test(String(transaction))
    ? undefined
    : `COMMIT ${commits ? "left" : "stayed"}, and it is ${transaction}`;
}

/** Returns a step that took too long: a silent server costs a call its deadline, and an end its drain. */
function lateOf({ steps, total }: Outcome, { how, pipelining }: Cut): string | undefined {
  if (!isSilent(how)) return total > LIMIT ? `took ${Math.round(total)} ms` : undefined;
  for (const [name, { ms }] of Object.entries(steps)) {
    // These steps wait until the connection is clean or gone. A transaction with a deadline of its own does not.
    const drains = name === "release" || (name === "transaction" && pipelining !== undefined);
    const deadline = PATIENCE + (drains ? DRAIN : 0) + (name.endsWith("close") ? CLOSE : 0);
    if (ms > deadline + SLACK) return `${name} settled late`;
  }
  return undefined;
}

const timesOf = ({ steps }: Outcome) =>
  Object.entries(steps)
    .map(([name, { ms, code }]) => `${name} ${Math.round(ms)} ${code}`)
    .join(", ");

/**
 * Acknowledged writes are in the ledger once, writes without effect never, and the others at most once. A call's
 * writes are all there, or none is.
 */
function ledgerFault({ steps }: Outcome, report: ConnectionReport[]): string | undefined {
  const committed = report.flatMap((connection) => connection.committed);
  const known = new Set(Object.values(steps).flatMap(({ writes = [] }) => writes));
  for (const entry of committed) if (!known.has(entry)) return `${entry} is in the ledger, and nobody asked for that`;
  for (const [name, { writes = [], code, hasNoEffect }] of Object.entries(steps)) {
    if (writes.length === 0) continue;
    const [times = 0, ...others] = writes.map((entry) => committed.filter((each) => each === entry).length);
    if (others.some((each) => each !== times)) return `half of ${name} is in the ledger`;
    const right = code === "" ? times === 1 : times <= (hasNoEffect ? 0 : 1);
    if (!right) return `${name} was answered with "${code}", and is in the ledger ${times} times`;
  }
  return undefined;
}
