// A statement that is prepared on its client's connection and then run with other values each time.
//
// Knows its text and the server's description of it. Must not know how it runs: it makes queries, which any call takes.
import type { CallOptions, ExecResult, QueryOptions, QueryResult, Description } from "./options.ts";
import { UsageError } from "../util/errors.ts";
import { shownWith } from "../util/shown.ts";
import { shownSql } from "../util/shown-sql.ts";
import { sql, type Query } from "../statement/sql.ts";

interface Owner {
  query<Row>(query: Query, options?: QueryOptions): Promise<QueryResult<Row>>;
  exec(query: Query, options?: CallOptions): Promise<ExecResult>;
}

/**
 * A prepared statement; `client.prepare(text)` makes it.
 *
 * @example
 * const byId = await client.prepare<{ name: string }>("select name from users where id = $1");
 * const { rows } = await byId.query([1]);
 * await client.batch([1, 2, 3].map((id) => byId.bind(id)));
 * byId.close(); // or: using byId = await client.prepare(…)
 */
export class Prepared<Row = Record<string, unknown>> implements Description {
  static {
    shownWith(this, "Prepared", ({ text, parameterTypes, fields }) => {
      return { text: shownSql(text), parameterTypes, fields: fields.map(({ name }) => name) };
    });
  }

  /** The SQL as given. */
  readonly text: string;
  readonly parameterTypes: Description["parameterTypes"];
  readonly fields: Description["fields"];
  readonly #owner: Owner;
  readonly #forget: () => void;
  #closed = false;

  /** @internal */
  constructor(text: string, { parameterTypes, fields }: Description, owner: Owner, forget: () => void) {
    this.text = text;
    this.parameterTypes = parameterTypes;
    this.fields = fields;
    this.#owner = owner;
    this.#forget = forget;
  }

  /**
   * Returns the statement with these values, as a query for any call, such as `stream` or `batch`.
   *
   * @throws UsageError `INVALID_QUERY` after `close()`, `INVALID_PARAMETER` for `undefined`
   *
   * @example
   * const body = await client.stream(byId.bind(7));
   */
  bind(...values: unknown[]): Query<Row> {
    return this.#bound(values);
  }

  /**
   * Runs the statement and returns all rows.
   *
   * @example
   * const { rows } = await byId.query([7]);
   */
  async query(values: readonly unknown[] = [], options?: QueryOptions): Promise<QueryResult<Row>> {
    return await this.#owner.query<Row>(this.#bound(values), options);
  }

  /**
   * Runs the statement for its effect.
   *
   * @example
   * const { rowCount } = await rename.exec(["Ann", 7]);
   */
  async exec(values: readonly unknown[] = [], options?: CallOptions): Promise<ExecResult> {
    return await this.#owner.exec(this.#bound(values), options);
  }

  #bound(values: readonly unknown[]): Query<Row> {
    if (!Array.isArray(values))
      throw new UsageError("INVALID_QUERY", "The values of a prepared statement must be an array: query([1, 2]).");
    if (this.#closed) throw new UsageError("INVALID_QUERY", "The statement is closed: prepare it again.");
    return sql.unsafe(this.text, values) as Query<Row>;
  }

  /**
   * Makes the server drop the statement with the next call. May be called again.
   *
   * @example
   * byId.close();
   */
  close(): void {
    if (!this.#closed) this.#forget();
    this.#closed = true;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
