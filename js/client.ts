// The public client: what a user types, one queue in front of one connection.
//
// Knows options, calls and results. Must not know sockets, wasm or messages. A client never reconnects: what it knows of its
// session (transactions, settings) would silently be gone. One that is broken rejects each call at once; make a new one.
import { callOption, oneOf, resolveConfig, type Config, type ConnectInput, type Options } from "./config.ts";
import { AbortError, UsageError, type PgzError } from "./errors.ts";
import { RENAME_DUPLICATES, ROWS_NONE, type BoundaryStats, type Column } from "./core/boundary.ts";
import { Call } from "./core/call.ts";
import { within, type Connection } from "./core/connection.ts";
import { outputForm, uniqueNames, valueForm, type Form, type FormatOptions, type RowOptions, type ValueForm, type ValueOptions } from "./core/form.ts";
import { rowDecoder, type RowDecoder, type RowMode } from "./core/objects.ts";
import type { Sink, Truncation } from "./core/operation.ts";
import { resultStream } from "./core/result-stream.ts";
import { runtime, type ByteChannel } from "./core/runtime.ts";
import { openConnection } from "./core/startup.ts";
import { RowQueue, Rows } from "./core/rows.ts";
import { execute } from "./core/statement.ts";
import { connectionLost } from "./sockets/contract.ts";
import { toQuery, type Query, type QueryInput } from "./sql.ts";

export interface CallOptions {
  /** Ends the call, and the query on the server, when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the whole call: waiting, connecting, and reading a stream to its end. 0: none. Default: the client's. */
  readonly timeout?: number | undefined;
}

export interface QueryOptions extends CallOptions, ValueOptions {
  /** `"array"`: a row is its values in the order of `fields`. */
  readonly rowMode?: "object" | "array" | undefined;
}

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

// Node before 18.18 and old engines lack the symbol; compilers of `await using` fall back to this one.
const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

export class Client {
  readonly #config: Config;
  /** Settles when the call before has left the connection. */
  #turn: Promise<unknown> = Promise.resolve();
  #opening: Promise<Connection> | undefined;
  #connection: Connection | undefined;
  #giveUp: AbortController | undefined;
  #closing: Promise<void> | undefined;
  #closed: PgzError | undefined;
  /** The stream that its consumer has to finish before another call can run. */
  #stream: { readonly finished: boolean } | undefined;

  /** @internal Use {@link createClient} or {@link connect}. */
  constructor(config: Config) {
    this.#config = config;
  }

