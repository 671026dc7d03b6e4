// One socket of the pooler: bytes come in, the packets in them are handled one after the other, and what is forwarded
// leaves as one piece.
//
// This is PgBouncer's sbuf.c. A packet is handled as soon as its header is there, and the rest of it is forwarded as it
// comes. What is tagged to be forwarded is sent when all packets in the buffer have been handled, so a packet is lost
// when the one after it closes the socket. A paused socket notices nothing, not even that its other end has gone.
//
// Knows buffers and the borders of packets. Must not know what a packet means.
import type { Accepted } from "../contract.ts";
import { joined } from "./messages.ts";

/** PgBouncer's `pkt_buf`: so much it reads at once. */
const BUFFER = 4_096;
/** A full buffer with so little left is read again before the next packet is looked at. */
const SMALL = 64;
/** PgBouncer's `max_packet_size`. */
const LONGEST = 0x7fffffff;

/** A packet, of which the end may not have come yet. */
export interface Packet {
  /** Of a packet without one: `startup`. */
  readonly letter: string;
  /** With its header. */
  readonly length: number;
  /** What has come of it, its header included. */
  readonly bytes: Uint8Array;
  readonly isWhole: boolean;
  /** More bytes have come behind it. */
  readonly hasMore: boolean;
}

/**
 * What is done with a packet: `send` it to the other side, `skip` it, skip so many bytes and send the rest, or `wait`:
 * it was not handled, because it is not whole, or because the socket is paused or closed now.
 */
export type Verdict = "send" | "skip" | "wait" | { readonly skips: number };

export abstract class PoolerSocket implements Accepted {
  isClosed = false;
  isPaused = false;
  #arrived: Uint8Array[] = [];
  #buffer: Uint8Array = new Uint8Array();
  #hasEnded = false;
  /** Bytes that are left of the packet that was handled last, and how many of these are skipped. */
  #remain = 0;
  #skips = 0;
  /** Tagged to be forwarded, and to whom. */
  #pending: Uint8Array[] = [];
  #to: PoolerSocket | undefined;
  /** Packets of the pooler's own, which follow the packet that is being forwarded. */
  #extra: Uint8Array[] = [];
  /** The packet that is waited for is so long. */
  #wants = 0;

  /** Sends bytes to the remote end of this socket. */
  abstract send(bytes: Uint8Array): void;
  /** The socket at the other side of the pooler. */
  protected abstract get other(): PoolerSocket | undefined;
  protected abstract handle(packet: Packet): Verdict;
  /** No packet begins like this. */
  protected abstract badHeader(bytes: Uint8Array): void;
  /** Everything that has come was handled and forwarded. */
  protected abstract drained(): void;
  /** The remote end has gone. */
  protected abstract lost(): void;
  /** `isClean`: all that has arrived was read, so the close is a FIN. */
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

  /** Part of a packet was forwarded, and part of it has not come yet. */
  get isWithinPacket(): boolean {
    return this.#remain > this.#skips;
  }

  // -- from the pooler ------------------------------------------------------------------------------------------------

  pause(): void {
    this.isPaused = true;
  }

  /** Reads on, with the packet that was not handled. */
  resume(): void {
    this.isPaused = false;
    this.#run(true);
  }

  /** Nothing more is read or forwarded. */
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

  /** A packet of the pooler's own for `to`. It leaves before the next packet is handled. */
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

  /** Whether all that is in the buffer could be handled. */
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
