// Calls whose rows become JavaScript values, and calls that ask for no rows: queries, loops, cursors, batches, prepared
// statements.
//
// Knows which form of rows a call wants and what runs it. Must not know whose turn it is (turn-queue.ts), how the
// connection is made, nor when a transaction begins and ends.
import { isHyperdrive } from "../config/hosts.ts";
import { checkObject, oneOf } from "../config/rules.ts";
import type { Operation, RowSink } from "../connection/operation.ts";
import { Collector } from "../rows/collect.ts";
import { outputForm, valueForm, type Form, type ValueForm } from "../rows/form.ts";
import { loopSink, RowQueue, Rows } from "../rows/rows.ts";
import type { Call, Ending } from "../session/call.ts";
import { learnNames } from "../session/catalog-questions.ts";
import type { Session } from "../session/session.ts";
import { isStale } from "../statement/attempts.ts";
import { runBatch } from "../statement/batch.ts";
import type { BatchItem } from "../statement/batch-run.ts";
import { forCache } from "../statement/cached.ts";
import { Cursor } from "../statement/cursor.ts";
import { Execution, type Statement } from "../statement/execute.ts";
import { checkInScope, notInScope } from "../statement/scoped-statement.ts";
import {
  checkNoTag,
  sql,
  toCall,
  toQuery,
  type Query,
  type QueryInput,
  type RowInput,
  type RowOf,
  type SomeHaveRow,
} from "../statement/sql.ts";
import { serialized } from "../values/serialize.ts";
import { PgzError, ResponseTooLargeError, UsageError } from "../util/errors.ts";
import type { CallSubject } from "../util/observer.ts";
import { isClientCopy, isPipelinable } from "../util/statement-words.ts";
import { errorOf, here, traced } from "../util/trace.ts";
import type { RowMode } from "../values/objects.ts";
import type { SqlValue } from "../values/parameter-types.ts";
import { COPY_NONE, ROWS_NONE } from "../wasm/boundary.ts";
import {
  LEAVING,
  type AsArrays,
  type Atomic,
  type BatchOptions,
  type BatchResult,
  type CacheOptions,
  type CallOptions,
  type Description,
  type EncodedResult,
  type ExecOptions,
  type ExecResult,
  type Isolated,
  type QueryOptions,
  type QueryResult,
  type SimpleOptions,
} from "./options.ts";
import { Prepared } from "./prepared.ts";
import type { Body, WireUse } from "./turn-queue.ts";
import { CallRunner, refusal, waiting } from "./call-runner.ts";

/** The calls of a `Client` and a `Transaction` that give values or counts. */
export abstract class Queries extends CallRunner {
  /**
   * Runs a query and holds all its rows in memory. It can also be used as a template tag.
   *
   * @example
   * const { rows } = await client.query<{ name: string }>(sql`select name from users where id = ${1}`);
   * const same = await client.query`select name from users where id = ${1}`;
   * const again = await client.query("select name from users where id = $1", [1]);
   */
  // The compiler reports errors against the last overload, so the last one is what most calls mean.
  query<Row = Record<string, unknown>>(query: TemplateStringsArray, ...values: SqlValue[]): Promise<QueryResult<Row>>;
  query<Row = unknown[]>(
    text: string,
    values: readonly unknown[],
    options: QueryOptions & AsArrays,
  ): Promise<QueryResult<Row>>;
  query<Row = Record<string, unknown>>(
    text: string,
    values: readonly unknown[],
    options?: QueryOptions,
  ): Promise<QueryResult<Row>>;
  query<Row = unknown[]>(query: QueryInput, options: QueryOptions & AsArrays): Promise<QueryResult<Row>>;
  query<Row = Record<string, unknown>>(query: RowInput<Row>, options?: QueryOptions): Promise<QueryResult<Row>>;
  query<Row>(input: QueryInput | TemplateStringsArray, ...rest: unknown[]): Promise<QueryResult<Row>> {
    try {
      const [query, options] = this.#asCall<QueryOptions>(input, rest);
      return this.run(query, options, this.collecting<Row>(query, options), wireUseOf(query));
    } catch (error) {
      return refusal(error);
    }
  }

