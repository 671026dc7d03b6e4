// The progress line on standard error: rows, bytes, rate, time left.
//
// Knows counts and a clock. Must not know where data come from. On a terminal one line is rewritten in place.
// Elsewhere, on request, it writes a line per second, for a log.
import process from "node:process";
import type { OptionValues } from "./command.ts";
import { Misuse } from "./misuse.ts";
import { beforeLines, CLEAR, overwrite, say } from "./terminal.ts";

/** What is known in advance about the data. */
interface Expected {
  readonly bytes?: number | undefined;
  /** Number of rows, estimated from the server's statistics. */
  readonly aboutRows?: number | undefined;
  /** The unit of the count. Default "row". */
  readonly unit?: "row" | "change" | undefined;
  /** Returns further text for the line while the work runs. */
  readonly more?: (() => string) | undefined;
}

export const PROGRESS_OPTIONS = { progress: { type: "boolean" }, "no-progress": { type: "boolean" } } as const;
export const PROGRESS_HELP = `  --progress         show progress where standard error is no terminal too: a line per second
  --no-progress      show none`;

/** Whether progress is shown: by default on a terminal that shows nothing else (`isFree`). */
export function wantsProgress(options: OptionValues, isFree: boolean): boolean {
  if (options["progress"] && options["no-progress"]) throw new Misuse("--progress or --no-progress, not both.");
  if (options["no-progress"]) return false;
  return options["progress"] === true || (isFree && process.stderr.isTTY === true);
}

export class Progress {
  rows: number | undefined;
  bytes = 0;
  readonly #expected: Expected;
  readonly #from = performance.now();
  readonly #timer: NodeJS.Timeout;
  readonly #isTerminal = process.stderr.isTTY === true;

  constructor(expected: Expected) {
    this.#expected = expected;
    this.#timer = setInterval(() => this.#show(), this.#isTerminal ? 100 : 1_000);
    if (this.#isTerminal) beforeLines(() => CLEAR);
  }

  /** Ends the progress line. With `rows`, the final count, writes a last line with the totals. */
  end(rows?: number | null): void {
    clearInterval(this.#timer);
    beforeLines(() => "");
    if (this.#isTerminal) overwrite("");
    if (rows !== undefined && rows !== null)
      say(
        line({
          rows,
          bytes: this.bytes,
          seconds: this.#seconds(),
          expected: { unit: this.#expected.unit },
          isOver: true,
        }),
      );
  }

  #show(): void {
    const { rows, bytes } = this;
    const text = line({ rows, bytes, seconds: this.#seconds(), expected: this.#expected, isOver: false });
    const columns = process.stderr.columns || 80; // a terminal may not know its width
    if (this.#isTerminal) overwrite(text.slice(0, columns - 1));
    else say(text);
  }

  #seconds(): number {
    return (performance.now() - this.#from) / 1_000;
  }
}

interface State {
  readonly rows: number | undefined;
  readonly bytes: number;
  readonly seconds: number;
  readonly expected: Expected;
  readonly isOver: boolean;
}

/** `120,000 rows, 4.1 MB of 19.8 MB, 2.0 MB/s, 8 s left`. */
function line({ rows, bytes, seconds, expected, isOver }: State): string {
  const total = expected.bytes === undefined ? "" : ` of ${bytesText(expected.bytes)}`;
  const rate = bytes / Math.max(seconds, 0.001);
  const { unit = "row", more } = expected;
  return [
    ...(rows === undefined ? [] : [`${rows.toLocaleString("en-US")} ${unit}${rows === 1 ? "" : "s"}`]),
    `${bytesText(bytes)}${total}${isOver ? ` in ${time(seconds)}` : ""}`,
    `${bytesText(rate)}/s`,
    ...(isOver ? [] : left({ rows, bytes, seconds, expected })),
    ...(isOver || !more ? [] : [more()]),
  ].join(", ");
}

/** The time left, if it can be known: for a file by its size, for a table approximately by the estimated rows. */
function left({ rows, bytes, seconds, expected }: Omit<State, "isOver">): string[] {
  const done = expected.bytes ? bytes / expected.bytes : (rows ?? 0) / (expected.aboutRows || Infinity);
  // An estimate from very little data would jump.
  if (seconds < 0.5 || done < 0.001 || done > 1) return [];
  const about = expected.bytes ? "" : "about ";
  return [`${about}${time((seconds / done) * (1 - done))} left`];
}

/** `4.1 MB` */
export function bytesText(bytes: number): string {
  const [value, unit] = bytes < 1e3 ? [bytes, "B"] : bytes < 1e6 ? [bytes / 1e3, "kB"] : [bytes / 1e6, "MB"];
  return unit === "B" ? `${Math.round(value)} B` : `${value.toFixed(value < 100 ? 1 : 0)} ${unit}`;
}

function time(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