  /** All rows at once. Also a tag: client.query\`select ${1}\`. */
  query<Row = Record<string, unknown>>(query: QueryInput, options?: QueryOptions): Promise<QueryResult<Row>>;
  query<Row = Record<string, unknown>>(query: TemplateStringsArray, ...values: unknown[]): Promise<QueryResult<Row>>;
  async query<Row>(input: QueryInput | TemplateStringsArray, ...rest: unknown[]): Promise<QueryResult<Row>> {
    const query = toQuery(input, ...rest);
    const options = ((!Array.isArray(input) && rest[0]) || {}) as QueryOptions;
    const mode = oneOf("object", "array")(options.rowMode ?? "object", "rowMode");
    const form = valueForm(this.#config, options);
    let batches: Row[][] = [];
    let fields: readonly Column[] = [];
    let decode: RowDecoder | undefined;
    const sink = (): Sink => ({
      unique: form.unique,
      columns: (given) => {
        fields = given;
        decode = decoderOf(given, form, mode);
        batches = [];
      },
      rows: (view) => {
        const batch = decode!(view) as Row[];
        batches.push(batch);
      },
    });
    return this.#run(options, async (call: Call<QueryResult<Row>>, connection) => {
      const ended = await execute(call, connection, query, form, sink);
      if (!ended) return;
      const { rowCount, command, truncated } = ended;
      call.succeed({ rows: joined(batches), rowCount, command, fields, ...(truncated && { truncated }) });
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
    const mode = oneOf("object", "array")(options.rowMode ?? "object", "rowMode");
    const form = valueForm(this.#config, options);
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
      const run = this.#run({ ...options, leaving: leaving.signal }, async (call: Call<void>, connection) => {
        const ended = await execute(call, connection, query, form, () => sink);
        if (!ended) return;
        ({ command: rows.command, rowCount: rows.rowCount, truncated: rows.truncated } = ended);
        call.succeed();
      }, true);
      run.then(() => queue.end(), (error: PgzError) => queue.fail(error));
      return { queue, leave: () => leaving.abort() };
    });
  }

  /** Runs a statement for its effect: rows that it returns are counted by the server and dropped. */
  async exec(input: QueryInput, options: CallOptions & Pick<RowOptions, "maxRows"> = {}): Promise<ExecResult> {
    const query = toQuery(input);
    const counted: Form = { ...valueForm(this.#config, { ...options, onLimit: "error" }), form: ROWS_NONE };
    return this.#run(options, async (call: Call<ExecResult>, connection) => {
      const ended = await execute(call, connection, query, counted, () => ({}));
      if (ended) call.succeed({ command: ended.command, rowCount: ended.rowCount });
    });
  }

  /** All rows as bytes, in one piece: one JSON array, or another `format`. */
  async json(input: QueryInput, options: JsonOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const query = toQuery(input);
    const form = outputForm(this.#config, { format: "json", ...options });
    let pieces: Uint8Array[] = [];
    const sink = (): Sink => {
      pieces = [];
      return { unique: form.unique, rows: (view) => void pieces.push(view.slice()) };
    };
    return this.#run(options, async (call: Call<Uint8Array<ArrayBuffer>>, connection) => {
      const ended = await execute(call, connection, query, form, sink);
      if (!ended) return;
      const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
      let at = 0;
      for (const piece of pieces) {
        whole.set(piece, at);
        at += piece.length;
      }
      call.succeed(whole);
    });
  }

  /**
   * The rows as bytes, as they arrive. Resolves at the first row or at the end: a query that fails before has written nothing.
   * One that fails later errors the stream; only whole rows ever leave. Other calls reject (`STREAM_OPEN`) until it is finished.
   */
  async stream(input: QueryInput, options: StreamOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const stream = await this.#openStream(input, outputForm(this.#config, options), options);
    return options.gzip ? compressed(stream) : stream;
  }

  /** {@link stream} as a Response with the format's content type. */
  async respond(input: QueryInput, options: RespondOptions = {}): Promise<Response> {
    const form = outputForm(this.#config, options);
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
    return new Response(options.gzip ? compressed(body) : body, { status, headers, ...(options.gzip && { encodeBody: "manual" }) });
  }

  /** Counters of what crossed into WebAssembly on this connection. */
  stats(): BoundaryStats {
    return { boundaryCalls: 0, copiedBytes: 0, receivedBytes: 0, receivedChunks: 0, ...this.#connection?.core.stats };
  }

  /**
   * Ends the session. Calls that wait or run get a moment to end, then reject with `CLIENT_CLOSED`. Never rejects, takes less than a
   * second whatever the server does, and may be called again.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal Connects now. */
  async open(): Promise<this> {
    const connection = await this.#connected();
    await connection.startup.done;
    return this;
  }

  // -- calls -------------------------------------------------------------------------------------------------------------

  /** One call's turn: behind those before it, on the connection, until the connection is free again. */
  #run<T>(options: CallOptions & { closeWhenDone?: boolean | undefined; leaving?: AbortSignal }, body: (call: Call<T>, connection: Connection) => Promise<void>, stream = false): Promise<T> {
    if (this.#closing) throw new UsageError("CLIENT_CLOSED", "The client is closed: make a new one.", { retryable: true });
    if (this.#stream && !this.#stream.finished) {
      throw new UsageError("STREAM_OPEN", "A stream of this client is unfinished: read it to its end, cancel it, or use another client.");
    }
    const call = new Call<T>([options.signal, options.leaving, this.#config.signal], callOption(this.#config, "timeout", options.timeout));
    if (stream) this.#stream = call;
    const before = this.#turn;
    const work = (async () => {
      await before;
      if (call.finished) return;
      const connection = await this.#connected();
      if (!call.finished) await body(call, connection);
    })()
      .catch((error: unknown) => call.fail(error))
      .then(() => call.operation?.cleanup);
    this.#turn = work;
    // Whoever waits for a stream is not the handler that made it.
    if (stream) runtime().background(options.closeWhenDone ? work.then(() => this.close()) : work);
    return call.promise;
  }

  #openStream(input: QueryInput, form: Form, options: StreamOptions, channel?: ByteChannel): Promise<ReadableStream<Uint8Array>> {
    const query = toQuery(input);
    oneOf(true, false)(options.gzip ?? false, "gzip");
    if (options.gzip && typeof CompressionStream === "undefined") {
      throw new UsageError("UNSUPPORTED_ON_RUNTIME", `${runtime().name} has no CompressionStream: leave "gzip" to what stands in front.`);
    }
    return this.#run(options, (call: Call<ReadableStream<Uint8Array>>, connection) => this.#feed(call, connection, query, form, options, channel), true);
  }

  async #feed(call: Call<ReadableStream<Uint8Array>>, connection: Connection, query: Query, form: Form, options: StreamOptions, channel?: ByteChannel): Promise<void> {
    const { stats } = connection.core;
    const stream = resultStream(
      (reason) => call.interrupt((facts) => new AbortError(reason, facts)),
      (bytes) => void (stats.copiedBytes += bytes),
      channel,
    );
    call.failStream = (error) => stream.fail(error);
    const sink: Sink = {
      streams: true,
      unhurried: options.gzip ?? false,
      unique: form.unique,
      rows: (view) => {
        stream.write(view);
        call.hand(stream.readable);
      },
      full: () => stream.full(),
    };
    const ended = await execute(call, connection, query, form, () => sink);
    if (!ended) return;
    runtime().background(stream.end());
    call.succeed(stream.readable);
  }

  // -- the connection ----------------------------------------------------------------------------------------------------

  async #connected(): Promise<Connection> {
    if (this.#closed) throw this.#closed;
    this.#opening ??= openConnection(this.#config, (this.#giveUp = new AbortController()));
    const connection = (this.#connection = await this.#opening);
    this.#giveUp = undefined; // spent, and on Workers nothing another request may touch
    const { closed } = connection;
    if (!closed) return connection;
    // What ended a startup says more than that it ended.
    if (!connection.established) throw closed;
    throw connectionLost("before this call; make a new client", { retryable: true, cause: closed });
  }

  async #close(): Promise<void> {
    await within(CLOSE_GRACE, this.#turn);
    this.#closed = new UsageError("CLIENT_CLOSED", "The client is closed: make a new one.", { retryable: true });
    this.#giveUp?.abort(this.#closed);
    await this.#connection?.close();
  }
}

/** All the rows. Growing one array instead costs as much as decoding narrow rows does, and so does `flat`. */
function joined<Row>(batches: Row[][]): Row[] {
  while (batches.length > 1) {
    const longer: Row[][] = [];
    // Few enough for arguments.
    for (let at = 0; at < batches.length; at += 1000) longer.push(([] as Row[]).concat(...batches.slice(at, at + 1000)));
    batches = longer;
  }
  return batches[0] ?? [];
}

/** What makes rows of these columns, under the names that they have there. */
function decoderOf(columns: readonly Column[], { form, policy }: ValueForm, mode: RowMode): RowDecoder {
  if (!(form & RENAME_DUPLICATES)) return rowDecoder(columns, policy, mode);
  const names = uniqueNames(columns.map(({ name }) => name));
  return rowDecoder(columns.map((column, index) => ({ ...column, name: names[index]! })), policy, mode);
}

function compressed(stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
  return stream.pipeThrough(new CompressionStream("gzip") as unknown as TransformStream<Uint8Array, Uint8Array>);
}

/** What running calls get before `close()` ends them. */
const CLOSE_GRACE = 400;

/** A client that connects at its first call, whose query then may travel with the last message of authentication. */
export function createClient(config: ConnectInput, options?: Options): Client {
  return new Client(resolveConfig(config, { isWorkerd: runtime().name === "workerd" }, options));
}

/** A client that is connected. */
export async function connect(config: ConnectInput, options?: Options): Promise<Client> {
  return createClient(config, options).open();
}
