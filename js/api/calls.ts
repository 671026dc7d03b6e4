// The calls that a client and a transaction share: those of queries.ts, those whose rows stay bytes (in one piece, as a
// stream or as a Response), and COPY in both directions.
//
// Knows which form the bytes have and where they go. Must not know whose turn it is (turn-queue.ts), how the
// connection is made, nor when a transaction begins and ends.
import type { Operation, RowSink } from "../connection/operation.ts";
import { outputForm, type Form } from "../rows/form.ts";
import { AS_IT_IS, outputOf } from "../rows/output.ts";
import type { Rows } from "../rows/rows.ts";
import type { Call } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { runtime, type ByteChannel } from "../runtime/runtime.ts";
import { copyIn, copyOut, copyRows, leave, sendSource, type CopySource, type CopyTarget } from "../statement/copy.ts";
import { RowWriter, type CopyRow } from "../statement/copy-rows.ts";
import { copyText } from "../statement/copy-statement.ts";
import { inTransaction } from "../statement/own-transaction.ts";
import { Execution } from "../statement/execute.ts";
import { plainText, sql, type Query, type QueryInput, type RowInput } from "../statement/sql.ts";
import { joined, type OwnBytes } from "../util/bytes.ts";
import { UsageError, type PgzError } from "../util/errors.ts";
import type { CallSubject } from "../util/observer.ts";
import type {
  CopyFromOptions,
  CopyToOptions,
  ExecResult,
  JsonOptions,
  RespondOptions,
  SimpleOptions,
  StreamOptions,
} from "./options.ts";
import type { Body } from "./turn-queue.ts";
import { Queries, wireUseOf } from "./queries.ts";
import { refusal, waiting } from "./call-runner.ts";
import { checkGzip, compressed } from "./body.ts";
import { feed, responseInit } from "./streams.ts";

/** The calls that a `Client` and a `Transaction` share. Every call may reject with a `PgzError` (docs/errors.md). */
export abstract class Calls extends Queries {
  /**
   * All rows as bytes, in one piece: a JSON array unless `format` says otherwise.
   *
   * @example
   * await cache.put("users", await client.json("select * from users"));
   */
  json(input: QueryInput, options: JsonOptions = {}): Promise<OwnBytes> {
    try {
      const query = this.asQuery(input, options);
      const form = outputForm(this.config, { format: "json", ...options });
      const output = outputOf(form);
      let pieces: Uint8Array[] = [];
      const rows = output.rows((view) => void pieces.push(view.slice()));
      const newSink = (): RowSink => {
        pieces = [];
        return { columns: output.columns, rows };
      };
      const join: Body<OwnBytes> = (call, session, ending) => {
        const ended = (operation: Operation) => {
          const behind = output.rest(operation);
          call.succeed(joined(behind ? [...pieces, behind] : pieces));
        };
        new Execution(call, session, { query, form, newSink, ended }, ending).begin();
      };
      return this.run(query, options, join, wireUseOf(query));
    } catch (error) {
      return refusal(error);
    }
  }

  /**
   * The rows as bytes, as they arrive. Resolves at the first row, or at the end if there is none.
   *
   * A query that fails before its first row rejects the call. A query that fails later errors the stream. The stream
   * contains only whole rows. Until it is finished, other calls of this client reject with `STREAM_OPEN`. Cancelling
   * the stream cancels the query.
   *
   * @example
   * const body = await client.stream(sql`select * from log where day = ${day}`, { format: "csv", gzip: true });
   */
  async stream(input: QueryInput, options: StreamOptions = {}): Promise<ReadableStream<Uint8Array>> {
    try {
      const query = this.asQuery(input, options);
      const stream = await this.#open(query, outputForm(this.config, options), options);
      return options.gzip ? compressed(stream) : stream;
    } catch (error) {
      throw this.#refused(options, error);
    }
  }

