// One socket of the pooler: it receives bytes, handles the packets in them one after the other, and sends what it
// forwards in one piece.
//
// This follows PgBouncer's sbuf.c. A packet is handled as soon as its header has arrived, and the rest of it is
// forwarded as it arrives. Packets tagged for forwarding are sent after all packets in the buffer have been handled, so
// a packet is lost when the next one closes the socket. A paused socket notices nothing, not even the loss of its
// remote end.
//
// Knows buffers and the boundaries of packets. Must not know what a packet means.
import type { Accepted } from "../contract.ts";
import { joined } from "./messages.ts";

/** PgBouncer's `pkt_buf`: the number of bytes that it reads at once. */
const BUFFER = 4_096;
/** A full buffer with at most this many bytes left is refilled before the next packet is examined. */
const SMALL = 64;
/** PgBouncer's `max_packet_size`. */
const LONGEST = 0x7fffffff;

/** A packet, whose end may not have arrived yet. */
export interface Packet {
  /** `startup` for a packet without a letter. */
  readonly letter: string;
  /** Includes the header. */
  readonly length: number;
  /** The bytes that have arrived, with the header. */
  readonly bytes: Uint8Array;
  readonly isWhole: boolean;
  /** More bytes have arrived after this packet. */
  readonly hasMore: boolean;
}

/**
 * What is done with a packet: `send` it to the other side, `skip` it, skip some bytes and send the rest, or `wait`.
 * `wait` means that the packet was not handled, because it is not whole, or because the socket is now paused or closed.
 */
export type Verdict = "send" | "skip" | "wait" | { readonly skips: number };

export abstract class PoolerSocket implements Accepted {
  isClosed = false;
  isPaused = false;
  #arrived: Uint8Array[] = [];
  #buffer: Uint8Array = new Uint8Array();
  #hasEnded = false;
  /** Bytes left of the last packet that was handled, and how many of them are skipped. */
  #remain = 0;
  #skips = 0;
  /** Bytes tagged for forwarding, and their target. */
  #pending: Uint8Array[] = [];
  #to: PoolerSocket | undefined;
  /** Packets of the pooler itself, which follow the packet that is being forwarded. */
  #extra: Uint8Array[] = [];
  /** The length of the packet that is awaited. */
  #wants = 0;

  /** Sends bytes to the remote end of this socket. */
  abstract send(bytes: Uint8Array): void;
  /** The socket on the other side of the pooler. */
  protected abstract get other(): PoolerSocket | undefined;
  protected abstract handle(packet: Packet): Verdict;
  /** Called with bytes that cannot begin a packet. */
  protected abstract badHeader(bytes: Uint8Array): void;
  /** Called after everything that has arrived was handled and forwarded. */
  protected abstract drained(): void;
  /** The remote end has gone. */
  protected abstract lost(): void;
  /** Closes the socket. `isClean`: everything that arrived was read, so the close is a FIN. */
  protected abstract hangUp(isClean: boolean): void;
  /** Called at the end of each event. */
  protected abstract eventIsOver(): void;

  // -- from the remote end --------------------------------------------------------------------------------------------

  receive(bytes: Uint8Array): void {
    if (this.isClosed) return this.hangUp(false);
    if (bytes.length) this.#arrived.push(bytes);
    this.#run(false);
    this.eventIsOver();
  }

  ended(): void {
    if (this.isClosed) return;
    this.#hasEnded = true;
    this.#run(false);
    this.eventIsOver();
  }

  wasReset(): void {
    this.#arrived = [];
    this.ended();
  }

  /** Whether part of a packet was forwarded and the rest has not arrived yet. */
  get isWithinPacket(): boolean {
    return this.#remain > this.#skips;
  }

  // -- from the pooler ------------------------------------------------------------------------------------------------

  pause(): void {
    this.isPaused = true;
  }

  /** Continues to read, from the packet that was not handled. */
  resume(): void {
    this.isPaused = false;
    this.#run(true);
  }

