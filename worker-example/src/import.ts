/**
 * `POST /api/import`: a CSV file into the tenant's orders, all of it or nothing.
 *
 *   body ──> Upload (counts, caps) ──> COPY ──> staging, a table of this transaction ──> insert into orders
 *
 * COPY asks the client for more once the socket has taken the previous piece, so a file of any length needs 64 KiB
 * here. `staging` has the checks of `orders`, so COPY reports which line is wrong. The insert then goes through the
 * policy and the trigger. A COPY into `orders` itself is not possible: COPY FROM does not work on a table with row
 * level security. An existing reference is left unchanged and counted as skipped, so a file may be sent twice.
 *
 * Answers 200 and { rows, bytes, inserted, skipped }. With `accept: application/x-ndjson` it reports progress as lines
 * { rows, bytes }, and ends with { done } or { problem }.
 */
import { PgzError, PostgresError } from "pgz-edge";
import { checkLength, tooLarge } from "./body.ts";
import { noStore, withTenant, type Context } from "./context.ts";
import { importing, requests } from "./limits.ts";
import { Problem, problemBody, problemOf } from "./problem.ts";

/** The file's columns, in this order. Its first line names them. */
const COLUMNS = "reference, customer, status, total";
/** Spreadsheets write this before UTF-8 text. PostgreSQL would take it for a part of the first column's name. */
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

interface Counts {
  rows: number;
  bytes: number;
  inserted: number;
  skipped: number;
}

export async function importOrders(context: Context): Promise<Response> {
  const { request } = context;
  if (!/^text\/csv\b/i.test(request.headers.get("content-type") ?? "") || request.headers.has("content-encoding"))
    throw new Problem(415, "NOT_CSV", "Send CSV, with content-type: text/csv.");
  checkLength(request, importing.maxBytes);
  const upload = new Upload(request.body);
  if (!request.headers.get("accept")?.includes("application/x-ndjson"))
    return Response.json(await store(context, upload), { headers: noStore });
  return new Response(told(context, upload), { headers: { ...noStore, "content-type": "application/x-ndjson" } });
}

async function store(context: Context, upload: Upload, signal = context.request.signal): Promise<Counts> {
  const { timeout } = importing;
  try {
    return await withTenant(
      context,
      (database) =>
        database.transaction(
          async (tx) => {
            // The identity column keeps the file's order.
            await tx.exec(
              "create temporary table staging (like orders including defaults including constraints including identity) " +
                "on commit drop",
            );
            const copy = `copy staging (${COLUMNS}) from stdin (format csv, header match)`;
            const { rowCount: rows } = await tx.copyFrom(copy, upload.pieces());
            if (rows! > importing.maxRows) throw tooManyRows(); // the upload's own count is an estimate
            const { rowCount: inserted } = await tx.exec(
              `insert into orders (${COLUMNS}) select ${COLUMNS} from staging order by id ` +
                "on conflict (tenant, reference) do nothing",
            );
            return { rows: rows!, bytes: upload.bytes, inserted: inserted!, skipped: rows! - inserted! };
          },
          { signal, timeout },
        ),
      { timeout },
    );
  } catch (error) {
    await Promise.race([upload.discard(), pause(requests.timeout)]);
    throw ofLine(error);
  }
}

function tooManyRows(): Problem {
  return new Problem(413, "TOO_MANY_ROWS", `A file may have ${importing.maxRows} rows.`);
}

/**
 * Turns a COPY error into one that names the line. `where` is `COPY staging, line 3, column total: "x"`: the place in
 * the file, then its value.
 */
function ofLine(error: unknown): unknown {
  if (error instanceof PgzError && error.code === "COPY_SOURCE_FAILED")
    return error.cause instanceof Problem
      ? error.cause
      : new Problem(400, "UPLOAD_BROKEN", "The body broke off. Nothing was stored.");
  if (!(error instanceof PostgresError)) return error;
  const [, line, column] = /^COPY staging, line (\d+)(?:, column (\w+))?/.exec(error.where ?? "") ?? [];
  if (line === undefined) return error;
  const { code, constraint } = error;
  if (line === "1")
    return new Problem(422, code, `The first line must be ${COLUMNS.replaceAll(" ", "")}. Nothing was stored.`, {
      line: 1,
    });
  return new Problem(422, code, `Line ${line} is not what it must be. Nothing was stored.`, {
    line: Number(line),
    ...((column ?? error.column) && { column: column ?? error.column }),
    ...(constraint && { constraint }),
  });
}