  /**
   * {@link stream} as a `Response` with the format's content type.
   *
   * @example
   * return await db.respond(sql`select * from users`, { signal: request.signal, maxRows: 1_000, closeWhenDone: true });
   */
  async respond(input: QueryInput, options: RespondOptions = {}): Promise<Response> {
    try {
      const query = this.asQuery(input, options);
      const form = outputForm(this.config, options);
      const init = responseInit(options, form.contentType);
      // The runtime's own channel is the fastest body (workerd), and in an old workerd only this channel tells the
      // Worker that its client has left. `stream` does not use it: a reader in JavaScript would get other pieces, and
      // untyped errors.
      const { responseBody } = runtime();
      const rows = await this.#open(query, form, options, options.gzip ? undefined : responseBody);
      return new Response(options.gzip ? compressed(rows, responseBody?.()) : rows, init);
    } catch (error) {
      throw this.#refused(options, error);
    }
  }

  // -- COPY -----------------------------------------------------------------------------------------------------------

  /**
   * Runs `COPY … FROM STDIN` with the data of `source`, in the format that the text names (docs/copy.md).
   *
   * The source is asked for more once the socket has taken its last piece. Either everything is stored or nothing. An
   * error of the server stops the source at once, and its `where` names the line. If the source throws, the call
   * rejects with `COPY_SOURCE_FAILED`.
   *
   * @example
   * await client.copyFrom("copy users (id, name) from stdin (format csv)", request.body!);
   */
  async copyFrom(text: QueryInput, source: CopySource, options: CopyFromOptions = {}): Promise<ExecResult> {
    let begun = false;
    const send = (target: CopyTarget) => {
      begun = true;
      return sendSource(target, source, options.onProgress);
    };
    try {
      return await this.#copyIn(copyText(text), options, send);
    } catch (error) {
      if (!begun) leave(source, error);
      throw error;
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
    let begun = false;
    try {
      return await this.#copyRowsIn(table, columns, rows, options, () => (begun = true));
    } catch (error) {
      if (!begun) leave(rows, error);
      throw error;
    }
  }

  async #copyRowsIn(
    table: QueryInput,
    columns: readonly string[],
    rows: Iterable<CopyRow> | AsyncIterable<CopyRow>,
    options: CopyFromOptions,
    onBegin: () => void,
  ): Promise<ExecResult> {
    const into = typeof table === "string" ? sql.identifier(table).text : plainText(table);
    if (!Array.isArray(columns) || !columns.length)
      throw new UsageError("INVALID_QUERY", 'copyFromRows takes the columns as an array of names, such as ["id"].');
    if (!isIterable(rows))
      throw new UsageError(
        "INVALID_OPTION",
        "copyFromRows takes an array or iterable of rows: put a single row in an array, and await a promise.",
      );
    const list = sql.join(columns.map((name: string) => sql.identifier(name))).text;
    const subject = { text: `copy ${into} (${list}) from stdin`, kind: "copy" as const, isRewritten: true };
    // In one transaction: the data of COPY name no types, so they are for the columns that were described.
    const body = async (call: Call<ExecResult>, session: Session): Promise<void> => {
      const ended = await inTransaction(call, session, async (isOwn) => {
        const shape = await session.statements.learn(call, `select ${list} from ${into}`);
        if (!shape) return undefined;
        const { integerDatetimes } = session.connection;
        const writer = new RowWriter(shape.columns, columns, shape.types, integerDatetimes, this.config.serialize);
        const text = `copy ${into} (${list}) from stdin (format ${writer.format})`;
        const feed = (target: CopyTarget) => {
          onBegin();
          return writer.send(target, rows, options.onProgress);
        };
        return await copyIn(call, session, text, feed, isOwn);
      });
      if (ended) call.succeed({ command: ended.command, rowCount: ended.rowCount });
    };
    return await this.run(subject, options, waiting(body));
  }