  /**
   * The first row of a query, `undefined` if there is none. Everything else is as in {@link query}: the server sends
   * all rows, so a query that may have more than one needs `limit 1`. Rejects if a limit cut the only row off.
   *
   * @example
   * const user = await client.first<{ name: string }>(sql`select name from users where id = ${1}`);
   * if (!user) return new Response("no such user", { status: 404 });
   */
  first<Row = Record<string, unknown>>(query: TemplateStringsArray, ...values: SqlValue[]): Promise<Row | undefined>;
  first<Row = unknown[]>(
    text: string,
    values: readonly unknown[],
    options: QueryOptions & AsArrays,
  ): Promise<Row | undefined>;
  first<Row = Record<string, unknown>>(
    text: string,
    values: readonly unknown[],
    options?: QueryOptions,
  ): Promise<Row | undefined>;
  first<Row = unknown[]>(query: QueryInput, options: QueryOptions & AsArrays): Promise<Row | undefined>;
  first<Row = Record<string, unknown>>(query: RowInput<Row>, options?: QueryOptions): Promise<Row | undefined>;
  async first<Row>(input: QueryInput | TemplateStringsArray, ...rest: unknown[]): Promise<Row | undefined> {
    const { rows, truncated } = await this.query<Row>(input as QueryInput, ...(rest as [QueryOptions?]));
    // `undefined` would say that there is no row.
    if (truncated && !rows.length) throw errorOf(new ResponseTooLargeError(truncated), toCall(input, rest)[0]);
    return rows[0];
  }

  /** Makes the body that runs a query and holds its rows. */
  protected collecting<Row>(query: Query, options: QueryOptions): Body<QueryResult<Row>> {
    const [form, mode] = this.#values(options);
    return (call, session, ending) => {
      const rows = new Collector<Row>(form, mode, session.catalog);
      const ended = ({ rowCount, command, truncated }: Operation) => {
        const result = { rows: rows.take(), rowCount, command, fields: rows.fields };
        call.succeed(truncated ? { ...result, truncated } : result);
      };
      new Execution(call, session, { query, form, newSink: () => rows, ended }, ending).begin();
    };
  }

  /**
   * The rows of a query for `for await`, one by one or in arrays. Memory holds one batch, whatever the result's size.
   *
   * The query starts when a loop starts. While the loop is busy the server waits. When the loop is left, the query is
   * cancelled. Until its end, also in its body, other calls of this client reject with `STREAM_OPEN`: collect the rows
   * with {@link query} first, or use a pool, which has other connections. It can also be used as a template tag.
   *
   * @example
   * for await (const row of client.rows("select * from log")) console.log(row);
   * for await (const rows of client.rows("select * from log").batches(1_000)) console.log(rows.length);
   */
  rows<Row = Record<string, unknown>>(query: TemplateStringsArray, ...values: SqlValue[]): Rows<Row>;
  rows<Row = unknown[]>(text: string, values: readonly unknown[], options: QueryOptions & AsArrays): Rows<Row>;
  rows<Row = Record<string, unknown>>(text: string, values: readonly unknown[], options?: QueryOptions): Rows<Row>;
  rows<Row = unknown[]>(query: QueryInput, options: QueryOptions & AsArrays): Rows<Row>;
  rows<Row = Record<string, unknown>>(query: RowInput<Row>, options?: QueryOptions): Rows<Row>;
  rows<Row>(input: QueryInput | TemplateStringsArray, ...rest: unknown[]): Rows<Row> {
    const [query, options] = this.#asCall<QueryOptions>(input, rest);
    return this.loop<Row>(query, options, (call, session, { form, sink, ended }, ending) =>
      new Execution(call, session, { query, form, newSink: () => sink, ended }, ending).begin(),
    );
  }

