/**
 * The stored part of the feed: lines of changes by number, in the SQLite of a Durable Object.
 *
 * Knows lines, whose they are, and up to where they count. Must not know PostgreSQL or clients.
 *
 *   number   1 … 7      8 … 9                 10 11
 *            ├─ kept ───┼─ kept ──────────────┤├─ not committed ┤
 *            oldest                        end ↑
 *
 * Lines are stored as they come, also those of a transaction whose commit is still on its way: they count from their
 * commit on, which moves `end` and `position` in one write. So a transaction of any length needs no memory, and after a
 * break, wherever it happened, the feed goes on at `position`: no line is missing and none comes twice.
 */

/** Whose line: a tenant's, or everybody's. */
export const EVERYBODY = "";

export interface Line {
  readonly number: number;
  readonly line: string;
}

export class FeedLog {
  readonly #storage: DurableObjectStorage;
  readonly #keep: number;
  #next: number;
  #end: number;
  /** Behind the last gap. */
  #first: number;
  #position: string | undefined;

  /** `keep`: how many lines, so that storage has a bound. */
  constructor(storage: DurableObjectStorage, keep: number) {
    this.#storage = storage;
    this.#keep = keep;
    storage.sql.exec(`
      create table if not exists lines (number integer primary key, tenant text not null, line text not null);
      create index if not exists lines_of_tenant on lines (tenant, number);
      create table if not exists place (number integer not null, first integer not null, position text);`);
    const [place] = storage.sql.exec<{ number: number; first: number; position: string | null }>("select * from place");
    this.#end = place?.number ?? 0;
    this.#first = place?.first ?? 1;
    this.#position = place?.position ?? undefined;
    this.#next = this.#end + 1;
    this.discard();
  }

  /** Behind the last commit that is stored: where PostgreSQL is asked to go on. */
  get position(): string | undefined {
    return this.#position;
  }

  /** The last line that counts. */
  get end(): number {
    return this.#end;
  }

  /** The first line that is kept. */
  get oldest(): number {
    return Math.max(this.#first, this.#end - this.#keep + 1);
  }

  add(tenant: string, line: string): void {
    this.#storage.sql.exec("insert into lines values (?, ?, ?)", this.#next++, tenant, line);
  }

  /** Drops what has not committed: it begins again. */
  discard(): void {
    this.#storage.sql.exec("delete from lines where number > ?", this.#end);
    this.#next = this.#end + 1;
  }

  /** What was added counts from now on. When this promise resolves, a crash cannot undo it. */
  commit(position: string): Promise<void> {
    return this.#go(this.#next - 1, this.#first, position);
  }

  /** Changes are missing here: what was before counts no more. */
  gap(): Promise<void> {
    return this.#go(this.#end + 1, this.#end + 2, undefined);
  }

  async #go(end: number, first: number, position: string | undefined): Promise<void> {
    this.#storage.transactionSync(() => {
      this.#storage.sql.exec("delete from place");
      this.#storage.sql.exec("insert into place values (?, ?, ?)", end, first, position ?? null);
      this.#storage.sql.exec("delete from lines where number < ?", Math.max(first, end - this.#keep + 1));
    });
    this.#end = end;
    this.#first = first;
    this.#position = position;
    this.#next = end + 1;
    await this.#storage.sync();
  }

  /** A tenant's lines behind `number`, at most so many. */
  after(tenant: string, number: number, most: number): Line[] {
    const text =
      "select number, line from lines where tenant in (?, ?) and number > ? and number <= ? order by number limit ?";
    return [
      ...this.#storage.sql.exec<{ number: number; line: string }>(text, tenant, EVERYBODY, number, this.#end, most),
    ];
  }
}
