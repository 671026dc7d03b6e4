/**
 * One client of the feed. It gets lines as server-sent events, each with its number as `id`.
 *
 * Knows how far its client has read. Must not know where lines come from. A client asks for the next lines when it has
 * room, so a slow client costs no memory: its lines wait in the log. There are three kinds of events:
 *
 *   ready    { from }        later commits arrive; stored lines after `from` arrive first
 *   change   the line        as docs/changes.md of the driver has it
 *   missed   { from }        lines are not kept any more: read the table again; those after `from` arrive
 */
import type { FeedLog } from "./feed-log.ts";

/** Maximum number of lines per read of the log. */
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

  /** `from` is the number of the last line that the client has. Without it the client gets no earlier lines. */
  constructor(log: FeedLog, tenant: string, from: number | undefined, keepAlive: number, left: () => void) {
    this.#log = log;
    this.#tenant = tenant;
    this.#keepAlive = keepAlive;
    const { end, oldest } = log;
    // A number after the end belongs to another log, for example one that was deleted.
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

  /** Tells the client that there may be new lines. */
  wake(): void {
    this.#waiting?.();
  }

  /** Whether the client reads what it is sent, or has nothing to read. */
  isAlive(now: number): boolean {
    return this.#waiting !== undefined || now - this.#lastAsked < 2 * this.#keepAlive;
  }

  /** Breaks the client's stream off. The client reconnects with the number of its last line. */
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
    return this.#lines() || ":\n\n"; // a comment, because proxies end a silent stream
  }

  /** The event for a client that was so slow that its next lines are not kept any more. */
  #missed(): string {
    this.#at = this.#log.end;
    return event("missed", { from: this.#at });
  }

  #lines(): string {
    const lines = this.#log.after(this.#tenant, this.#at, LINES);
    // When there are fewer than LINES, the remaining lines up to the end belong to other tenants.
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