  /** Stops reading and forwarding. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    const isClean = !this.#arrived.length;
    this.#arrived = [];
    this.#pending = [];
    this.#extra = [];
    this.#buffer = new Uint8Array();
    this.hangUp(isClean);
  }

  /** Sends what is tagged, so that the pooler's own packets can follow. */
  flush(): void {
    const pending = this.#pending.splice(0);
    const to = this.#to;
    if (pending.length && to && !to.isClosed) to.send(joined(pending));
  }

  /** Queues a packet of the pooler itself for `to`. It leaves before the next packet is handled. */
  inject(packet: Uint8Array, to: PoolerSocket): void {
    this.#extra.push(packet);
    this.#to = to;
  }

  // -- packets --------------------------------------------------------------------------------------------------------

  #run(isForced: boolean): void {
    for (let again = isForced; ;) {
      if (this.isClosed || this.isPaused) return;
      const room = Math.max(BUFFER, this.#wants) - this.#buffer.length;
      if (!this.#fill(room)) {
        if (this.#hasEnded) return this.lost();
        if (!again) return;
      }
      const isFull = this.#buffer.length >= Math.max(BUFFER, this.#wants);
      const isDone = this.#process(isFull);
      if (this.isClosed) return;
      this.flush();
      again = isDone && isFull;
      if (isDone && !isFull) this.drained();
    }
  }

  #fill(room: number): boolean {
    if (!this.#arrived.length || room <= 0) return false;
    let all = joined(this.#arrived);
    this.#arrived = all.length > room ? [all.subarray(room)] : [];
    all = all.subarray(0, room);
    this.#buffer = this.#buffer.length ? joined([this.#buffer, all]) : all;
    return true;
  }

  /** Returns whether everything in the buffer could be handled. */
  #process(isFull: boolean): boolean {
    for (;;) {
      if (!this.#remain && this.#extra.length) this.#sendExtra();
      const available = this.#buffer.length;
      if (!available || (isFull && available <= SMALL)) return true;
      if (!this.#remain && !this.#begin()) return false;
      this.#forward();
    }
  }

  #sendExtra(): void {
    this.flush();
    const to = this.#to;
    const extra = joined(this.#extra.splice(0));
    if (to && !to.isClosed) to.send(extra);
  }

  /** Handles the next packet. */
  #begin(): boolean {
    const packet = this.#header();
    if (!packet) return false;
    this.#wants = 0;
    const verdict = this.handle(packet);
    if (this.isClosed) return false;
    if (verdict === "wait") {
      if (!packet.isWhole) this.#wants = packet.length;
      return false;
    }
    this.#remain = packet.length;
    this.#skips = verdict === "send" ? 0 : verdict === "skip" ? packet.length : verdict.skips;
    if (verdict !== "send") this.flush();
    if (verdict !== "skip") this.#to = this.other;
    return true;
  }

  #header(): Packet | undefined {
    const bytes = this.#buffer;
    const isTyped = bytes[0] !== 0;
    if (bytes.length < (isTyped ? 5 : 8)) return undefined;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const length = isTyped ? 1 + view.getUint32(1) : view.getUint32(0);
    if (length < (isTyped ? 5 : 8) || length > (isTyped ? LONGEST : 0xffff)) return void this.badHeader(bytes);
    return {
      letter: isTyped ? String.fromCharCode(bytes[0]!) : "startup",
      length,
      bytes: bytes.subarray(0, length),
      isWhole: bytes.length >= length,
      hasMore: bytes.length > length,
    };
  }

  #forward(): void {
    const count = Math.min(this.#buffer.length, this.#remain);
    const skips = Math.min(count, this.#skips);
    if (count > skips) this.#pending.push(this.#buffer.subarray(skips, count));
    this.#buffer = this.#buffer.subarray(count);
    this.#remain -= count;
    this.#skips -= skips;
  }
}
