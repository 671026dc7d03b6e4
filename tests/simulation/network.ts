// The network of a simulated session: on one side sockets by the driver's contract, on the other side connections of a
// host, and between them bytes that are split, merged, delayed and lost.
//
//   client   write(bytes) ──> pieces, each with a delay ──> Accepted.receive(piece)      up
//            read()       <── pieces, each with a delay <── Wire.send(bytes)             down
//
// It also checks the driver's side of the contract: one read at a time, no use of a read's bytes after the next read,
// no change to a write's bytes before the write resolves. Knows bytes, hosts and time. Must not know PostgreSQL.
import { connectFailed, connectionLost, type ConnectOptions, type Socket } from "../../js/runtime/contract.ts";
import { Boundaries } from "./boundaries.ts";
import type { Accepted, Clock, Dice, Host, Wire } from "./contract.ts";

/** The properties of a network for the whole of a session. */
export interface Weather {
  /** Minimum one-way delay of each piece, in milliseconds. */
  readonly latency: number;
  /** Maximum random delay added to each piece, in milliseconds. */
  readonly jitter: number;
  /** `whole`: as written. `pieces`: cut at random. `bytes`: a quarter of the short ones arrive byte by byte. */
  readonly split: "whole" | "pieces" | "bytes";
}

export const CALM: Weather = { latency: 1, jitter: 0, split: "whole" };

export const isCalm = ({ latency, jitter, split }: Weather): boolean =>
  latency === CALM.latency && jitter === CALM.jitter && split === CALM.split;

/** What goes wrong with one connection; `link` is its number, in the order of connects. */
export type Fault =
  | { readonly link: number; readonly kind: "refuse" | "unresolved" | "hang" }
  | ({
      readonly link: number;
      /**
       * `fin`, `rst`: both sides get it. `silence`: no byte arrives any more, and neither side is told. `deaf`, `mute`:
       * the same for only what the client (`deaf`) or the server (`mute`) sends.
       */
      readonly kind: "fin" | "rst" | "silence" | "deaf" | "mute";
    } & Moment);

/** When the fault happens. */
type Moment =
  /** After this many bytes have passed, both directions together. */
  | { readonly afterBytes: number }
  /** After the server's `nth` message with this letter. */
  | { readonly behind: string; readonly nth: number };

/** How a runtime's sockets describe themselves. */
export type Traits = Pick<Socket, "readsWhileIdle" | "address">;

/** A read that waits, by a promise; with `take`, as the contract of sockets has it, also by calls. */
interface Reader {
  readonly resolve: (chunk: Uint8Array | null) => void;
  readonly reject: (error: Error) => void;
  readonly take: ((bytes: Uint8Array) => boolean) | undefined;
}

/** Called with the bytes of a direction when they arrive. */
export type Tap = (link: number, direction: ">" | "<", bytes: Uint8Array) => void;

/** Bytes that may wait for the receiving side before the sending side must wait. */
const WINDOW = 128 << 10;
/** Milliseconds after which a kernel reports a peer that vanished silently. */
const KEEPALIVE = 120_000;

export class Network {
  /** The ways in which the driver broke the contract. */
  readonly violations: string[] = [];
  /** The number of connections that were requested. */
  connects = 0;
  /** The writes of all connections, and the bytes in them. */
  writes = 0;
  sent = 0;
  readonly #hosts = new Map<string, Host>();
  readonly #links = new Set<Link>();

  constructor(
    readonly clock: Clock,
    private readonly dice: (purpose: string) => Dice,
    readonly weather: Weather,
    private readonly faults: readonly Fault[],
    readonly tap: Tap,
    /** Called when a fault happens, so that the errors it may explain are known. */
    private readonly happened: (fault: Fault) => void,
  ) {}

  addHost(name: string, host: Host): void {
    this.#hosts.set(name, host);
  }

  /** Returns a connector with such sockets, for the option `connect`. */
  connector(traits: Traits) {
    return (options: ConnectOptions): Promise<Socket> => this.#connect(options, traits);
  }

  /** The number of sockets that the driver has not closed. */
  get open(): number {
    return this.openLinks.length;
  }