  async #copyIn(text: string, options: CopyFromOptions, feed: Parameters<typeof copyIn>[3]): Promise<ExecResult> {
    const body = async (call: Call<ExecResult>, session: Session) => {
      const ended = await copyIn(call, session, text, feed);
      if (ended) call.succeed({ command: ended.command, rowCount: ended.rowCount });
    };
    return await this.run({ text, kind: "copy" }, options, waiting(body));
  }

  /**
   * Runs `COPY … TO STDOUT` and returns its data as a stream, in the format that the text names. Resolves at the first
   * data. A chunk holds whole rows. Cancelling the stream cancels the COPY.
   *
   * @example
   * await Deno.writeFile("users.csv", await client.copyTo("copy users to stdout (format csv, header)"));
   */
  async copyTo(text: QueryInput, options: CopyToOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const copy = copyText(text);
    const { limits } = outputForm(this.config, { ...options, onLimit: "error" });
    const body = async (call: Call<ReadableStream<Uint8Array>>, session: Session) => {
      const { sink, ended } = feed(call, session, AS_IT_IS, "prompt");
      const operation = await copyOut(call, session, copy, limits, sink);
      if (operation) ended(operation);
    };
    return await this.#streaming({ text: copy, kind: "copy" }, options, waiting(body));
  }

  /**
   * The rows of a query as {@link rows} gives them, but read by binary COPY, which is less work for the server if there
   * are many rows. The query has no parameters, and each column needs a binary form (docs/types.md).
   *
   * @example
   * for await (const row of client.copyToRows("select * from log")) console.log(row);
   */
  copyToRows<Row = Record<string, unknown>>(query: RowInput<Row>, options: SimpleOptions = {}): Rows<Row> {
    const text = plainText(query);
    const subject = { text, kind: "copy" as const, isRewritten: true };
    return this.loop<Row>(subject, { ...options, onLimit: "error" }, (call, session, { form, sink, ended }, ending) => {
      const body = async () => {
        const operation = await copyRows(call, session, text, form, sink);
        if (operation) ended(operation);
      };
      waiting<void>(body)(call, session, ending);
    });
  }

  // -- streams --------------------------------------------------------------------------------------------------------

  /**
   * Called with the error of a call that gives no stream. Closes the client too: a caller that sets `closeWhenDone`
   * does not close it anywhere else.
   */
  #refused(options: StreamOptions | null, error: unknown): unknown {
    // While another stream is open, its reader still uses the client.
    if (options?.closeWhenDone && (error as PgzError).code !== "STREAM_OPEN") runtime().background(this.close());
    return error;
  }

  #open(
    query: Query,
    form: Form,
    options: StreamOptions,
    makeChannel?: () => ByteChannel,
  ): Promise<ReadableStream<Uint8Array>> {
    checkGzip(options);
    const delivery = options.gzip ? "blocks" : "prompt";
    return this.#streaming(query, options, (call, session, ending) => {
      // Made for each attempt: a call whose session had ended before it began is run again.
      const { sink, ended } = feed(call, session, outputOf(form), delivery, makeChannel?.());
      new Execution(call, session, { query, form, newSink: () => sink, ended }, ending).begin();
    });
  }

  async #streaming(
    subject: CallSubject,
    options: StreamOptions,
    body: Body<ReadableStream<Uint8Array>>,
  ): Promise<ReadableStream<Uint8Array>> {
    let opened: Call<ReadableStream<Uint8Array>> | undefined;
    const noting: typeof body = (call, session, ending) => body((opened = call), session, ending);
    const stream = await this.run(subject, options, noting, "stream");
    // The stream continues, and may fail after the caller's await has ended.
    if (!opened!.finished) opened!.trace ??= new Error();
    return stream;
  }
}

/** A text is one too, but none of rows. */
function isIterable(rows: unknown): boolean {
  return typeof rows === "object" && rows !== null && (Symbol.iterator in rows || Symbol.asyncIterator in rows);
}
