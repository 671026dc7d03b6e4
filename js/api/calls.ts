// What a user may call on a client and on a transaction alike: queries, batches, COPY, and what becomes of their rows.
//
// Knows forms of results and which part of core/ makes them. Must not know whose turn it is (queue.ts), how the connection is made, nor when a
// transaction begins and ends.
import { oneOf } from "../config/config.ts";
import { AbortError, PgzError, ResponseTooLargeError, UsageError } from "../util/errors.ts";
import { COPY_NONE, RENAME_DUPLICATES, ROWS_NONE, type Column } from "../wasm/boundary.ts";
import { runBatch, type BatchItem } from "../statement/batch.ts";
import { joined } from "../util/bytes.ts";
import type { Call } from "../session/call.ts";
import { Collector, decoderOf } from "../rows/collect.ts";
import type { Connection } from "../connection/connection.ts";
import { copyIn, copyOut, copyRows, leave, sendSource, type CopyProgress, type CopySource, type CopyTarget } from "../statement/copy.ts";
import { rowWriter, type CopyRow } from "../statement/copy-rows.ts";
import { newCursor, type Cursor } from "../statement/cursor.ts";
import { outputForm, uniqueNames, valueForm, type Form, type FormatOptions, type RowOptions, type ValueForm, type ValueOptions } from "../rows/form.ts";
import type { RowDecoder, RowMode } from "../values/objects.ts";
import type { Operation, Sink, Truncation } from "../connection/operation.ts";
import { resultStream } from "../rows/result-stream.ts";
import { runtime, type ByteChannel } from "../sockets/runtime.ts";
import { ToonDocument } from "../rows/toon.ts";
import { RowQueue, Rows } from "../rows/rows.ts";
import { begun, describe, execute, isStale, knowsNames, learnHere, shapesOf } from "../statement/statement.ts";
import { Prepared } from "./prepared.ts";
import { Queue, type CallOptions, type KnownOption } from "./queue.ts";
import { plainText, sql, toQuery, type Query, type QueryInput } from "../statement/sql.ts";

export interface QueryOptions extends CallOptions, ValueOptions {
  /** `"array"`: a row is its values in the order of `fields`. */
  readonly rowMode?: "object" | "array" | undefined;
}

export type SimpleOptions = Omit<QueryOptions, "onLimit">;

export interface JsonOptions extends CallOptions, FormatOptions {}

export interface StreamOptions extends CallOptions, FormatOptions {
  /**
   * Compresses the output (`CompressionStream`). It holds rows back until its window is full, so rows of a slow query no longer arrive
   * by `flushInterval`. `respond` says so in `content-encoding`. Default false.
   */
  readonly gzip?: boolean | undefined;
  /** Closes the client when the stream has ended, failed or been left. */
  readonly closeWhenDone?: boolean | undefined;
}

export interface RespondOptions extends StreamOptions {
  readonly headers?: HeadersInit | undefined;
  readonly status?: number | undefined;
}

export interface ExecResult {
  /** The command tag's words, such as `"INSERT"`. */
  readonly command: string;
  /** Rows returned or changed; `null` where the command has no count. */
  readonly rowCount: number | null;
}

export interface QueryResult<Row> extends ExecResult {
  readonly rows: Row[];
  readonly fields: readonly Column[];
  /** With `onLimit: "truncate"`: rows are missing. */
  readonly truncated?: Truncation;
}