  get openLinks(): number[] {
    return [...this.#links].filter((link) => !link.isClosedByClient).map(({ number }) => number);
  }

  /**
   * Servers, or a device in between, have forgotten every connection: a client learns of it when it sends something.
   */
  forgetAll(): void {
    for (const link of this.#links) link.forget();
  }

  /** Resets every connection: both sides learn of it. */
  loseAll(): void {
    for (const link of this.#links) link.lose();
  }

  closed(link: Link): void {
    this.#links.delete(link);
  }

  #connect({ host, signal, readBuffer }: ConnectOptions, traits: Traits): Promise<Socket> {
    const { clock } = this;
    const number = this.connects++;
    const dice = this.dice(`link ${number}`);
    const planned = this.faults.filter((fault) => fault.link === number);
    const target = this.#hosts.get(host);
    clock.note(`link ${number}`, "connects");
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      const aborted = () => reject(signal.reason as Error);
      signal.addEventListener("abort", aborted);
      const bad = planned.find(({ kind }) => ["refuse", "unresolved", "hang"].includes(kind));
      if (bad) {
        this.happened(bad);
        clock.note(`link ${number}`, bad.kind);
        if (bad.kind === "hang") return;
      }
      const takes = this.weather.latency * 2 + dice.below(100) / 100;
      clock.after(takes, () => {
        if (signal.aborted) return;
        if (bad || !target)
          return reject(connectFailed(bad?.kind === "unresolved" ? "dns" : "tcp", bad?.kind ?? `no host ${host}`));
        const link = new Link(this, number, target, dice, planned, readBuffer, this.happened);
        this.#links.add(link);
        signal.removeEventListener("abort", aborted);
        resolve(link.socket(traits));
      });
    });
  }
}

/** One connection. */
class Link {
  readonly up: Direction;
  readonly down: Direction;
  isClosedByClient = false;
  readonly #faults: Fault[];
  readonly #network: Network;
  readonly #happened: (fault: Fault) => void;
  readonly #accepted: Accepted;
  #bytes = 0;
  readonly #messages = new Boundaries();
  #isForgotten = false;
  // The client's side.
  readonly #readBuffer: number;
  #arrived: Uint8Array[] = [];
  #waiting = 0;
  #end: Error | null | undefined;
  #reader: Reader | undefined;
  /** The buffer that the last read returned. The next read makes it unusable. */
  #lent: Uint8Array | undefined;

