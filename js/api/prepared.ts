// A statement that is prepared on its client's connection, to be run with other values each time.
//
// Knows its text and what the server has said of it. Must not know how it runs: it makes queries, which any call takes.
import type { ExecResult, QueryOptions, QueryResult, Description } from "./calls.ts";
import { dispose } from "../util/dispose.ts";
import { UsageError } from "../util/errors.ts";
import type { CallOptions } from "./queue.ts";
import { defined, type Query } from "../statement/sql.ts";

interface Owner {
  query<Row>(query: Query, options?: QueryOptions): Promise<QueryResult<Row>>;
  exec(query: Query, options?: CallOptions): Promise<ExecResult>;
}

export class Prepared<Row = Record<string, unknown>> implements Description {
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

  /** The statement with these values, for any call: `db.stream(statement.bind(7))`, `db.batch(rows.map((row) => statement.bind(...row)))`. */
  bind(...values: unknown[]): Query {
    if (this.#closed) throw new UsageError("INVALID_QUERY", "The statement is closed: prepare it again.");
    values.forEach(defined);
    return { text: this.text, values };
  }

  query(values: readonly unknown[] = [], options?: QueryOptions): Promise<QueryResult<Row>> {
    return this.#owner.query<Row>(this.bind(...values), options);
  }

  exec(values: readonly unknown[] = [], options?: CallOptions): Promise<ExecResult> {
    return this.#owner.exec(this.bind(...values), options);
  }

  /** The server drops it with the next call. */
  close(): void {
    if (!this.#closed) this.#forget();
    this.#closed = true;
  }

  [dispose](): void {
    this.close();
  }
}
