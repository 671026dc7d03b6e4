/**
 * Delivers PostgreSQL's notifications to many clients. Each channel has one LISTEN, however many clients listen to it;
 * each client gets server-sent events (the page's `new EventSource(url)`).
 *
 * Knows channels, clients and how far a client may lag. Must not know requests, routes or SQL.
 *
 *   pool.listen("orders") ──> Channel ──> Client (its own queue) ──> body of a response
 *                                    └──> Client …
 *
 * A client is sent three kinds of events:
 *
 *   listening      the LISTEN is in force: later notifications arrive
 *   notification   { channel, payload }
 *   missed         notifications may be missing here, because the connection was lost for a while, or because the
 *                  client was too slow: read the tables again
 */
import type { Listener, Pool } from "pgz-edge";

export interface Caps {
  /** Maximum number of clients, over all channels. */
  readonly clients: number;
  /** Maximum characters queued for one client. Beyond that the queue is dropped, and the client gets `missed`. */
  readonly behind: number;
  /**
   * Milliseconds between two comments that keep the stream alive. A client that has read nothing between two comments
   * is disconnected.
   */
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
   * Returns the body of a response with a channel's notifications, once the LISTEN is in force, or `undefined` when
   * there are too many clients. Rejects with the reason when LISTEN fails.
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

/** One LISTEN and its clients. It ends with its last client. */
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
    // A listener reconnects by itself. PostgreSQL does not keep what was notified meanwhile.
    const onReconnect = () => this.#tell(event("missed", { reason: "connection lost" }));
    this.#listener = pool.listen(this.#name, { signal: this.#stop.signal, onReconnect });
    this.#listener.then((listener) => this.#read(listener)).catch(() => this.#end());
    this.#timer = setInterval(() => this.#keepAlive(), this.#caps.keepAlive);
  }

  async add(): Promise<ReadableStream<Uint8Array>> {
    const client = new Client(this.#caps.behind, () => this.#remove(client));
    this.#clients.add(client); // first: other clients may leave during the await
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
      // Many notifications may arrive at once. The pause lets clients that keep up read theirs.
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

  /** Ends the channel, because the last client has left or the listener has ended for good. */
  #end(): void {
    if (this.#stop.signal.aborted) return;
    if (this.#timer !== undefined) clearInterval(this.#timer);
    this.#ended();
    this.#stop.abort();
    for (const client of this.#clients) client.end();
  }
}

/**
 * One client's queue. It is emptied only when the client reads, so a slow client makes the queue grow, up to its limit.
 */
class Client {
  readonly body: ReadableStream<Uint8Array>;
  readonly #most: number;
  readonly #left: () => void;
  #queue: string[] = [];
  #length = 0;
  /** Whether the client has read since the last keep-alive. */
  #hasTaken = true;
  #wake: (() => void) | undefined;
  #fail: (() => void) | undefined;

  constructor(most: number, left: () => void) {
    this.#most = most;
    this.#left = left;
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          // After this error a browser's EventSource reconnects.
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

  /** Returns false if the client has read nothing since the last call although something was queued. */
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