  constructor(
    network: Network,
    readonly number: number,
    host: Host,
    dice: Dice,
    faults: readonly Fault[],
    readBuffer: number,
    happened: (fault: Fault) => void,
  ) {
    this.#network = network;
    this.#faults = [...faults];
    this.#readBuffer = readBuffer || 65_536;
    this.#happened = happened;
    const { clock, weather } = network;
    this.up = new Direction(clock, dice, weather, {
      piece: (bytes: Uint8Array) => {
        if (this.#isForgotten) return void clock.after(weather.latency, () => this.#reset("reset by peer"));
        network.tap(number, ">", bytes);
        this.#accepted.receive(bytes);
        this.#count(bytes.length);
      },
      end: () => this.#accepted.ended(),
    });
    this.down = new Direction(clock, dice, weather, {
      piece: (bytes: Uint8Array) => {
        if (!this.#faults.some((fault) => "behind" in fault)) return this.#comeDown(bytes);
        for (const part of this.#messages.cut(bytes)) this.#comeDown(part);
      },
      end: () => this.#ended(null),
    });
    const wire: Wire = {
      send: (bytes) => this.down.send(bytes),
      end: () => this.down.finish(),
      reset: () => this.#reset("reset by peer"),
    };
    this.#accepted = host.accept(wire);
    this.#count(0);
  }

  #comeDown(bytes: Uint8Array): void {
    // A fault after the previous message has cut this one off.
    if (this.down.isLost) return;
    this.#network.tap(this.number, "<", bytes);
    this.#arrive(bytes);
    this.#count(bytes.length);
  }

  // -- faults ---------------------------------------------------------------------------------------------------------

  #count(bytes: number): void {
    this.#bytes += bytes;
    for (const fault of [...this.#faults])
      if (this.#isTime(fault)) {
        this.#faults.splice(this.#faults.indexOf(fault), 1);
        this.#meet(fault);
      }
  }

  #isTime(fault: Fault): boolean {
    if ("afterBytes" in fault) return this.#bytes >= fault.afterBytes;
    return "behind" in fault && this.#messages.count(fault.behind) >= fault.nth;
  }

  #meet(fault: Fault): void {
    const { clock } = this.#network;
    if (this.isClosedByClient) return;
    clock.note(`link ${this.number}`, fault.kind);
    this.#happened(fault);
    if (fault.kind === "rst") {
      this.#reset("reset by peer");
      this.#accepted.wasReset();
    }
    if (fault.kind === "fin") {
      this.down.finish();
      this.up.finish();
    }
    if (fault.kind === "silence" || fault.kind === "mute") this.down.lose();
    if (fault.kind === "silence" || fault.kind === "deaf") this.up.lose();
    if (["silence", "mute", "deaf"].includes(fault.kind)) clock.after(KEEPALIVE, () => this.#accepted.wasReset());
  }

  lose(): void {
    this.#reset("reset by peer");
    this.#accepted.wasReset();
  }

  forget(): void {
    this.#isForgotten = true;
    this.down.lose();
    this.#accepted.wasReset();
  }

  // -- the client's side ----------------------------------------------------------------------------------------------

  socket(traits: Traits): Socket {
    const socket: Socket = {
      ...traits,
      // As in Node, whose sockets call back; on Workers each chunk takes a promise.
      read: (take) => this.#read(traits.readsWhileIdle ? take : undefined),
      write: (bytes) => this.#write(bytes),
      startTls: () => Promise.resolve(socket),
      close: () => {
        this.#close();
        return Promise.resolve();
      },
    };
    return socket;
  }

  #read(take: Parameters<Socket["read"]>[0]): Promise<Uint8Array | null> {
    if (this.#reader) this.#violated("a read while another one is pending");
    this.#lent?.fill(0xdd);
    this.#lent = undefined;
    if (this.#waiting) return Promise.resolve(this.#take());
    if (this.#end === null) return Promise.resolve(null);
    if (this.#end) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => (this.#reader = { resolve, reject, take }));
  }

  /** Offers what has arrived to a reader that takes bytes by calls. */
  #offer(reader: Reader): void {
    while (this.#waiting && this.#reader === reader) {
      const goesOn = reader.take!(this.#take());
      this.#lent?.fill(0xdd);
      this.#lent = undefined;
      if (goesOn || this.#reader !== reader) continue;
      this.#reader = undefined;
      reader.resolve(new Uint8Array());
    }
  }

  /** Takes what has arrived, at most one read buffer. */
  #take(): Uint8Array {
    const chunk = new Uint8Array(Math.min(this.#waiting, this.#readBuffer));
    let filled = 0;
    while (filled < chunk.length) {
      const [first] = this.#arrived as [Uint8Array];
      const part = first.subarray(0, chunk.length - filled);
      chunk.set(part, filled);
      filled += part.length;
      if (part.length === first.length) this.#arrived.shift();
      else this.#arrived[0] = first.subarray(part.length);
    }
    this.#waiting -= filled;
    if (this.#waiting < WINDOW) this.down.goOn();
    this.#lent = chunk;
    return chunk;
  }

  #write(bytes: Uint8Array): Promise<void> {
    if (this.#end) return Promise.reject(this.#end);
    this.#network.writes++;
    this.#network.sent += bytes.length;
    const copy = bytes.slice();
    return this.up.send(copy).then(() => {
      if (!isEqual(copy, bytes)) this.#violated("the bytes of a write changed before it resolved");
      if (this.#end) throw this.#end;
    });
  }

  #close(): void {
    if (this.isClosedByClient) return;
    this.isClosedByClient = true;
    this.#network.clock.note(`link ${this.number}`, "is closed by the client");
    this.down.lose();
    this.up.finish();
    this.#ended(connectionLost("the socket was closed"));
    this.up.release();
    this.#network.closed(this);
  }

  #arrive(bytes: Uint8Array): void {
    if (this.#end !== undefined || this.isClosedByClient) return;
    this.#arrived.push(bytes);
    this.#waiting += bytes.length;
    if (this.#waiting >= WINDOW) this.down.hold();
    const reader = this.#reader;
    if (reader?.take) return this.#offer(reader);
    this.#reader = undefined;
    reader?.resolve(this.#take());
  }

  #ended(end: Error | null): void {
    if (this.#end !== undefined && !(this.#end === null && end)) return;
    this.#end = end;
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader && end === null) reader.resolve(null);
    else if (reader) reader.reject(end!);
  }

  #reset(reason: string): void {
    this.down.lose();
    this.up.lose();
    this.#arrived = [];
    this.#waiting = 0;
    this.#ended(connectionLost(reason));
    this.up.release();
  }

  #violated(text: string): void {
    this.#network.violations.push(`link ${this.number}: ${text}`);
  }
}

/** Where a direction delivers its bytes. */
interface Sink {
  piece(bytes: Uint8Array): void;
  end(): void;
}

/** Bytes on their way to one side. */
class Direction {
  readonly #clock: Clock;
  readonly #dice: Dice;
  readonly #weather: Weather;
  readonly #to: Sink;
  /** When the last piece arrives. No piece overtakes another. */
  #last = 0;
  #onTheWay = 0;
  #state: "open" | "finishing" | "lost" = "open";
  #isHeld = false;
  /** Scheduled arrivals, in the order in which they were sent. */
  readonly #coming: (() => void)[] = [];
  /** Pieces that arrived while the reader already had too much. */
  #kept: (() => void)[] = [];
  #writers: (() => void)[] = [];

  constructor(clock: Clock, dice: Dice, weather: Weather, to: Sink) {
    this.#clock = clock;
    this.#dice = dice;
    this.#weather = weather;
    this.#to = to;
  }

  /** Resolves when more may be sent. On a link that loses bytes, this resolves only while its window has room. */
  send(bytes: Uint8Array): Promise<void> {
    if (this.#state !== "finishing")
      for (const piece of this.#pieces(bytes)) {
        this.#onTheWay += piece.length;
        if (this.#state === "open") this.#schedule(() => this.#deliver(piece));
      }
    if (this.#onTheWay < WINDOW) return Promise.resolve();
    return new Promise((resolve) => this.#writers.push(resolve));
  }

  /** Releases waiting senders: their side has ended. */
  release(): void {
    for (const resolve of this.#writers.splice(0)) resolve();
  }

  /** Sends FIN after everything that was sent. */
  finish(): void {
    if (this.#state !== "open") return;
    this.#schedule(() => {
      if (this.#state !== "lost") this.#to.end();
    });
    this.#state = "finishing";
  }

  get isLost(): boolean {
    return this.#state === "lost";
  }

  /** From now on nothing arrives. */
  lose(): void {
    this.#state = "lost";
    this.#kept = [];
  }

  hold(): void {
    this.#isHeld = true;
  }

  goOn(): void {
    this.#isHeld = false;
    while (!this.#isHeld && this.#kept.length) this.#kept.shift()!();
  }

  #deliver(piece: Uint8Array): void {
    if (this.#state === "lost") return;
    this.#onTheWay -= piece.length;
    this.#to.piece(piece);
    if (this.#onTheWay < WINDOW) for (const resolve of this.#writers.splice(0)) resolve();
  }

  #schedule(arrive: () => void): void {
    const { latency, jitter } = this.#weather;
    const extra = jitter ? this.#dice.below(jitter * 100) / 100 : 0;
    this.#last = Math.max(this.#last, this.#clock.now + latency + extra);
    // When two pieces arrive at the same time, rounding may put the later one first, so each event takes the next piece
    // in order.
    this.#coming.push(arrive);
    this.#clock.after(this.#last - this.#clock.now, () => {
      const next = this.#coming.shift()!;
      if (this.#isHeld || this.#kept.length) this.#kept.push(next);
      else next();
    });
  }

  #pieces(bytes: Uint8Array): Uint8Array[] {
    const { split } = this.#weather;
    if (split === "whole" || bytes.length < 2) return bytes.length ? [bytes] : [];
    const pieces = [];
    const isBytewise = split === "bytes" && bytes.length < 100 && this.#dice.oneIn(4);
    const most = isBytewise ? 1 : Math.max(8, bytes.length >> 1);
    for (let from = 0; from < bytes.length;) {
      const to = Math.min(bytes.length, from + 1 + this.#dice.below(most));
      pieces.push(bytes.subarray(from, to));
      from = to;
    }
    return pieces;
  }
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}
