/**
 * The stored part of the feed: numbered lines of changes in the SQLite of a Durable Object.
 *
 * Knows lines, their tenants, and which lines are committed. Must not know PostgreSQL or clients.
 *
 *   number   1 … 7      8 … 9                 10 11
 *            ├─ kept ───┼─ kept ──────────────┤├─ not committed ┤
 *            oldest                        end ↑
 *
 * Lines are stored as they arrive, also while their transaction has not committed yet. They count from their commit on,
 * which moves `end` and `position` in one write. So a transaction of any length needs no memory. After an interruption
 * at any point the feed continues at `position`: no line is missing and none comes twice.
 */

/** The tenant of a line that goes to all tenants. */
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
  /** The first line after the last gap. */
  #first: number;
  #position: string | undefined;

  /** `keep` is the maximum number of lines kept, so that storage has a bound. */
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

  /** The position after the last stored commit, with its log. PostgreSQL is asked to continue from it. */
  get position(): string | undefined {
    return this.#position;
  }

  /** The number of the last committed line. */
  get end(): number {
    return this.#end;
  }

  /** The number of the first line that is kept. */
  get oldest(): number {
    return Math.max(this.#first, this.#end - this.#keep + 1);
  }

  add(tenant: string, line: string): void {
    this.#storage.sql.exec("insert into lines values (?, ?, ?)", this.#next++, tenant, line);
  }

  /** Drops the lines of the uncommitted transaction, which will be sent again from its beginning. */
  discard(): void {
    this.#storage.sql.exec("delete from lines where number > ?", this.#end);
    this.#next = this.#end + 1;
  }

  /** Commits the added lines. Once this promise resolves, a crash cannot undo it. */
  commit(position: string): Promise<void> {
    return this.#go(this.#next - 1, this.#first, position);
  }

  /** Records that changes are missing here. Earlier lines no longer count. */
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

  /** Returns a tenant's lines after `number`, at most `most` of them. */
  after(tenant: string, number: number, most: number): Line[] {
    const text =
      "select number, line from lines where tenant in (?, ?) and number > ? and number <= ? order by number limit ?";
    return [
      ...this.#storage.sql.exec<{ number: number; line: string }>(text, tenant, EVERYBODY, number, this.#end, most),
    ];
  }
}