/** One item of a batch with `results: "ndjson"`. */
export interface EncodedResult extends ExecResult {
  /** Its rows, a line each. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly fields: readonly Column[];
}

/** By the option `results`. */
export type BatchResult<Row> = QueryResult<Row> | ExecResult | EncodedResult;

export interface BatchOptions extends SimpleOptions {
  /**
   * `true`: one transaction, unless there is one already: the first error undoes what ran before it and skips the rest. `false`: each item stands
   * alone, in its order, and settles alone. Default true.
   */
  readonly atomic?: boolean | undefined;
  /** What is made of the items' rows: values, lines of JSON, or nothing but counts, which is fastest. Default `"rows"`. */
  readonly results?: "rows" | "count" | "ndjson" | undefined;
}

/** No call has an option that would be refused as unknown: this does not compile then. */
type Refused<Name extends KnownOption> = Name;
export type AllOptions = Refused<keyof (QueryOptions & JsonOptions & RespondOptions & BatchOptions & CopyFromOptions & CopyToOptions)>;

type Atomic<Results> = BatchOptions & { readonly atomic?: true | undefined; readonly results: Results };
type Isolated<Results> = BatchOptions & { readonly atomic: false; readonly results: Results };

export interface CopyFromOptions extends CallOptions {
  /** Told of each piece of data that leaves, of 64 KiB or so. What it throws ends the COPY. */
  readonly onProgress?: ((progress: CopyProgress) => void) | undefined;
}

export interface CopyToOptions extends CallOptions, Pick<RowOptions, "maxRows" | "maxBytes"> {}

export interface Description {
  /** Type OIDs of `$1`, `$2` … */
  readonly parameterTypes: readonly number[];
  /** Empty for a statement that returns no rows. */
  readonly fields: readonly Column[];
}

/** COPY whose data travel by this connection. */
const COPIES = /^(?:\s|--.*\n|\/\*[^]*?\*\/)*copy\b[^]*\b(stdin|stdout)\b/i;

/** Anything else would run before it turned out to be something else. */
function copyText(input: QueryInput): string {
  const text = plainText(input);
  if (COPIES.test(text)) return text;
  throw new UsageError("COPY_NEEDS_COPY_CALL", "This call needs the text of a COPY … FROM STDIN or COPY … TO STDOUT statement.");
}

export abstract class Calls extends Queue {
  /** All rows at once. Also a tag: client.query\`select ${1}\`. */
  query<Row = Record<string, unknown>>(query: QueryInput, options?: QueryOptions): Promise<QueryResult<Row>>;
  query<Row = Record<string, unknown>>(query: TemplateStringsArray, ...values: unknown[]): Promise<QueryResult<Row>>;
  async query<Row>(input: QueryInput | TemplateStringsArray, ...rest: unknown[]): Promise<QueryResult<Row>> {
    const query = toQuery(input, ...rest);
    const options = ((!Array.isArray(input) && rest[0]) || {}) as QueryOptions;
    const [form, mode] = this.#values(options);
    const rows = new Collector<Row>(form, mode);
    return await this.run(query.text, options, async (call: Call<QueryResult<Row>>, connection) => {
      const ended = await execute(call, connection, query, form, () => rows.sink);
      if (!ended) return;
      const { rowCount, command, truncated } = ended;
      const result = { rows: rows.take(), rowCount, command, fields: rows.fields };
      call.succeed(truncated ? { ...result, truncated } : result);
    });
  }

  /**
   * Rows one by one, `for await (const row of client.rows(…))`, or in arrays, `client.rows(…).batches(1_000)`, in the memory of one batch
   * however many there are. The query runs when a loop begins, waits on the server while the loop is busy, and ends there when the loop is
   * left. Other calls reject (`STREAM_OPEN`) until then. Also a tag.
   */
  rows<Row = Record<string, unknown>>(query: QueryInput, options?: QueryOptions): Rows<Row>;
  rows<Row = Record<string, unknown>>(query: TemplateStringsArray, ...values: unknown[]): Rows<Row>;
  rows<Row>(input: QueryInput | TemplateStringsArray, ...rest: unknown[]): Rows<Row> {
    const query = toQuery(input, ...rest);
    const options = ((!Array.isArray(input) && rest[0]) || {}) as QueryOptions;
    return this.#rows<Row>(query.text, options, (call, connection, _, form, sink) => execute(call, connection, query, form, () => sink));
  }

