// A batch of changes as the core makes it (src/replication/batch.rs): heads, and where their texts and rows are.
//
// Knows the layout. Must not know what a change is.
import { openBatch, rowsOf, type Batch, type BatchOffsets, type RowPlan } from "../values/objects.ts";

/** Sizes in numbers of four bytes: of the part before the heads, and of a head. */
const BEFORE = 2;
const HEAD = 8;
/** Indexes of the fields of a head. */
const OF = 1;
const XID = 2;
const SUBXID = 3;
const POSITION_LENGTH = 4;
const BYTES = 5;

/** Reads one head after another. The getters return the fields of the current head. */
export class BatchReader {
  readonly #batch: Batch;
  readonly #ints: Int32Array;
  readonly #end: number;
  /** The offsets of the next row. */
  readonly #offsets: BatchOffsets;
  #head = BEFORE;
  /** Where the next text of a head begins. */
  #text = 0;

  constructor(view: Uint8Array) {
    this.#batch = openBatch(view, false);
    this.#ints = this.#batch.slots.ints;
    this.#end = BEFORE + HEAD * this.#batch.count;
    this.#offsets = { slot: this.#end, text: this.#ints[0]!, json: 0 };
  }

  get isOver(): boolean {
    return this.#head === this.#end;
  }

  next(): void {
    this.#head += HEAD;
  }

  get kind(): number {
    return this.#ints[this.#head]!;
  }

  /** The OID of a table. */
  get of(): number {
    return this.#ints[this.#head + OF]! >>> 0;
  }

  get xid(): number {
    return this.#ints[this.#head + XID]! >>> 0;
  }

  /** The subtransaction's id; 0 means none. */
  get subxid(): number {
    return this.#ints[this.#head + SUBXID]! >>> 0;
  }

  /** The size of the change as the server sent it. */
  get bytes(): number {
    return this.#ints[this.#head + BYTES]!;
  }

  /** Must be read once, and before `time`. */
  position(): string {
    return this.#textOf(this.#ints[this.#head + POSITION_LENGTH]!);
  }

  time(): string {
    return this.#textOf(this.of);
  }

  json(): unknown {
    return this.#batch.json[this.#offsets.json++];
  }

  /** Number of consecutive heads, from this one on, of its kind and table. */
  get run(): number {
    const ints = this.#ints;
    const head = this.#head;
    let next = head + HEAD;
    while (next < this.#end && ints[next] === ints[head] && ints[next + OF] === ints[head + OF]) next += HEAD;
    return (next - head) / HEAD;
  }

  /** Returns the rows of `count` heads, from this one on. */
  rows(plan: RowPlan, count: number): unknown[] {
    return rowsOf(plan, this.#batch, count, this.#offsets);
  }

  #textOf(length: number): string {
    const from = this.#text;
    const to = (this.#text += length);
    const { text, textOf } = this.#batch;
    return textOf ? textOf(from, to) : text.substring(from, to);
  }
}