  /** Calls `body` once for each loop. @internal */
  protected loop<Row>(subject: CallSubject, options: QueryOptions, body: LoopBody): Rows<Row> {
    const [form, mode] = this.#values(options);
    return new Rows((rows, size) => {
      const queue = new RowQueue<Row>(size);
      const leaving = new AbortController();
      const begin: Body<void> = (call, session, ending) => {
        call.consumer = { fail: () => void (queue.isOver = true), isLooping: () => !queue.isOver };
        const sink = loopSink(rows, queue, form, mode, session.catalog);
        const ended = (operation: Operation) => {
          ({ command: rows.command, rowCount: rows.rowCount, truncated: rows.truncated } = operation);
          call.succeed();
        };
        body(call, session, { form, sink, ended }, ending);
      };
      const running = this.run(subject, { ...options, [LEAVING]: leaving.signal }, begin, "loop");
      running.then(
        () => queue.end(),
        (error: PgzError) => queue.fail(error),
      );
      const leave = () => {
        queue.isOver = true;
        leaving.abort();
      };
      return { queue, leave };
    });
  }

  /**
   * Runs a statement for its effect. Rows that it returns are counted and dropped. It can also be used as a template
   * tag.
   *
   * @example
   * const { rowCount } = await client.exec(sql`delete from sessions where seen < ${limit}`);
   */
  // One signature, so that it can be called in a union with other methods. The compiler reports the last form.
  exec(
    ...call:
      | [query: TemplateStringsArray, ...values: SqlValue[]]
      | [text: string, values: readonly unknown[], options?: ExecOptions | undefined]
      | [query: QueryInput, options?: ExecOptions | undefined]
  ): Promise<ExecResult> {
    const [input, ...rest] = call;
    try {
      const [query, options] = this.#asCall<ExecOptions>(input, rest);
      const counted: Form = { ...valueForm(this.config, { ...options, onLimit: "error" }), code: ROWS_NONE };
      const count: Body<ExecResult> = (call, session, ending) => {
        const ended = ({ command, rowCount }: Operation) => call.succeed({ command, rowCount });
        new Execution(call, session, { query, form: counted, newSink: () => NO_ROWS, ended }, ending).begin();
      };
      return this.run(query, options, count, wireUseOf(query));
    } catch (error) {
      return refusal(error);
    }
  }

  /**
   * Runs the statements of one text by the simple query protocol and gives a result for each. There are no parameters,
   * and the limits apply to all statements together. Values are those of `query`, with three exceptions: docs/types.md,
   * "Without the extended protocol".
   *
   * The statements are one transaction unless the text says otherwise. An error rolls back the statements before it;
   * the error's `completed` lists their commands.
   *
   * @example
   * const [, found] = await client.simple("set datestyle = german; select now()");
   */
  async simple<Row = Record<string, unknown>>(
    text: RowInput<Row>,
    options: SimpleOptions = {},
  ): Promise<QueryResult<Row>[]> {
    if (this.isScoped)
      throw notInScope("simple() cannot run in a scope, whose settings its text could end: use query or batch.");
    const query = this.asQuery(text, options);
    if (query.values.length)
      throw new UsageError("INVALID_QUERY", "The simple query protocol has no parameters: use query.");
    const [form, mode] = this.#values({ ...options, onLimit: "error" });
    const results: QueryResult<Row>[] = [];
    const body = async (
      call: Call<QueryResult<Row>[]>,
      { connection, catalog, statements, transaction }: Session,
    ): Promise<void> => {
      if (!(await learnNames(call, connection, catalog, form.policy)) || !(await transaction.begun(call))) return;
      const rows = new Collector<Row>(form, mode, catalog);
      const complete = (command: string, rowCount: number | null) => {
        results.push({ rows: rows.take(), rowCount, command, fields: rows.fields });
        rows.fields = [];
      };
      const fail = (error: PgzError) => Object.assign(error, { completed: results.map(({ command }) => command) });
      call.consumer = { fail };
      const conversation = { rows, severalResults: true, on: { complete } };
      const operation = call.operate(
        connection,
        (handle) => {
          // The columns arrive with the rows, which is too late to ask the catalog.
          statements.define(handle, catalog.definitions());
          return handle.simple_query(query.text, COPY_NONE, form.code, form.limits);
        },
        conversation,
      );
      await operation.done;
      if (operation.error) throw operation.error;
      call.succeed(results);
    };
    return await this.run(query, options, waiting(body));
  }