  #rows<Row>(text: string, options: QueryOptions, run: (call: Call<void>, connection: Connection, text: string, form: ValueForm, sink: Sink) => Promise<Operation | undefined>): Rows<Row> {
    const [form, mode] = this.#values(options);
    return new Rows((rows, size) => {
      const queue = new RowQueue<Row>(size);
      const leaving = new AbortController();
      let decode: RowDecoder | undefined;
      const sink: Sink = {
        streams: true,
        unique: form.unique,
        columns: (given) => {
          rows.fields = given;
          decode = decoderOf(given, form, mode);
        },
        rows: (view) => queue.write(decode!(view) as Row[]),
        full: () => queue.full(),
      };
      const running = this.run(text, { ...options, leaving: leaving.signal }, async (call: Call<void>, connection) => {
        const ended = await run(call, connection, text, form, sink);
        if (!ended) return;
        ({ command: rows.command, rowCount: rows.rowCount, truncated: rows.truncated } = ended);
        call.succeed();
      }, true);
      running.then(() => queue.end(), (error: PgzError) => queue.fail(error));
      return { queue, leave: () => leaving.abort() };
    });
  }

  /** Runs a statement for its effect: rows that it returns are counted by the server and dropped. */
  async exec(input: QueryInput, options: CallOptions & Pick<RowOptions, "maxRows"> = {}): Promise<ExecResult> {
    const query = toQuery(input);
    const counted: Form = { ...valueForm(this.config, { ...options, onLimit: "error" }), form: ROWS_NONE };
    return await this.run(query.text, options, async (call: Call<ExecResult>, connection) => {
      const ended = await execute(call, connection, query, counted, () => ({}));
      if (ended) call.succeed({ command: ended.command, rowCount: ended.rowCount });
    });
  }

  /**
   * Any number of statements in one text by the simple query protocol, without parameters; one result for each. The limits count over
   * all of them. Values that PostgreSQL writes otherwise as text, such as arrays and times, stay the server's text.
   *
   * Several statements are one transaction unless the text says otherwise, so an error rolls back those before; its `completed` names them.
   */
  async simple<Row = Record<string, unknown>>(text: QueryInput, options: SimpleOptions = {}): Promise<QueryResult<Row>[]> {
    const query = toQuery(text);
    if (query.values.length) throw new UsageError("INVALID_QUERY", "The simple query protocol has no parameters: use query.");
    const [form, mode] = this.#values({ ...options, onLimit: "error" });
    const results: QueryResult<Row>[] = [];
    const rows = new Collector<Row>(form, mode, (command, rowCount) => {
      results.push({ rows: rows.take(), rowCount, command, fields: rows.fields });
      rows.fields = [];
    });
    return this.run(query.text, options, async (call: Call<QueryResult<Row>[]>, connection) => {
      if (!(await knowsNames(call, connection, form.policy)) || !(await begun(call, connection))) return;
      call.onFailure = (error) => Object.assign(error, { completed: results.map(({ command }) => command) });
      const operation = call.operate(connection, (handle) => handle.simple_query(query.text, COPY_NONE, form.form, form.limits), rows.sink);
      await operation.done;
      if (operation.error) throw operation.error;
      call.succeed(results);
    });
  }

  /**
   * The rows in batches of `size`, each asked of the server when the one before is done with: memory for one batch, on both sides. Outside
   * a transaction the cursor has its own, committed at the end. Leaving the loop early, or an error, closes the portal and rolls that one
   * back. A statement that no transaction may hold (`VACUUM`) has no cursor. Begins with the first `next()`; until its end other calls reject (`STREAM_OPEN`), and limits, `timeout` and `signal` hold for all of it.
   */
  cursor<Row = Record<string, unknown>>(input: QueryInput, size: number, options: SimpleOptions = {}): AsyncGenerator<Row[], void, undefined> {
    const query = toQuery(input);
    if (!Number.isInteger(size) || size < 1 || size > 0x7fffffff) throw new UsageError("INVALID_OPTION", "A cursor's size must be a whole number from 1 to 2147483647.");
    const [form, mode] = this.#values({ ...options, onLimit: "error" });
    const rows = new Collector<Row>(form, mode);
    return this.#batches(query, form, rows, size, options);
  }

