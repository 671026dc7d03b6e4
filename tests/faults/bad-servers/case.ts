// A bad server and the required reaction of the driver: the code of its error, and the call that reports it.
//
// A violation is rejected at once, and by no timer of 100 ms or more; only a server that is silent runs into
// connectTimeout. The list of scenarios comes from reliability work on four drivers (none of which passed all); a
// comment names the hole where there is one.
import type { Difference } from "../../integration/context.ts";
import type { ConnectionReport } from "../control.ts";
import type { Outcome, Statement, Way } from "../jobs.ts";

export interface BadServerCase {
  scenario: string;
  /** The difference between the rows of one scenario, if it has several. */
  with?: string;
  /** "" when the driver must cope with the server. */
  code: string | RegExp;
  /** The class of the error. */
  name?: string;
  at: "connect" | "query" | "anywhere" | "nowhere";
  options?: Record<string, unknown>;
  tls?: boolean;
  idle?: number;
  /** The statement under test. Default "rows". */
  of?: Statement;
  /** The ways in which the statement is asked, each in a test of its own. Default: as text. */
  ways?: readonly Way[];
  /** The fields that differ in one of these ways. */
  otherwise?: Partial<Record<Way, Partial<BadServerCase>>>;
  /** The `retryable` of a query's error. Default false. */
  retryable?: boolean;
  /** The connection on which a second statement of the same client works; unset: not tried. */
  again?: "same connection" | "new connection";
  /** Timers that fire before the failure have a delay below this, in milliseconds. Default 100. */
  timersBelow?: number;
  /** What a runtime brings itself, and the row does not show (`canDiffer`). */
  differs?: Difference;
  /** Runtimes that cannot close the socket, with the reason. On all others a socket that stays open is a failure. */
  staysOpenOn?: Record<string, string>;
  check?: (outcome: Outcome, first: ConnectionReport, label: string) => string | undefined | false;
}

type Extra = Omit<BadServerCase, "scenario" | "code" | "at">;

export const atConnect = (scenario: string, code: string | RegExp, extra: Extra = {}): BadServerCase => ({
  scenario,
  code,
  at: "connect",
  ...extra,
});
export const inQuery = (scenario: string, code: string | RegExp, extra: Extra = {}): BadServerCase => ({
  scenario,
  code,
  at: "query",
  ...extra,
});
export const fine = (scenario: string, extra: Extra = {}): BadServerCase => ({
  scenario,
  code: "",
  at: "nowhere",
  again: "same connection",
  ...extra,
});

export const noPassword = (_outcome: Outcome, { passwords }: ConnectionReport) =>
  passwords.length > 0 && `the server got ${JSON.stringify(passwords)}`;
/** Checks that a predicted SCRAM login sends a nonce, and nothing that depends on the password. */
export const onlyNonce = (_outcome: Outcome, { passwords }: ConnectionReport) =>
  !/^(SCRAM-SHA-256(-PLUS)?\0[^]{4}(n|p=tls-server-end-point),,n=,r=[\w+/=]+)?$/.test(passwords.join()) &&
  `the server got ${JSON.stringify(passwords)}`;
export const noProof = (_outcome: Outcome, { passwords }: ConnectionReport) =>
  passwords.length > 1 && `the server got ${JSON.stringify(passwords)}`;

export const silent = { options: { connectTimeout: 300 }, timersBelow: 1000, name: "TimeoutError" };
export const rejected = "CONNECTION_LOST";
export const nonsense = "NOT_POSTGRESQL";
export const protocol = "PROTOCOL_VIOLATION";
export const unexpected = "UNEXPECTED_MESSAGE";
export const lost = { again: "new connection" } as const;

/** The ways that are first runs of one statement. */
export const firstRuns = ["text", "stream", "together", "begin"] as const;

/**
 * Returns the tests of a row that a runtime can change: its socket has TLS, is idle, ends or stays silent, or
 * `differs` says what else. What a server sends wrongly is noticed by the core, which is the same everywhere. A runtime
 * does not know in which way a statement is asked, apart from a stream.
 */
export function canDiffer(row: BadServerCase): ReturnType<typeof waysOf> {
  const { code, tls, idle, differs } = row;
  const isOfSocket = tls || idle || /_(LOST|FAILED|TIMEOUT)/.test(String(code));
  return isOfSocket || differs ? waysOf(row).filter(({ way }, at) => at === 0 || way === "stream") : [];
}

/** Returns the tests of a row: one for each way, with the fields that differ there. */
export function waysOf(row: BadServerCase): { name: string; way: Way; row: BadServerCase }[] {
  const { scenario, ways = ["text"], with: difference } = row;
  return ways.map((way) => {
    const details = [difference, ways.length > 1 || way !== "text" ? way : undefined].filter(Boolean).join(", ");
    return { name: details ? `${scenario} (${details})` : scenario, way, row: { ...row, ...row.otherwise?.[way] } };
  });
}
