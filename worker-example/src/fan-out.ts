/**
 * Notifications of PostgreSQL for many clients: one LISTEN for each channel, however many clients hear it, each by
 * server-sent events (the page's `new EventSource(url)`).
 *
 * Knows channels, clients and how far behind a client may be. Must not know requests, routes or SQL.
 *
 *   pool.listen("orders") ──> Channel ──> Client (its own queue) ──> body of a response
 *                                    └──> Client …
 *
 * A client is sent three kinds of events:
 *
 *   listening      the LISTEN is in force: what is notified from now on comes
 *   notification   { channel, payload }
 *   missed         notifications may be missing here, because the connection was lost for a while, or because the
 *                  client was too slow: read the tables again
 */
import type { Listener, Pool } from "pgz-edge";

export interface Caps {
  /** Clients, of all channels. */
  readonly clients: number;
  /** Characters that wait for one client. Beyond that they are dropped, and it is told `missed`. */
  readonly behind: number;
  /** Milliseconds between two comments that keep the stream alive. A client that takes none in between is ended. */
  readonly keepAlive: number;
}

export class FanOut {
  readonly #pool: Pick<Pool, "listen">;
  readonly #caps: Caps;
  readonly #channels = new Map<string, Channel>();

  constructor(pool: Pick<Pool, "listen">, caps: Caps) {
    this.#pool = pool;
    this.#caps = caps;
  }

  get clients(): number {
    let count = 0;
    for (const { size } of this.#channels.values()) count += size;
    return count;
  }

  /**
   * The body of a response with a channel's notifications, when the LISTEN is in force. `undefined`: there are too many
   * clients. Rejects with why LISTEN failed.
   */
  async subscribe(name: string): Promise<ReadableStream<Uint8Array> | undefined> {
    if (this.clients >= this.#caps.clients) return undefined;
    let channel = this.#channels.get(name);
    if (!channel) {
      const made = new Channel(name, this.#caps, () => {
        if (this.#channels.get(name) === made) this.#channels.delete(name);
      });
      this.#channels.set(name, (channel = made));
      made.start(this.#pool);
    }
    return channel.add();
  }
}

/** One LISTEN and who hears it. It ends with its last client. */
class Channel {
  readonly #name: string;
  readonly #caps: Caps;
  readonly #ended: () => void;
  readonly #clients = new Set<Client>();
  readonly #stop = new AbortController();
  #listener: Promise<Listener> | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(name: string, caps: Caps, ended: () => void) {
    this.#name = name;
    this.#caps = caps;
    this.#ended = ended;
  }

  get size(): number {
    return this.#clients.size;
  }

  start(pool: Pick<Pool, "listen">): void {
    // A listener connects again by itself. What was notified meanwhile is lost, as PostgreSQL has it.
    const onReconnect = () => this.#tell(event("missed", { reason: "connection lost" }));
    this.#listener = pool.listen(this.#name, { signal: this.#stop.signal, onReconnect });
    this.#listener.then((listener) => this.#read(listener)).catch(() => this.#end());
    this.#timer = setInterval(() => this.#keepAlive(), this.#caps.keepAlive);
  }

  async add(): Promise<ReadableStream<Uint8Array>> {
    const client = new Client(this.#caps.behind, () => this.#remove(client));
    this.#clients.add(client); // at once, so that the last one of the others does not end the channel meanwhile
    try {
      await this.#listener;
    } catch (error) {
      this.#remove(client);
      throw error;
    }
    client.send(event("listening", { channel: this.#name }));
    return client.body;
  }

  async #read(listener: Listener): Promise<void> {
    let told = 0;
    for await (const { channel, payload } of listener) {
      const text = event("notification", { channel, payload });
      this.#tell(text);
      // Many may come at once. Who reads as they come gets the time to.
      if ((told += text.length) < this.#caps.behind / 4) continue;
      told = 0;
      await new Promise((resolve) => setTimeout(resolve));
    }
  }

  #tell(text: string): void {
    for (const client of this.#clients) client.send(text);
  }

  #keepAlive(): void {
    for (const client of this.#clients) if (!client.keepAlive()) client.end();
  }

  #remove(client: Client): void {
    this.#clients.delete(client);
    if (!this.#clients.size) this.#end();
  }

  /** The last client has left, or the listener is over for good. */
  #end(): void {
    if (this.#stop.signal.aborted) return;
    if (this.#timer !== undefined) clearInterval(this.#timer);
    this.#ended();
    this.#stop.abort();
    for (const client of this.#clients) client.end();
  }
}

/**
 * One client's queue. It is taken from only when the client reads: where the client is slow, the queue is what grows,
 * and it is bounded.
 */
class Client {
  readonly body: ReadableStream<Uint8Array>;
  readonly #most: number;
  readonly #left: () => void;
  #queue: string[] = [];
  #length = 0;
  /** Since the last keep-alive. */
  #hasTaken = true;
  #wake: (() => void) | undefined;
  #fail: (() => void) | undefined;

  constructor(most: number, left: () => void) {
    this.#most = most;
    this.#left = left;
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          // A browser's EventSource then connects again.
          this.#fail = () => controller.error(new Error("The client was left."));
        },
        pull: (controller) => this.#pull(controller),
        cancel: () => this.#left(),
      },
      { highWaterMark: 0 },
    );
  }

  send(text: string): void {
    if (this.#length + text.length > this.#most) {
      this.#queue = [];
      this.#length = 0;
      text = event("missed", { reason: "too slow" });
    }
    this.#queue.push(text);
    this.#length += text.length;
    this.#wake?.();
  }

  /** False: it has taken nothing since the last time, though there was something. */
  keepAlive(): boolean {
    if (this.#queue.length && !this.#hasTaken) return false;
    this.#hasTaken = false;
    if (!this.#queue.length) this.send(":\n\n");
    return true;
  }

  end(): void {
    this.#left();
    this.#queue = [];
    this.#fail?.();
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    if (!this.#queue.length) await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#hasTaken = true;
    const text = this.#queue.join("");
    this.#queue = [];
    this.#length = 0;
    controller.enqueue(encoder.encode(text));
  }
}

const encoder = new TextEncoder();

function event(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
