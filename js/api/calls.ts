// What a user may call on a client and on a transaction alike: queries, batches, COPY, and what becomes of their rows.
//
// Knows forms of results and what makes them. Must not know whose turn it is (queue.ts), how the connection is made,
// nor when a transaction begins and ends.
import { oneOf } from "../config/rules.ts";
import { AbortError, PgzError, ResponseTooLargeError, UsageError } from "../util/errors.ts";
import { COPY_NONE, RENAME_DUPLICATES, ROWS_NONE } from "../wasm/boundary.ts";
import { runBatch } from "../statement/batch.ts";
import type { BatchItem } from "../statement/batch-run.ts";
import { joined } from "../util/bytes.ts";
import type { Call } from "../session/call.ts";
import { Collector, decoderOf } from "../rows/collect.ts";
import { copyIn, copyOut, copyRows, leave, sendSource, type CopySource, type CopyTarget } from "../statement/copy.ts";
import { rowWriter, type CopyRow } from "../statement/copy-rows.ts";
import { Cursor } from "../statement/cursor.ts";
import {
  checkNames,
  outputForm,
  uniqueNames,
  valueForm,
  type Form,
  type RowOptions,
  type ValueForm,
} from "../rows/form.ts";
import type { RowDecoder, RowMode } from "../values/objects.ts";
import type { Operation, RowSink } from "../connection/operation.ts";
import { resultStream } from "../rows/result-stream.ts";
import { runtime, type ByteChannel } from "../sockets/runtime.ts";
import { ToonDocument } from "../rows/toon.ts";
import { RowQueue, Rows } from "../rows/rows.ts";
import { learnNames } from "../session/catalog-questions.ts";
import type { Session } from "../session/session.ts";
import { isStale } from "../statement/attempts.ts";
import { execute } from "../statement/execute.ts";
import type {
  Atomic,
  BatchOptions,
  BatchResult,
  CopyFromOptions,
  CopyToOptions,
  Description,
  EncodedResult,
  ExecResult,
  Isolated,
  JsonOptions,
  QueryOptions,
  QueryResult,
  RespondOptions,
  SimpleOptions,
  StreamOptions,
} from "./options.ts";
import { Prepared } from "./prepared.ts";
import { Queue, type CallOptions } from "./queue.ts";
import { plainText, sql, toQuery, type Query, type QueryInput } from "../statement/sql.ts";

/** COPY whose data travel by this connection. */
const COPIES = /^(?:\s|--.*\n|\/\*[^]*?\*\/)*copy\b[^]*\b(stdin|stdout)\b/i;

/** Anything else would run before it turned out to be something else. */
function copyText(input: QueryInput): string {
  const text = plainText(input);
  if (COPIES.test(text)) return text;
  throw new UsageError(
    "COPY_NEEDS_COPY_CALL",
    "This call needs the text of a COPY … FROM STDIN or COPY … TO STDOUT statement.",
  );
}

/** The calls that a `Client` and a `Transaction` share. Every call may reject with a `PgzError` (docs/errors.md). */
export abstract class Calls extends Queue {
  /**
   * Runs a query and holds all its rows in memory. It can also be used as a template tag.
   *
   * @example
   * const { rows } = await client.query<{ name: string }>(sql`select name from users where id = ${1}`);
   * const { rows } = await client.query`select name from users where id = ${1}`;
   */
  query<Row = Record<string, unknown>>(query: QueryInput, options?: QueryOptions): Promise<QueryResult<Row>>;
  query<Row = Record<string, unknown>>(query: TemplateStringsArray, ...values: unknown[]): Promise<QueryResult<Row>>;
  async query<Row>(input: QueryInput | TemplateStringsArray, ...rest: unknown[]): Promise<QueryResult<Row>> {
    const query = toQuery(input, ...rest);
    const options = ((!Array.isArray(input) && rest[0]) || {}) as QueryOptions;
    const [form, mode] = this.#values(options);
    const rows = new Collector<Row>(form, mode);
    return await this.run(query.text, options, async (call: Call<QueryResult<Row>>, session) => {
      const ended = await execute(call, session, query, form, () => rows.sink);
      if (!ended) return;
      const { rowCount, command, truncated } = ended;
      const result = { rows: rows.take(), rowCount, command, fields: rows.fields };
      call.succeed(truncated ? { ...result, truncated } : result);
    });
  }

