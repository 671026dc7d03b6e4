// Follows the example's feed of changes: server-sent events, one by one.
//
// Knows events. Must not know who asks, or what a change says.
export interface Change {
  readonly kind: string;
  readonly new?: { id: number; tenant: string; reference: string; status: string; total: string };
  readonly old?: { id: number; tenant: string };
}

export interface FeedEvent {
  readonly name: string;
  readonly id: number | undefined;
  readonly data: Change & { readonly from?: number };
}

export class Follower {
  readonly #leaving: AbortController;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";
  /** The number of the last line. */
  last: number | undefined;

  constructor(body: NonNullable<Response["body"]>, leaving: AbortController) {
    this.#reader = body.pipeThrough(new TextDecoderStream()).getReader();
    this.#leaving = leaving;
  }

  async next(): Promise<FeedEvent> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const event = this.#read(this.#text.slice(0, end));
        this.#text = this.#text.slice(end + 2);
        if (event) return event;
        continue;
      }
      const { done, value } = await this.#reader.read();
      if (done) throw new Error("the stream has ended");
      this.#text += value;
    }
  }

  async take(count: number): Promise<FeedEvent[]> {
    const events: FeedEvent[] = [];
    while (events.length < count) events.push(await this.next());
    return events;
  }

  leave(): void {
    this.#leaving.abort();
  }

  /** A comment has no event. */
  #read(text: string): FeedEvent | undefined {
    const [, id, name, data] = /^(?:id: (\d+)\n)?event: (.*)\ndata: (.*)$/.exec(text) ?? [];
    if (name === undefined) return undefined;
    const number = id === undefined ? undefined : Number(id);
    this.last = number ?? this.last;
    return { name, id: number, data: JSON.parse(data!) as FeedEvent["data"] };
  }
}

export const references = (events: readonly FeedEvent[]) => events.map(({ data }) => data.new?.reference);

/** Returns `prefix-3`, `prefix-4` … */
export const numbered = (prefix: string, from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, n) => `${prefix}-${from + n}`);
