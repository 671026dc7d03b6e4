/**
 * One client of the feed: its lines as server-sent events, each with its number as `id`.
 *
 * Knows how far its client is. Must not know where lines come from. A client asks for the next lines when it has room,
 * so one that is slow costs no memory: its lines wait in the log. Three kinds of events:
 *
 *   ready    { from }        what commits from now on comes; lines behind `from` come first
 *   change   the line        as docs/changes.md of the driver has it
 *   missed   { from }        lines are not kept any more: read the table again; those behind `from` come
 */
import type { FeedLog } from "./feed-log.ts";

/** Lines that one reading of the log takes. */
const LINES = 100;

const encoder = new TextEncoder();

export class FeedClient {
  readonly body: ReadableStream<Uint8Array>;
  readonly #log: FeedLog;
  readonly #tenant: string;
  readonly #keepAlive: number;
  #at: number;
  #head = "";
  #waiting: (() => void) | undefined;
  #lastAsked = Date.now();
  #fail: (() => void) | undefined;

  /** `from`: the last line that it has; without, lines of the past are not for it. */
  constructor(log: FeedLog, tenant: string, from: number | undefined, keepAlive: number, left: () => void) {
    this.#log = log;
    this.#tenant = tenant;
    this.#keepAlive = keepAlive;
    const { end, oldest } = log;
    // Behind the end: its number is of another log, such as one that was deleted.
    const isGone = from !== undefined && (from < oldest - 1 || from > end);
    this.#at = from === undefined || isGone ? end : from;
    this.#head = (isGone ? event("missed", { from: end }) : "") + event("ready", { from: this.#at });
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#fail = () => controller.error(new Error("The client was left."));
        },
        pull: async (controller) => controller.enqueue(encoder.encode(await this.#next())),
        cancel: left,
      },
      { highWaterMark: 0 },
    );
  }

  /** There may be new lines. */
  wake(): void {
    this.#waiting?.();
  }

  /** It takes what it is sent, or there is nothing for it. */
  isAlive(now: number): boolean {
    return this.#waiting !== undefined || now - this.#lastAsked < 2 * this.#keepAlive;
  }

  /** Breaks its stream off: it comes back with the number of its last line. */
  end(): void {
    this.#fail?.();
    this.wake();
  }

  async #next(): Promise<string> {
    this.#lastAsked = Date.now();
    const head = this.#head;
    this.#head = "";
    if (head) return head;
    if (this.#at < this.#log.oldest - 1) return this.#missed();
    const text = this.#lines();
    if (text) return text;
    await this.#wait();
    return this.#lines() || ":\n\n"; // a comment: proxies end a stream that is silent
  }

  /** It was slower than lines are kept. */
  #missed(): string {
    this.#at = this.#log.end;
    return event("missed", { from: this.#at });
  }

  #lines(): string {
    const lines = this.#log.after(this.#tenant, this.#at, LINES);
    // Where there are fewer, the lines up to the end are other tenants'.
    this.#at = lines.length < LINES ? this.#log.end : lines.at(-1)!.number;
    return lines.map(({ number, line }) => `id: ${number}\nevent: change\ndata: ${line}\n\n`).join("");
  }

  async #wait(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#keepAlive);
      this.#waiting = () => (clearTimeout(timer), resolve());
    });
    this.#waiting = undefined;
  }
}

function event(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
