// A bad server and what the driver must make of it: the code of its error, and where it shows.
//
// A violation is rejected at once, in less than 100 ms, never by a timer; only a server that is silent runs into
// connectTimeout. The list of scenarios comes from reliability work on four drivers (none of which passed all); a
// comment names the hole where there is one.
import type { ConnectionReport } from "../control.ts";
import type { Outcome, Statement, Way } from "../jobs.ts";

export interface BadServerCase {
  scenario: string;
  /** What is different, where a scenario has several rows. */
  with?: string;
  /** "" when the driver must cope. */
  code: string | RegExp;
  /** The class of the error. */
  name?: string;
  at: "connect" | "query" | "anywhere" | "nowhere";
  options?: Record<string, unknown>;
  tls?: boolean;
  idle?: number;
  /** The statement under test. Default "rows". */
  of?: Statement;
  /** How it is asked, each in a test of its own. Default: as text. */
  ways?: readonly Way[];
  /** What is different in one of these ways. */
  otherwise?: Partial<Record<Way, Partial<BadServerCase>>>;
  /** What the error of a query says. Default false. */
  retryable?: boolean;
  /** Where a second statement of the same client works; unset: not tried. */
  again?: "same connection" | "new connection";
  /** Milliseconds to the failure. Default 100. */
  within?: number;
  /** Runtimes that cannot close the socket, with the reason; everywhere else one that stays open is a failure. */
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
/** A guess that SCRAM will be asked for says a nonce and nothing of the password. */
export const onlyNonce = (_outcome: Outcome, { passwords }: ConnectionReport) =>
  !/^(SCRAM-SHA-256(-PLUS)?\0[^]{4}(n|p=tls-server-end-point),,n=,r=[\w+/=]+)?$/.test(passwords.join()) &&
  `the server got ${JSON.stringify(passwords)}`;
export const noProof = (_outcome: Outcome, { passwords }: ConnectionReport) =>
  passwords.length > 1 && `the server got ${JSON.stringify(passwords)}`;

export const silent = { options: { connectTimeout: 300 }, within: 1000, name: "TimeoutError" };
export const rejected = "CONNECTION_LOST";
export const nonsense = "NOT_POSTGRESQL";
export const protocol = "PROTOCOL_VIOLATION";
export const unexpected = "UNEXPECTED_MESSAGE";
export const lost = { again: "new connection" } as const;

/** First runs of one statement. */
export const firstRuns = ["text", "stream", "together", "batch", "begin"] as const;

/** The tests of a row: one for each way, with what is different there. */
export function waysOf(row: BadServerCase): { name: string; way: Way; row: BadServerCase }[] {
  const { scenario, ways = ["text"], with: difference } = row;
  return ways.map((way) => {
    const details = [difference, ways.length > 1 || way !== "text" ? way : undefined].filter(Boolean).join(", ");
    return { name: details ? `${scenario} (${details})` : scenario, way, row: { ...row, ...row.otherwise?.[way] } };
  });
}