  /**
   * The rows of a query for `for await`, one by one or in arrays. Memory holds one batch, whatever the result's size.
   *
   * The query starts when a loop starts. While the loop is busy the server waits, and when the loop is left the query
   * is cancelled. Until its end other calls of this client reject with `STREAM_OPEN`. It can also be used as a template
   * tag.
   *
   * @example
   * for await (const row of client.rows("select * from log")) console.log(row);
   * for await (const rows of client.rows("select * from log").batches(1_000)) console.log(rows.length);
   */
  rows<Row = Record<string, unknown>>(query: QueryInput, options?: QueryOptions): Rows<Row>;
  rows<Row = Record<string, unknown>>(query: TemplateStringsArray, ...values: unknown[]): Rows<Row>;
  rows<Row>(input: QueryInput | TemplateStringsArray, ...rest: unknown[]): Rows<Row> {
    const query = toQuery(input, ...rest);
    const options = ((!Array.isArray(input) && rest[0]) || {}) as QueryOptions;
    return this.#rows<Row>(query.text, options, (call, session, _, form, sink) =>
      execute(call, session, query, form, () => sink),
    );
  }

  #rows<Row>(
    text: string,
    options: QueryOptions,
    run: (
      call: Call<void>,
      session: Session,
      text: string,
      form: ValueForm,
      sink: RowSink,
    ) => Promise<Operation | undefined>,
  ): Rows<Row> {
    const [form, mode] = this.#values(options);
    return new Rows((rows, size) => {
      const queue = new RowQueue<Row>(size);
      const leaving = new AbortController();
      let decode: RowDecoder | undefined;
      const sink: RowSink = {
        delivery: "prompt",
        columns: (given) => {
          if (form.unique) checkNames(given);
          rows.fields = given;
          decode = decoderOf(given, form, mode);
        },
        rows: (view) => queue.write(decode!(view) as Row[]),
        full: () => queue.full(),
      };
      const running = this.run(
        text,
        { ...options, leaving: leaving.signal },
        async (call: Call<void>, session) => {
          const ended = await run(call, session, text, form, sink);
          if (!ended) return;
          ({ command: rows.command, rowCount: rows.rowCount, truncated: rows.truncated } = ended);
          call.succeed();
        },
        true,
      );
      running.then(
        () => queue.end(),
        (error: PgzError) => queue.fail(error),
      );
      return { queue, leave: () => leaving.abort() };
    });
  }

  /** Runs a statement for its effect. Rows that it returns are counted and dropped. */
  async exec(input: QueryInput, options: CallOptions & Pick<RowOptions, "maxRows"> = {}): Promise<ExecResult> {
    const query = toQuery(input);
    const counted: Form = { ...valueForm(this.config, { ...options, onLimit: "error" }), form: ROWS_NONE };
    return await this.run(query.text, options, async (call: Call<ExecResult>, session) => {
      const ended = await execute(call, session, query, counted, () => NO_ROWS);
      if (ended) call.succeed({ command: ended.command, rowCount: ended.rowCount });
    });
  }

  /**
   * Runs the statements of one text by the simple query protocol and gives a result for each. There are no parameters,
   * and the limits count over all statements. Arrays, times and intervals stay the server's text (docs/types.md).
   *
   * The statements are one transaction unless the text says otherwise. An error rolls back the statements before it;
   * the error's `completed` lists their commands.
   */
  async simple<Row = Record<string, unknown>>(
    text: QueryInput,
    options: SimpleOptions = {},
  ): Promise<QueryResult<Row>[]> {
    const query = toQuery(text);
    if (query.values.length)
      throw new UsageError("INVALID_QUERY", "The simple query protocol has no parameters: use query.");
    const [form, mode] = this.#values({ ...options, onLimit: "error" });
    const results: QueryResult<Row>[] = [];
    const rows = new Collector<Row>(form, mode);
    const complete = (command: string, rowCount: number | null) => {
      results.push({ rows: rows.take(), rowCount, command, fields: rows.fields });
      rows.fields = [];
    };
    return this.run(
      query.text,
      options,
      async (call: Call<QueryResult<Row>[]>, { connection, catalog, transaction }) => {
        if (!(await learnNames(call, connection, catalog, form.policy)) || !(await transaction.begun(call))) return;
        call.onFailure = (error) => Object.assign(error, { completed: results.map(({ command }) => command) });
        const conversation = { rows: rows.sink, severalResults: true, on: { complete } };
        const operation = call.operate(
          connection,
          (handle) => handle.simple_query(query.text, COPY_NONE, form.form, form.limits),
          conversation,
        );
        await operation.done;
        if (operation.error) throw operation.error;
        call.succeed(results);
      },
    );
  }

  /**
   * The rows in batches of `size`, from 1 to 2,147,483,647. Each batch is requested when the one before has been
   * consumed, so client and server hold one batch.
   *
   * Outside a transaction the cursor has its own, which is committed at the end. Leaving the loop early, or an error,
   * closes the portal and rolls that transaction back. A statement that cannot run in a transaction (`VACUUM`) cannot
   * have a cursor.
   *
   * The cursor starts with the first `next()`. Until its end other calls of this client reject with `STREAM_OPEN`.
   * Limits, `timeout` and `signal` apply to the whole cursor.
   */
  cursor<Row = Record<string, unknown>>(
    input: QueryInput,
    size: number,
    options: SimpleOptions = {},
  ): AsyncGenerator<Row[], void, undefined> {
    const query = toQuery(input);
    if (!Number.isInteger(size) || size < 1 || size > 0x7fffffff)
      throw new UsageError("INVALID_OPTION", "A cursor's size must be a whole number from 1 to 2147483647.");
    const [form, mode] = this.#values({ ...options, onLimit: "error" });
    const rows = new Collector<Row>(form, mode);
    return this.#batches(query, form, rows, size, options);
  }

  async *#batches<Row>(
    query: Query,
    form: Form,
    rows: Collector<Row>,
    size: number,
    options: CallOptions,
  ): AsyncGenerator<Row[], void, undefined> {
    const opening = (call: Call<Cursor<Row>>, session: Session) => {
      const cursor = new Cursor(call, session, rows);
      call.hand(cursor);
      return cursor.closed;
    };
    const cursor = await this.run(query.text, options, opening, true);
    try {
      let batch = await cursor.start(query, form, size);
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
   * Sends many statements at once and waits once. Gives a result for each, in order (docs/batches.md).
   *
   * All statements are described before the first one runs, so none can use a table that another creates. If any value
   * cannot be encoded, nothing is sent. The error of an atomic batch has a `batch` ({@link BatchFailure}).
   *
   * @example
   * const [user, orders] = await client.batch([
   *   sql`select * from users where id = ${7}`,
   *   sql`select * from orders where user_id = ${7}`,
   * ]);
   */
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
  /** If `atomic` or `results` is known only at run time. */
  batch<Row = Record<string, unknown>>(
    queries: readonly QueryInput[],
    options: BatchOptions,
  ): Promise<(BatchResult<Row> | PromiseSettledResult<BatchResult<Row>>)[]>;
  async batch(queries: readonly QueryInput[], options: BatchOptions = {}): Promise<unknown[]> {
    if (!Array.isArray(queries)) throw new UsageError("INVALID_QUERY", "batch needs an array of queries.");
    const { atomic = true, results = "rows" } = options;
    oneOf(true, false)(atomic, "atomic");
    const items = queries.map((query: QueryInput) => toQuery(query));
    if (items.some(({ text }) => COPIES.test(text)))
      throw new UsageError("COPY_NEEDS_COPY_CALL", "COPY with data cannot be part of a batch: use copyFrom or copyTo.");
    const [values, mode] = this.#values({ ...options, onLimit: "error" });
    const output = {
      rows: values,
      count: { ...values, form: ROWS_NONE },
      ndjson: { ...values, form: outputForm(this.config, { ...options, format: "ndjson" }).form },
    };
    const form = output[oneOf("rows", "count", "ndjson")(results, "results") as keyof typeof output];
    if (!items.length) return [];
    const text = `/* batch of ${items.length} */ ${items[0]!.text}`;
    const settled = await this.run(text, options, (call: Call<PromiseSettledResult<BatchItem<unknown>>[]>, session) =>
      runBatch(call, session, items, { atomic, form, mode }),
    );
    return atomic ? settled.map((item) => (item as PromiseFulfilledResult<unknown>).value) : settled;
  }

  /**
   * Parses a statement now, under a name, and returns it as an object to run many times. The name counts towards
   * `statementCacheSize`. When other statements push it out, the next run parses it again.
   */
  async prepare<Row = Record<string, unknown>>(input: QueryInput, options: CallOptions = {}): Promise<Prepared<Row>> {
    const { text, values } = toQuery(input);
    if (values.length)
      throw new UsageError(
        "INVALID_QUERY",
        "prepare needs a text with $1, $2 …: pass the values to query() or exec().",
      );
    return this.run(text, options, async (call: Call<Prepared<Row>>, { statements, transaction }) => {
      const prepare = async () => (await statements.prepare(call, [text]))?.[0];
      let shape = await prepare();
      // Its name was lost; the second time there is none.
      if (isStale(shape) && transaction.status === "I") shape = await prepare();
      if (!shape) return;
      if (shape instanceof PgzError) throw shape;
      const prepared = shape;
      const description = { parameterTypes: [...prepared.parameterTypes], fields: prepared.columns };
      call.succeed(new Prepared<Row>(text, description, this, () => statements.forget(prepared)));
    });
  }

  /** Notifies all listeners of the channel when the transaction commits. The payload has at most 7,999 bytes. */
  notify(channel: string, payload = "", options: CallOptions = {}): Promise<ExecResult> {
    return this.exec(sql`select pg_catalog.pg_notify(${channel}, ${payload})`, options);
  }

  /**
   * The parameter types and columns of a statement. It is not run. A statement that is already known costs no round
   * trip.
   */
  async describe(input: QueryInput, options: CallOptions = {}): Promise<Description> {
    const { text } = toQuery(input);
    return this.run(text, options, async (call: Call<Description>, session) => {
      const shape = await session.statements.shape(call, text);
      if (shape) call.succeed({ parameterTypes: [...shape.parameterTypes], fields: shape.columns });
    });
  }

  /**
   * Runs `COPY … FROM STDIN` with the data of `source`, in the format that the text names (docs/copy.md).
   *
   * The source is asked for more when the socket has taken what it gave. Either everything is stored or nothing. An
   * error of the server stops the source at once, and its `where` names the line. If the source throws, the call
   * rejects with `COPY_SOURCE_FAILED`.
   *
   * @example
   * await client.copyFrom("copy users (id, name) from stdin (format csv)", request.body);
   */
  async copyFrom(text: QueryInput, source: CopySource, options: CopyFromOptions = {}): Promise<ExecResult> {
    let begun = false;
    const send = (target: CopyTarget) => {
      begun = true;
      return sendSource(target, source, options.onProgress);
    };
    try {
      return await this.#copyIn(copyText(text), options, send);
    } finally {
      if (!begun) leave(source);
    }
  }

  /**
   * Loads rows of values into these columns of a table by COPY: in binary if all columns have a binary form here, else
   * as text.
   *
   * `table` is a name, or `sql.identifier("schema", "table")`. A row is an array, or an object with the columns' names.
   * A value that its column cannot hold ends the COPY; the error's `row` is the row's number, from 0.
   *
   * @example
   * await client.copyFromRows("orders", ["id", "total"], [[70, "19.99"], { id: 71, total: 5n }]);
   */
  async copyFromRows(
    table: QueryInput,
    columns: readonly string[],
    rows: Iterable<CopyRow> | AsyncIterable<CopyRow>,
    options: CopyFromOptions = {},
  ): Promise<ExecResult> {
    const into = typeof table === "string" ? sql.identifier(table).text : plainText(table);
    if (!Array.isArray(columns) || !columns.length)
      throw new UsageError("INVALID_QUERY", "copyFromRows needs at least one column name.");
    const list = sql.join(columns.map((name: string) => sql.identifier(name))).text;
    return this.run(`copy ${into} (${list}) from stdin`, options, async (call: Call<ExecResult>, session) => {
      const shape = await session.statements.learn(call, `select ${list} from ${into}`);
      if (!shape) return;
      const writer = rowWriter(shape.columns, columns, shape.types);
      const ended = await copyIn(
        call,
        session,
        `copy ${into} (${list}) from stdin (format ${writer.format})`,
        (target) => writer.send(target, rows, options.onProgress),
      );
      if (ended) call.succeed({ command: ended.command, rowCount: ended.rowCount });
    });
  }

  #copyIn(text: string, options: CopyFromOptions, feed: Parameters<typeof copyIn>[3]): Promise<ExecResult> {
    return this.run(text, options, async (call: Call<ExecResult>, session) => {
      const ended = await copyIn(call, session, text, feed);
      if (ended) call.succeed({ command: ended.command, rowCount: ended.rowCount });
    });
  }

  /**
   * Runs `COPY … TO STDOUT` and gives its data as a stream, in the format that the text names. Resolves at the first
   * data. A chunk holds whole rows; leaving the stream cancels the COPY.
   */
  async copyTo(text: QueryInput, options: CopyToOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const copy = copyText(text);
    const { limits } = outputForm(this.config, { ...options, onLimit: "error" });
    return this.run(
      copy,
      options,
      (call: Call<ReadableStream<Uint8Array>>, session) =>
        this.#feed(call, session, (sink) => copyOut(call, session, copy, limits, sink)),
      true,
    );
  }

  /**
   * The rows of a query as {@link rows} gives them, but read by binary COPY, which is less work for the server if there
   * are many. The query has no parameters, and each column needs a binary form (docs/types.md).
   */
  copyToRows<Row = Record<string, unknown>>(query: QueryInput, options: SimpleOptions = {}): Rows<Row> {
    return this.#rows<Row>(plainText(query), { ...options, onLimit: "error" }, copyRows);
  }

  /** All rows as bytes, in one piece: a JSON array unless `format` says otherwise. */
  async json(input: QueryInput, options: JsonOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const query = toQuery(input);
    const form = outputForm(this.config, { format: "json", ...options });
    let pieces: Uint8Array[] = [];
    const document = new ToonDocument();
    const sink = (): RowSink => {
      pieces = [];
      return form.standardToon
        ? toonSink(document, form)
        : { columns: columnCheck(form), rows: (view) => void pieces.push(view.slice()) };
    };
    return this.run(query.text, options, async (call: Call<Uint8Array<ArrayBuffer>>, session) => {
      const ended = await execute(call, session, query, form, sink);
      if (!ended) return;
      if (form.standardToon) return call.succeed(finished(document, form));
      call.succeed(joined(pieces));
    });
  }

  /**
   * The rows as bytes, as they arrive. Resolves at the first row, or at the end if there is none.
   *
   * A query that fails before its first row rejects the call. A query that fails later errors the stream. Only whole
   * rows leave. Until the stream is finished other calls of this client reject with `STREAM_OPEN`. Cancelling the
   * stream cancels the query.
   */
  stream(input: QueryInput, options: StreamOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#orClose(options, async () => {
      const stream = await this.#openStream(input, outputForm(this.config, options), options);
      return options.gzip ? compressed(stream) : stream;
    });
  }

  /**
   * {@link stream} as a `Response` with the format's content type.
   *
   * @example
   * return db.respond(sql`select * from users`, { signal: request.signal, maxRows: 1_000, closeWhenDone: true });
   */
  respond(input: QueryInput, options: RespondOptions = {}): Promise<Response> {
    return this.#orClose(options, () => this.#respond(input, options));
  }

  async #respond(input: QueryInput, options: RespondOptions): Promise<Response> {
    const form = outputForm(this.config, options);
    const headers = headersOf(options.headers);
    if (!headers.has("content-type")) headers.set("content-type", form.contentType);
    if (options.gzip) headers.set("content-encoding", "gzip");
    const { status = 200 } = options;
    // Response takes 200 to 599, and no body for three of them: it would throw when the query already runs.
    if (!Number.isInteger(status) || status < 200 || status > 599 || [204, 205, 304].includes(status)) {
      throw new UsageError("INVALID_OPTION", 'Option "status" must be one that has a body.');
    }
    // The runtime's own channel is the fastest body (workerd), and the only one that tells the old workerd's Worker
    // that its client has left; a reader in JavaScript would get it in other pieces and with untyped errors, so
    // `stream` does without.
    const body = await this.#openStream(input, form, options, runtime().responseBody?.());
    // "manual" is workerd's word for a body that is compressed already; others do not look at it.
    return new Response(options.gzip ? compressed(body) : body, {
      status,
      headers,
      ...(options.gzip && { encodeBody: "manual" }),
    });
  }

  // -- calls ----------------------------------------------------------------------------------------------------------

  /** How the call's rows become JavaScript values. */
  #values(options: QueryOptions): [form: ValueForm, mode: RowMode] {
    const { rowMode } = options;
    return [
      valueForm(this.config, options),
      rowMode === undefined ? "object" : oneOf("object", "array")(rowMode, "rowMode"),
    ];
  }

  /**
   * A call that was refused before it began closes too: whoever asked for `closeWhenDone` has no other place for it.
   */
  async #orClose<T>({ closeWhenDone }: StreamOptions, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      // Behind a stream that is open the client is somebody's.
      if (closeWhenDone && (error as PgzError).code !== "STREAM_OPEN") runtime().background(this.close());
      throw error;
    }
  }

  #openStream(
    input: QueryInput,
    form: Form,
    options: StreamOptions,
    channel?: ByteChannel,
  ): Promise<ReadableStream<Uint8Array>> {
    const query = toQuery(input);
    oneOf(true, false)(options.gzip ?? false, "gzip");
    if (options.gzip && typeof CompressionStream === "undefined") {
      throw new UsageError(
        "UNSUPPORTED_ON_RUNTIME",
        `${runtime().name} has no CompressionStream: leave out option "gzip".`,
      );
    }
    return this.run(
      query.text,
      options,
      (call: Call<ReadableStream<Uint8Array>>, session) => {
        const document = new ToonDocument();
        const delivery = options.gzip ? "blocks" : "prompt";
        const sinkOf = (sink: RowSink): RowSink =>
          form.standardToon ? toonSink(document, form) : { ...sink, columns: columnCheck(form), delivery };
        const run = (sink: RowSink) => execute(call, session, query, form, () => sinkOf(sink));
        return this.#feed(
          call,
          session,
          run,
          () => (form.standardToon ? finished(document, form) : undefined),
          channel,
        );
      },
      true,
    );
  }

  /** `rest`: what stands behind the rows. */
  async #feed(
    call: Call<ReadableStream<Uint8Array>>,
    session: Session,
    run: (sink: RowSink) => Promise<Operation | undefined>,
    rest?: () => Uint8Array | undefined,
    channel?: ByteChannel,
  ): Promise<void> {
    const { stats } = session.connection.core;
    const stream = resultStream(
      (reason) => call.interrupt((facts) => new AbortError(reason, facts)),
      (bytes) => void (stats.copiedBytes += bytes),
      channel,
    );
    call.onFailure = (error) => stream.fail(error);
    const sink: RowSink = {
      delivery: "prompt",
      rows: (view) => {
        stream.write(view);
        call.hand(stream.readable);
      },
      full: () => stream.full(),
    };
    if (!(await run(sink))) return;
    const behind = rest?.();
    if (behind) stream.write(behind);
    runtime().background(stream.end());
    call.succeed(stream.readable);
  }
}