  async *#batches<Row>(query: Query, form: Form, rows: Collector<Row>, size: number, options: CallOptions): AsyncGenerator<Row[], void, undefined> {
    const opening = (call: Call<Cursor<Row>>, connection: Connection) => {
      const cursor = newCursor(call, connection, rows);
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
   * Many statements in one pipeline, with one wait for all: a result for each, in their order. Statements of equal text are parsed once, under a name.
   *
   * All of them are described before the first runs, so none can use a table that another creates. Nothing is sent when a value of any cannot be.
   * An error of an atomic batch says in its `batch` (see `BatchFailure`) which item failed, which ones it undid, and which it skipped.
   */
  batch<Row = Record<string, unknown>>(queries: readonly QueryInput[], options?: BatchOptions & { readonly atomic?: true | undefined; readonly results?: "rows" | undefined }): Promise<QueryResult<Row>[]>;
  batch(queries: readonly QueryInput[], options: Atomic<"count">): Promise<ExecResult[]>;
  batch(queries: readonly QueryInput[], options: Atomic<"ndjson">): Promise<EncodedResult[]>;
  batch<Row = Record<string, unknown>>(queries: readonly QueryInput[], options: BatchOptions & { readonly atomic: false; readonly results?: "rows" | undefined }): Promise<PromiseSettledResult<QueryResult<Row>>[]>;
  batch(queries: readonly QueryInput[], options: Isolated<"count">): Promise<PromiseSettledResult<ExecResult>[]>;
  batch(queries: readonly QueryInput[], options: Isolated<"ndjson">): Promise<PromiseSettledResult<EncodedResult>[]>;
  /** Where `atomic` or `results` is known at run time only. */
  batch<Row = Record<string, unknown>>(queries: readonly QueryInput[], options: BatchOptions): Promise<(BatchResult<Row> | PromiseSettledResult<BatchResult<Row>>)[]>;
  async batch(queries: readonly QueryInput[], options: BatchOptions = {}): Promise<unknown[]> {
    if (!Array.isArray(queries)) throw new UsageError("INVALID_QUERY", "batch needs an array of queries.");
    const { atomic = true, results = "rows" } = options;
    oneOf(true, false)(atomic, "atomic");
    const items = queries.map((query: QueryInput) => toQuery(query));
    if (items.some(({ text }) => COPIES.test(text))) throw new UsageError("COPY_NEEDS_COPY_CALL", "COPY with data cannot be part of a batch: use copyFrom or copyTo.");
    const [values, mode] = this.#values({ ...options, onLimit: "error" });
    const output = { rows: values, count: { ...values, form: ROWS_NONE }, ndjson: { ...values, form: outputForm(this.config, { ...options, format: "ndjson" }).form } };
    const form = output[oneOf("rows", "count", "ndjson")(results, "results") as keyof typeof output];
    if (!items.length) return [];
    const text = `/* batch of ${items.length} */ ${items[0]!.text}`;
    const settled = await this.run(text, options, (call: Call<PromiseSettledResult<BatchItem<unknown>>[]>, connection) => runBatch(call, connection, items, { atomic, form, mode }));
    return atomic ? settled.map((item) => (item as PromiseFulfilledResult<unknown>).value) : settled;
  }

  /**
   * A statement that is to be run again and again, as an object: the server parses it now, under a name, and tells its types. The name is one of
   * `statementCacheSize`: if others push it out, the next run parses it again.
   */
  async prepare<Row = Record<string, unknown>>(input: QueryInput, options: CallOptions = {}): Promise<Prepared<Row>> {
    const { text, values } = toQuery(input);
    if (values.length) throw new UsageError("INVALID_QUERY", "prepare needs a text with $1, $2 …: pass the values to query() or exec().");
    return this.run(text, options, async (call: Call<Prepared<Row>>, connection) => {
      const learn = async () => (await shapesOf(call, connection, [text], true))?.found.get(text);
      let shape = await learn();
      // Its name was lost; the second time there is none.
      if (isStale(shape) && connection.transactionStatus === "I") shape = await learn();
      if (shape instanceof PgzError) throw shape;
      if (shape) call.succeed(new Prepared<Row>(text, { parameterTypes: [...shape.parameterTypes], fields: shape.columns }, this, () => connection.forget(shape.id)));
    });
  }

  /** Notifies all that listen to the channel, when the transaction commits. At most 7999 bytes of payload. */
  notify(channel: string, payload = "", options: CallOptions = {}): Promise<ExecResult> {
    return this.exec(sql`select pg_catalog.pg_notify(${channel}, ${payload})`, options);
  }

  /** Parameter types and columns of a statement, which is not run. What is known already is not asked again. */
  async describe(input: QueryInput, options: CallOptions = {}): Promise<Description> {
    const { text } = toQuery(input);
    return this.run(text, options, async (call: Call<Description>, connection) => {
      const shape = await describe(call, connection, text);
      if (shape) call.succeed({ parameterTypes: [...shape.parameterTypes], fields: shape.columns });
    });
  }

  /**
   * `COPY … FROM STDIN` of data in whatever format its text says: text, bytes, a Blob, a stream or pieces of these. The source is asked for more as
   * the server takes it; all is stored or nothing. An error of the server's stops the source at once, its `where` names the line; one of the
   * source's ends the COPY (`COPY_SOURCE_FAILED`).
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
   * Rows of values into these columns of a table, in binary where all of their types have a binary form here. Rows are arrays, or objects with the
   * columns' names. A value that its column cannot hold ends the COPY with what is wrong and `row`, its number from 0.
   */
  async copyFromRows(table: QueryInput, columns: readonly string[], rows: Iterable<CopyRow> | AsyncIterable<CopyRow>, options: CopyFromOptions = {}): Promise<ExecResult> {
    const into = typeof table === "string" ? sql.identifier(table).text : plainText(table);
    if (!Array.isArray(columns) || !columns.length) throw new UsageError("INVALID_QUERY", "copyFromRows needs at least one column name.");
    const list = sql.join(columns.map((name: string) => sql.identifier(name))).text;
    return this.run(`copy ${into} (${list}) from stdin`, options, async (call: Call<ExecResult>, connection) => {
      const shape = await learnHere(call, connection, `select ${list} from ${into}`);
      if (!shape) return;
      const writer = rowWriter(shape.columns, columns, shape.types);
      const ended = await copyIn(call, connection, `copy ${into} (${list}) from stdin (format ${writer.format})`, (target) => writer.send(target, rows, options.onProgress));
      if (ended) call.succeed({ command: ended.command, rowCount: ended.rowCount });
    });
  }

  #copyIn(text: string, options: CopyFromOptions, feed: Parameters<typeof copyIn>[3]): Promise<ExecResult> {
    return this.run(text, options, async (call: Call<ExecResult>, connection) => {
      const ended = await copyIn(call, connection, text, feed);
      if (ended) call.succeed({ command: ended.command, rowCount: ended.rowCount });
    });
  }