  /**
   * The rows in batches of `size`, from 1 to 2,147,483,647. Each batch is requested when the previous one has been
   * consumed, so client and server hold one batch.
   *
   * Outside a transaction the cursor has its own. It is committed at the end, and also if the loop is left early,
   * however it is left: what the statement has written by then stays. An error of the server, a limit, an abort and
   * the `timeout` roll it back. If that happens while the body of the loop runs, leaving the loop by `break` or
   * `return` throws the error; an error of the body's own comes first. A statement that cannot run in a transaction
   * (`VACUUM`) cannot have a cursor.
   *
   * The cursor starts with the first `next()`. Until its end, other calls of this client reject with `STREAM_OPEN`.
   * Limits, `timeout` and `signal` apply to the whole cursor.
   *
   * @example
   * for await (const rows of client.cursor("select * from log", 1_000)) await send(rows);
   */
  cursor<Row = Record<string, unknown>>(
    input: RowInput<Row>,
    size: number,
    options: SimpleOptions = {},
  ): AsyncGenerator<Row[], void, undefined> {
    const query = this.asQuery(input, options);
    if (!Number.isInteger(size) || size < 1 || size > 0x7fffffff)
      throw new UsageError("INVALID_OPTION", "A cursor's size must be a whole number from 1 to 2147483647.");
    const [form, mode] = this.#values({ ...options, onLimit: "error" });
    const batches = this.#batches<Row>(query, form, mode, size, options);
    const next = batches.next.bind(batches);
    // Not every engine's stacks name the caller that awaits an async generator.
    return Object.assign(batches, { next: () => traced(next()) });
  }