/** For what returns rows that nobody wants. */
const NO_ROWS: RowSink = { rows: () => {} };

/** Columns as the form has them, else a UsageError. */
function columnCheck({ unique }: Form): RowSink["columns"] & {} {
  return (columns) => {
    if (unique) checkNames(columns);
  };
}

/** Checked before anything is sent: Response would throw its own error when the query already runs. */
function headersOf(given: HeadersInit | undefined): Headers {
  try {
    return new Headers(given);
  } catch (cause) {
    throw new UsageError("INVALID_OPTION", 'Option "headers" has a name or value that HTTP does not allow.', { cause });
  }
}

function toonSink(document: ToonDocument, form: Form): RowSink {
  return {
    columns: (columns) => {
      if (form.unique) checkNames(columns);
      const names = columns.map(({ name }) => name);
      document.columns(form.form & RENAME_DUPLICATES ? uniqueNames(names) : names);
    },
    rows: (view) => document.add(view),
  };
}

/** The core's cap has counted other bytes than these. */
function finished(document: ToonDocument, { limits: [, value] }: Form): Uint8Array<ArrayBuffer> {
  const bytes = document.finish();
  if (value && bytes.length > value) throw new ResponseTooLargeError({ limit: "bytes", value, observed: bytes.length });
  return bytes;
}

function compressed(stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  return (
    runtime().gzip?.(stream) ??
    stream.pipeThrough(new CompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>)
  );
}
