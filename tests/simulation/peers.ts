// Plays the same drawn programs over this driver, pg and postgres.js, each against the same server model, and counts in
// a table the sessions in which each kind of thing goes wrong.
//
// Knows seeds, drivers and rows. Must not know what a session does (peers/session.ts), or where packages are
// (peers.mjs).
import "./patches.ts";
import { real } from "./patches.ts";
import { draw } from "./program.ts";
import { ROWS, type Finding, type Row } from "./peers/findings.ts";
import { DRIVERS, play, type Driver, type Report } from "./peers/session.ts";

interface Count {
  sessions: number;
  /** The first seed. */
  seed: number;
}

export interface Tally {
  sessions: number;
  calls: number;
  disturbed: number;
  /** The number of sessions in which anything went wrong. */
  failed: number;
  rows: Map<Row, Count>;
  seconds: number;
}

/** The tally of each driver that was played. */
export type Tallies = ReadonlyMap<Driver, Tally>;

/** Plays the programs of these seeds over these drivers. `each` is called with every session. */
export async function compare(
  drivers: readonly Driver[],
  seeds: Iterable<number>,
  each: (driver: Driver, seed: number, findings: readonly Finding[]) => void = () => {},
): Promise<Tallies> {
  const tallies = new Map(drivers.map((driver) => [driver, emptyTally()]));
  for (const seed of seeds)
    for (const [driver, tally] of tallies) {
      const began = real.now();
      const report = await play(draw(seed), driver);
      add(tally, seed, report);
      tally.seconds += (real.now() - began) / 1000;
      each(driver, seed, report.findings);
    }
  return tallies;
}

function emptyTally(): Tally {
  return { sessions: 0, calls: 0, disturbed: 0, failed: 0, rows: new Map(), seconds: 0 };
}

function add(tally: Tally, seed: number, { findings, calls, disturbed }: Report): void {
  tally.sessions++;
  tally.calls += calls;
  tally.disturbed += disturbed;
  if (findings.length) tally.failed++;
  for (const row of new Set(findings.map((finding) => finding.row))) {
    const count = tally.rows.get(row);
    if (count) count.sessions++;
    else tally.rows.set(row, { sessions: 1, seed });
  }
}

/** Returns the table. `titles` gives the heading of each driver's column. */
export function tableOf(tallies: Tallies, titles: Readonly<Record<Driver, string>>): string {
  const all = [...tallies.values()];
  const cell = (count: Count | undefined) => (count ? `${count.sessions} (seed ${count.seed})` : "0");
  const numbers = (of: (tally: Tally) => number) => all.map((tally) => String(of(tally)));
  const lines = [
    ["sessions in which", ...[...tallies.keys()].map((driver) => titles[driver])],
    ["---", ...all.map(() => "---:")],
    ...(Object.keys(ROWS) as Row[]).map((row) => [ROWS[row], ...all.map(({ rows }) => cell(rows.get(row)))]),
    ["**any of these**", ...numbers(({ failed }) => failed)],
    ["sessions", ...numbers(({ sessions }) => sessions)],
    ["calls", ...numbers(({ calls }) => calls)],
    ["disturbances from outside", ...numbers(({ disturbed }) => disturbed)],
  ];
  return lines.map((line) => `| ${line.join(" | ")} |`).join("\n");
}

export { draw, play, DRIVERS, ROWS };