  /** `COPY … TO STDOUT` in whatever format its text says, as {@link stream} gives rows: from the first data on, whole rows per chunk, with limits that count them. */
  async copyTo(text: QueryInput, options: CopyToOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const copy = copyText(text);
    const { limits } = outputForm(this.config, { ...options, onLimit: "error" });
    return this.run(copy, options, (call: Call<ReadableStream<Uint8Array>>, connection) => this.#feed(call, connection, (sink) => copyOut(call, connection, copy, limits, sink)), true);
  }

  /** The rows of a query without parameters by COPY in binary, as {@link rows} gives them: less work for the server where there are many. */
  copyToRows<Row = Record<string, unknown>>(query: QueryInput, options: SimpleOptions = {}): Rows<Row> {
    return this.#rows<Row>(plainText(query), { ...options, onLimit: "error" }, copyRows);
  }

  /** All rows as bytes, in one piece: one JSON array, or another `format`. */
  async json(input: QueryInput, options: JsonOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const query = toQuery(input);
    const form = outputForm(this.config, { format: "json", ...options });
    let pieces: Uint8Array[] = [];
    const document = new ToonDocument();
    const sink = (): Sink => {
      pieces = [];
      return form.standardToon ? toonSink(document, form) : { unique: form.unique, rows: (view) => void pieces.push(view.slice()) };
    };
    return this.run(query.text, options, async (call: Call<Uint8Array<ArrayBuffer>>, connection) => {
      const ended = await execute(call, connection, query, form, sink);
      if (!ended) return;
      if (form.standardToon) return call.succeed(finished(document, form));
      call.succeed(joined(pieces));
    });
  }

  /**
   * The rows as bytes, as they arrive. Resolves at the first row or at the end: a query that fails before has written nothing.
   * One that fails later errors the stream; only whole rows ever leave. Other calls reject (`STREAM_OPEN`) until it is finished.
   */
  stream(input: QueryInput, options: StreamOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#orClose(options, async () => {
      const stream = await this.#openStream(input, outputForm(this.config, options), options);
      return options.gzip ? compressed(stream) : stream;
    });
  }

  /** {@link stream} as a Response with the format's content type. */
  respond(input: QueryInput, options: RespondOptions = {}): Promise<Response> {
    return this.#orClose(options, () => this.#respond(input, options));
  }

  async #respond(input: QueryInput, options: RespondOptions): Promise<Response> {
    const form = outputForm(this.config, options);
    const headers = new Headers(options.headers);
    if (!headers.has("content-type")) headers.set("content-type", form.contentType);
    if (options.gzip) headers.set("content-encoding", "gzip");
    const { status = 200 } = options;
    // Response takes 200 to 599, and no body for three of them: it would throw when the query already runs.
    if (!(status >= 200 && status < 600) || [204, 205, 304].includes(status)) {
      throw new UsageError("INVALID_OPTION", 'Option "status" must be one that has a body.');
    }
    // The runtime's own channel is the fastest body (workerd), and the only one that tells the old workerd's Worker that its client
    // has left; a reader in JavaScript would get it in other pieces and with untyped errors, so `stream` does without.
    const body = await this.#openStream(input, form, options, runtime().responseBody?.());
    // "manual" is workerd's word for a body that is compressed already; others do not look at it.
    return new Response(options.gzip ? compressed(body) : body, { status, headers, ...(options.gzip && { encodeBody: "manual" }) });
  }

  // -- calls -------------------------------------------------------------------------------------------------------------

  /** How the call's rows become JavaScript values. */
  #values(options: QueryOptions): [form: ValueForm, mode: RowMode] {
    const { rowMode } = options;
    return [valueForm(this.config, options), rowMode === undefined ? "object" : oneOf("object", "array")(rowMode, "rowMode")];
  }

  /** A call that was refused before it began closes too: whoever asked for `closeWhenDone` has no other place for it. */
  async #orClose<T>({ closeWhenDone }: StreamOptions, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      // Behind a stream that is open the client is somebody's.
      if (closeWhenDone && (error as PgzError).code !== "STREAM_OPEN") runtime().background(this.close());
      throw error;
    }
  }

  #openStream(input: QueryInput, form: Form, options: StreamOptions, channel?: ByteChannel): Promise<ReadableStream<Uint8Array>> {
    const query = toQuery(input);
    oneOf(true, false)(options.gzip ?? false, "gzip");
    if (options.gzip && typeof CompressionStream === "undefined") {
      throw new UsageError("UNSUPPORTED_ON_RUNTIME", `${runtime().name} has no CompressionStream: leave out option "gzip".`);
    }
    return this.run(query.text, options, (call: Call<ReadableStream<Uint8Array>>, connection) => {
      const document = new ToonDocument();
      const run = (sink: Sink) => execute(call, connection, query, form, () => (form.standardToon ? toonSink(document, form) : { ...sink, unique: form.unique, unhurried: options.gzip ?? false }));
      return this.#feed(call, connection, run, () => (form.standardToon ? finished(document, form) : undefined), channel);
    }, true);
  }

  /** `rest`: what stands behind the rows. */
  async #feed(
    call: Call<ReadableStream<Uint8Array>>, connection: Connection, run: (sink: Sink) => Promise<Operation | undefined>, rest?: () => Uint8Array | undefined, channel?: ByteChannel,
  ): Promise<void> {
    const { stats } = connection.core;
    const stream = resultStream(
      (reason) => call.interrupt((facts) => new AbortError(reason, facts)),
      (bytes) => void (stats.copiedBytes += bytes),
      channel,
    );
    call.onFailure = (error) => stream.fail(error);
    const sink: Sink = {
      streams: true,
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

function toonSink(document: ToonDocument, { form, unique }: Form): Sink {
  return {
    unique,
    columns: (columns) => {
      const names = columns.map(({ name }) => name);
      document.columns(form & RENAME_DUPLICATES ? uniqueNames(names) : names);
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
  return runtime().gzip?.(stream) ?? stream.pipeThrough(new CompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>);
}