  async *#batches<Row>(
    query: Query,
    form: ValueForm,
    mode: RowMode,
    size: number,
    options: CallOptions,
  ): AsyncGenerator<Row[], void, undefined> {
    const opening = async (call: Call<Cursor<Row>>, session: Session) => {
      const cursor = new Cursor(call, session, new Collector<Row>(form, mode, session.catalog));
      await cursor.start(query, form, size);
      if (!call.finished) call.hand(cursor);
      await cursor.closed;
    };
    const cursor = await this.run(query, options, waiting(opening), "loop");
    try {
      let batch = cursor.first;
      for (;;) {
        if (!cursor.more) await cursor.close();
        if (batch.length) yield batch;
        if (!cursor.more) return;
        batch = await cursor.next();
      }
    } finally {
      await cursor.close();
    }
  }

  /**
   * Sends many statements at once and waits once. Resolves with a result for each, in order (docs/batches.md).
   *
   * All statements are described before any of them runs, so no statement can use a table that another one creates. If
   * a value cannot be encoded, nothing has run. The error of an atomic batch has a `batch` ({@link BatchFailure}).
   *
   * @example
   * const [user, orders] = await client.batch([
   *   sql`select * from users where id = ${7}`,
   *   sql`select * from orders where user_id = ${7}`,
   * ]);
   */
  batch<const Queries extends readonly QueryInput[] | readonly []>(
    queries: Queries & SomeHaveRow<Queries>,
    options?: BatchOptions & { readonly atomic?: true | undefined; readonly results?: "rows" | undefined },
  ): Promise<{ -readonly [Index in keyof Queries]: QueryResult<RowOf<Queries[Index]>> }>;
  batch<const Queries extends readonly QueryInput[] | readonly []>(
    queries: Queries & SomeHaveRow<Queries>,
    options: BatchOptions & { readonly atomic: false; readonly results?: "rows" | undefined },
  ): Promise<{ -readonly [Index in keyof Queries]: PromiseSettledResult<QueryResult<RowOf<Queries[Index]>>> }>;
  batch<Row = Record<string, unknown>>(
    queries: readonly QueryInput[],
    options?: BatchOptions & { readonly atomic?: true | undefined; readonly results?: "rows" | undefined },
  ): Promise<QueryResult<Row>[]>;
  batch(queries: readonly QueryInput[], options: Atomic<"count">): Promise<ExecResult[]>;
  batch(queries: readonly QueryInput[], options: Atomic<"ndjson">): Promise<EncodedResult[]>;
  batch<Row = Record<string, unknown>>(
    queries: readonly QueryInput[],
    options: BatchOptions & { readonly atomic: false; readonly results?: "rows" | undefined },
  ): Promise<PromiseSettledResult<QueryResult<Row>>[]>;
  batch(queries: readonly QueryInput[], options: Isolated<"count">): Promise<PromiseSettledResult<ExecResult>[]>;
  batch(queries: readonly QueryInput[], options: Isolated<"ndjson">): Promise<PromiseSettledResult<EncodedResult>[]>;
  /** For an `atomic` or `results` that is known only at run time. */
  batch<Row = Record<string, unknown>>(
    queries: readonly QueryInput[],
    options: BatchOptions,
  ): Promise<(BatchResult<Row> | PromiseSettledResult<BatchResult<Row>>)[]>;
  async batch(queries: readonly QueryInput[], options: BatchOptions = {}): Promise<unknown[]> {
    checkNoTag(queries);
    if (!Array.isArray(queries)) throw new UsageError("INVALID_QUERY", "batch needs an array of queries.");
    checkObject(options);
    const { atomic = true, results = "rows" } = options;
    oneOf(true, false)(atomic, "atomic");
    const items = queries.map((query: QueryInput) => this.asQuery(query, options));
    if (items.some(({ text }) => isClientCopy(text)))
      throw new UsageError("COPY_NEEDS_COPY_CALL", "COPY with data cannot be part of a batch: use copyFrom or copyTo.");
    const [values, mode] = this.#values({ ...options, onLimit: "error" });
    const output = {
      rows: values,
      count: { ...values, code: ROWS_NONE },
      ndjson: { ...values, code: outputForm(this.config, { ...options, format: "ndjson" }).code },
    };
    const form = output[oneOf("rows", "count", "ndjson")(results, "results") as keyof typeof output];
    if (!items.length) return [];
    const text = `/* batch of ${items.length} */ ${items[0]!.text}`;
    const texts = items.map((item) => item.text);
    const body = (call: Call<PromiseSettledResult<BatchItem<unknown>>[]>, session: Session) =>
      runBatch(call, session, items, { atomic, form, mode });
    const settled = await this.run({ text, texts, kind: "batch" }, options, waiting(body));
    settled.forEach((item, index) => {
      if (item.status === "rejected") item.reason = here(errorOf(item.reason as PgzError, { ...items[index]!, texts }));
    });
    return atomic ? settled.map((item) => (item as PromiseFulfilledResult<unknown>).value) : settled;
  }

  /**
   * Parses a statement now, under a name, and returns it as an object to run many times. The name counts towards
   * `statementCacheSize`. If other statements displace it, the next run parses it again.
   *
   * @example
   * using byId = await client.prepare<{ name: string }>("select name from users where id = $1");
   * const { rows } = await byId.query([7]);
   */
  async prepare<Row = Record<string, unknown>>(
    input: RowInput<Row>,
    options: CallOptions = {},
  ): Promise<Prepared<Row>> {
    const { text, values } = this.asQuery(input, options);
    if (values.length)
      throw new UsageError(
        "INVALID_QUERY",
        "prepare needs a text with $1, $2 …: pass the values to query() or exec().",
      );
    const body = async (call: Call<Prepared<Row>>, { statements, transaction }: Session): Promise<void> => {
      const prepare = async () => (await statements.prepare(call, [text]))?.[0];
      let prepared = await prepare();
      // The name was taken, lost or out of date on the server. The second attempt parses under a new name.
      if (isStale(prepared) && transaction.status === "I") prepared = await prepare();
      if (!prepared) return;
      if (prepared instanceof PgzError) throw prepared;
      const shape = prepared;
      const description = { parameterTypes: [...shape.parameterTypes], fields: shape.columns };
      call.succeed(new Prepared<Row>(text, description, this, () => statements.forget(shape)));
    };
    return await this.run({ text }, options, waiting(body));
  }

  /**
   * Notifies all listeners of the channel when the transaction commits. The payload has at most 7,999 bytes.
   *
   * @example
   * await client.notify("jobs", JSON.stringify({ id: 7 }));
   */
  notify(channel: string, payload = "", options: CallOptions = {}): Promise<ExecResult> {
    return this.exec(sql`select pg_catalog.pg_notify(${channel}, ${payload})`, options);
  }

  /**
   * Returns the parameter types and columns of a statement without running it. A statement that is already known costs
   * no round trip, and statements that are described together share one.
   *
   * @example
   * const { parameterTypes, fields } = await client.describe("select name from users where id = $1");
   */
  async describe(input: QueryInput, options: CallOptions = {}): Promise<Description> {
    const { text } = this.asQuery(input, options);
    const body = async (call: Call<Description>, session: Session) => {
      const described = session.statements.shape(call, text);
      if (!session.transaction.isBeginning) call.sent(text.length);
      const shape = await described;
      if (shape) call.succeed({ parameterTypes: [...shape.parameterTypes], fields: shape.columns });
    };
    // Describing runs nothing, so it may always share the wire.
    return await this.run({ text }, options, waiting(body), "shared");
  }

  // -- calls ----------------------------------------------------------------------------------------------------------

  /** Whether settings apply to each call until its transaction ends. @internal */
  protected get isScoped(): boolean {
    return false;
  }

  /** The query that the user gave. Throws if it may not run here. @internal */
  protected asQuery(input: QueryInput, options: CallOptions & CacheOptions = {}): Query {
    const query = toQuery(input);
    checkObject(options);
    if (this.isScoped) checkInScope(query.text);
    return this.#toSend(query, options);
  }

  #asCall<Options extends object>(
    input: QueryInput | TemplateStringsArray,
    rest: readonly unknown[],
  ): [query: Query, options: Options] {
    const [query, options] = toCall(input, rest);
    if (this.isScoped) checkInScope(query.text);
    return [this.#toSend(query, options), options as Options];
  }

  /** The query with the text and the values that are sent. */
  #toSend(query: Query, options: CacheOptions): Query {
    const { serialize, host } = this.config;
    // Hyperdrive's cache does not know a scope's settings, so a tenant could be given another tenant's rows.
    const { cache = this.isScoped && isHyperdrive(host) ? false : undefined } = options;
    const text = cache === undefined ? query.text : forCache(query.text, cache);
    if (!serialize) return text === query.text ? query : { text, values: query.values };
    return { text, values: serialized(query.values, serialize) };
  }

  /** How the call's rows become JavaScript values. */
  #values(options: QueryOptions): [form: ValueForm, mode: RowMode] {
    const { rowMode } = options;
    return [valueForm(this.config, options), rowMode === undefined ? "object" : rowModes(rowMode, "rowMode")];
  }
}

/** Runs a loop's statement: `ended` is called when its result is complete. */
type LoopBody = (
  call: Call<void>,
  session: Session,
  result: { readonly form: ValueForm; readonly sink: RowSink; readonly ended: Statement["ended"] },
  ending: Ending,
) => void;

const rowModes = oneOf("object", "array");
/** Drops the rows of a statement that is run for its effect. */
const NO_ROWS: RowSink = { rows: () => {} };

/** How a statement whose result is collected uses the connection. */
export function wireUseOf(query: Query): WireUse {
  return isPipelinable(query.text) ? "shared" : "alone";
}