/** The file while it arrives, and how much of it has arrived. A file over the limits ends the import. */
class Upload {
  bytes = 0;
  /** Line breaks outside of quotes: \n, \r or \r\n, as COPY takes them. */
  #records = 0;
  #isQuoted = false;
  #wasReturn = false;
  /** The pending read. */
  #reading: Promise<unknown> | undefined;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(body: ReadableStream<Uint8Array> | null) {
    this.#reader = body?.getReader();
  }

  /** The number of rows, without the header. */
  get rows(): number {
    return Math.max(0, this.#records - 1);
  }

  async *pieces(): AsyncGenerator<Uint8Array> {
    for (let piece = await this.#first(); piece; piece = await this.#next()) {
      this.#count(piece);
      if (this.bytes > importing.maxBytes) throw tooLarge(importing.maxBytes);
      if (this.rows > importing.maxRows) throw tooManyRows();
      yield piece;
    }
  }

  /**
   * Reads the rest of the file after an error, up to the maximum length. A client that is still sending when the
   * response arrives finds the connection closed, and most clients then ignore the response, which names the line. COPY
   * may have left `pieces` with a read pending, and workerd refuses a second read beside it.
   */
  async discard(): Promise<void> {
    try {
      await this.#reading;
      for (let piece = await this.#next(); piece && this.bytes <= importing.maxBytes; piece = await this.#next())
        this.bytes += piece.length;
    } catch {
      // The client has left.
    }
  }

  /** Returns the first piece without the byte order mark, which may itself arrive in pieces. */
  async #first(): Promise<Uint8Array | undefined> {
    let first = await this.#next();
    while (first && first.length < BYTE_ORDER_MARK.length) {
      const more = await this.#next();
      if (!more) return first;
      const both = new Uint8Array(first.length + more.length);
      both.set(first);
      both.set(more, first.length);
      first = both;
    }
    return first && BYTE_ORDER_MARK.every((byte, at) => first[at] === byte)
      ? first.subarray(BYTE_ORDER_MARK.length)
      : first;
  }

  async #next(): Promise<Uint8Array | undefined> {
    const reading = (this.#reading = this.#reader?.read());
    return (await reading)?.value;
  }

  #count(piece: Uint8Array): void {
    this.bytes += piece.length;
    for (const byte of piece) {
      if (byte === 34) this.#isQuoted = !this.#isQuoted;
      else if (!this.#isQuoted && (byte === 13 || (byte === 10 && !this.#wasReturn))) this.#records++;
      this.#wasReturn = byte === 13;
    }
  }
}

/**
 * Streams the import's progress as lines. Each line is made when the client reads it, so a client that does not read
 * holds nothing up. A client that leaves cancels the import.
 */
function told(context: Context, upload: Upload): ReadableStream<Uint8Array> {
  const leaving = new AbortController();
  const { signal } = context.request;
  const end = store(context, upload, AbortSignal.any([signal, leaving.signal])).then(
    (done) => ({ done }),
    (error: unknown) => {
      const problem = problemOf(error);
      if (problem.status >= 500 && !signal.aborted) console.error(`${context.requestId}:`, error);
      return { problem: problemBody(problem, context.requestId) };
    },
  );
  const line = (value: object) => encoder.encode(`${JSON.stringify(value)}\n`);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const last = await Promise.race([end, pause(importing.tellEvery)]);
        const { rows, bytes } = upload;
        controller.enqueue(line(last ?? { rows, bytes }));
        if (last) controller.close();
      },
      cancel: () => leaving.abort(),
    },
    { highWaterMark: 0 },
  );
}

const encoder = new TextEncoder();

function pause(milliseconds: number): Promise<undefined> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds, undefined));
}
