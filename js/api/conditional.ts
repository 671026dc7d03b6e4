// Answers that a client or a cache can revalidate: ETag, If-None-Match and 304 (RFC 9110, sections 8.8.3, 13.1.2 and
// 15.4.5).
//
// A function of its own and no option of `respond`: a Worker that does not call it has none of it. Knows HTTP and the
// bytes of a stream. Must not know SQL, or how rows come.
import { checkObject, oneOf, whole } from "../config/rules.ts";
import { type Format, type FormatOptions } from "../rows/form.ts";
import { runtime } from "../runtime/runtime.ts";
import type { QueryInput } from "../statement/sql.ts";
import { CONFLICT, HAS_NOT_RUN, PgzError, UsageError } from "../util/errors.ts";
import { mayCommitApart } from "../util/statement-words.ts";
import { FORMATS } from "../wasm/boundary.ts";
import type { Client } from "./client.ts";
import type { RespondOptions, StreamOptions } from "./options.ts";
import { asBody, checkGzip } from "./body.ts";
import { responseInit } from "./streams.ts";

/** Options of `conditional`: those of `respond` but `status`, and one of its own. */
export interface ConditionalOptions extends Omit<RespondOptions, "status"> {
  /**
   * The length up to which a result gets an ETag, in bytes, before compression. It is held in memory until its end has
   * come, because the tag is in the headers; that takes up to three times its length. A longer result is sent as it
   * comes, without a tag. Default 1,048,576.
   */
  readonly etagUpTo?: number | undefined;
}

/** The part of a `Request` that is read. */
interface Asked {
  readonly method: string;
  readonly headers: { get(name: string): string | null | undefined };
}

/** What can stream rows: a client, pool, cluster, transaction or scope. */
interface Caller {
  stream(query: QueryInput, options?: StreamOptions): Promise<ReadableStream<Uint8Array>>;
}

/** Sections 8.3 to 8.6 and 8.8.2: what describes a body, which a 304 does not have. */
const OF_THE_BODY = ["content-type", "content-encoding", "content-language", "content-length", "last-modified"];
const DEFAULT_BOUND = 1_048_576;
/** Of SHA-256, 18 bytes are 24 characters without padding. Fewer could be made to collide. */
const TAG_BYTES = 18;

/**
 * The rows as `respond` sends them, with an `ETag`. If the request has that tag in `If-None-Match`, the answer is 304
 * without a body. The query runs all the same: what is saved is the transfer, and the client's work.
 *
 * The tag is a hash of the bytes and the content type, so every change of the answer changes it, also another order of
 * the rows. It is weak, because it is the same for the compressed form. Say `cache-control: no-cache` in `headers`
 * so that caches keep the answer, and ask each time.
 *
 * `Last-Modified` is not sent, and `If-Modified-Since` not read: a row that was deleted, and a second change within one
 * second, would be answered with a false 304. `If-Match` and `If-Unmodified-Since` are not read either.
 *
 * A query that fails while its result is held rejects the call. If it fails later, the answer breaks off
 * (`endMark`). Until the result has been read, other calls of a client are refused, as beside `stream`. In a
 * transaction only what fits into `etagUpTo` can be answered: the rest of a longer result would come after the
 * callback, and where no body is wanted (HEAD, `If-None-Match: *`) its statement is cancelled, which undoes the
 * transaction.
 *
 * @throws UsageError `INVALID_OPTION` for a request other than GET and HEAD, and for an option that `respond` would
 * refuse; otherwise as `stream`
 *
 * @example
 * return await conditional(request, db, sql`select * from prices`, {
 *   signal: request.signal, headers: { "cache-control": "no-cache" },
 * });
 */
export async function conditional(
  request: Asked,
  caller: Caller,
  query: QueryInput,
  options: ConditionalOptions = {},
): Promise<Response> {
  const { init, known, etagUpTo } = checked(request, caller, options);
  const headers = init.headers as Headers;
  const reader = (await caller.stream(query, streamOptions(options))).getReader();
  const chunks: Uint8Array[] = [];
  const isWhole = await readUpTo(etagUpTo, reader, chunks).catch((error) => withheld(error, query));
  const tagged = isWhole ? await taggedOf(chunks, headers.get("content-type")!) : undefined;
  if (tagged) {
    headers.set("etag", `W/${tagged.tag}`);
    chunks.splice(0, chunks.length, tagged.bytes); // the pieces need not stay in memory
  }
  const isKnown = known === "*" || (tagged && tagsOf(known).includes(tagged.tag));
  if (isKnown || request.method === "HEAD") await reader.cancel();
  if (isKnown) return notModified(headers);
  const bytes = options.gzip ? undefined : tagged?.bytes;
  if (bytes) headers.set("content-length", String(bytes.length));
  if (request.method === "HEAD") return new Response(null, init);
  return new Response(bytes ?? asBody(joined(chunks, reader), options.gzip), init);
}

/** The options without those of this file. Also inherited ones, as every call takes them. */
function streamOptions(options: ConditionalOptions): StreamOptions {
  const plain: Record<string, unknown> = {};
  for (const name in options) plain[name] = options[name as keyof ConditionalOptions];
  return Object.assign(plain, { gzip: false, etagUpTo: undefined });
}

/** For the stream the first rows have been passed on. The caller has seen none of them. */
function withheld(error: unknown, query: QueryInput): never {
  if (error instanceof PgzError && error.committed) {
    const { text } = typeof query === "string" ? { text: query } : query;
    const isUndone = CONFLICT.test(error.code) && !mayCommitApart([text]);
    Object.assign(error, { committed: false, ...(isUndone && HAS_NOT_RUN) });
  }
  throw error;
}

interface Checked {
  readonly init: ResponseInit;
  readonly etagUpTo: number;
  /** The request's If-None-Match; "" if it has none. */
  readonly known: string;
}

/** Refuses what can be refused before the query is sent. That closes the client too, as with `respond`. */
function checked(request: Asked, caller: Caller, options: ConditionalOptions): Checked {
  checkObject(options);
  try {
    if (typeof (caller as Partial<Caller> | null)?.stream !== "function")
      throw refusal("conditional() takes the request, then a client, pool, cluster, transaction or scope.");
    const { method, headers } = Object(request) as Partial<Asked>;
    if (typeof headers?.get !== "function")
      throw refusal("conditional() takes a Request, or { method, headers } whose headers have get().");
    if (method !== "GET" && method !== "HEAD")
      throw refusal(`conditional() is for GET and HEAD, not for ${method}: use respond().`);
    if ((options as RespondOptions).status !== undefined)
      throw refusal('Option "status" of respond() is 200 or 304 here: leave it out.');
    const { etagUpTo = DEFAULT_BOUND } = options;
    whole(0, Number.MAX_SAFE_INTEGER)(etagUpTo, "etagUpTo");
    checkGzip(options);
    const init = responseInit(options, contentTypeOf(options));
    const made = ["etag", "content-length"].find((name) => (init.headers as Headers).has(name));
    if (made) throw refusal(`conditional() makes the header ${made}: leave it out.`);
    return { init, etagUpTo, known: String(headers.get("if-none-match") ?? "").trim() };
  } catch (error) {
    const client = caller as Partial<Pick<Client, "close">> | undefined;
    if (options.closeWhenDone) runtime().background(Promise.resolve(client?.close?.()));
    throw error;
  }
}

const refusal = (text: string) => new UsageError("INVALID_OPTION", text);

/**
 * The content type that `respond` would send. Throws for an unknown format. (One function for both, in rows/form.ts,
 * costs each Worker 35 bytes.)
 */
function contentTypeOf({ format = "ndjson", toon }: FormatOptions): string {
  const { contentType } = FORMATS[oneOf(...(Object.keys(FORMATS) as Format[]))(format, "format")];
  return (format === "toon" && toon?.contentType) || contentType;
}

/** Reads to the end, or until there are more than `most` bytes. Returns whether that was all. */
async function readUpTo(most: number, reader: Reader, chunks: Uint8Array[]): Promise<boolean> {
  let length = 0;
  while (length <= most) {
    const { done, value } = await reader.read();
    if (done) return true;
    chunks.push(value);
    length += value.length;
  }
  return false;
}

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * The bytes in one piece, and their entity-tag without its `W/`. The content type is part of the tag, because no rows
 * are the same bytes in two formats; no header has the line break behind it. It stands in front of the bytes, so that
 * the hash needs no second copy of them.
 */
async function taggedOf(chunks: readonly Uint8Array[], contentType: string) {
  const type = new TextEncoder().encode(`${contentType}\n`);
  const all = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, type.length));
  let at = 0;
  for (const chunk of [type, ...chunks]) {
    all.set(chunk, at);
    at += chunk.length;
  }
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", all));
  const tag = `"${btoa(String.fromCharCode(...hash.subarray(0, TAG_BYTES)))}"`;
  return { bytes: all.subarray(type.length), tag };
}

/**
 * The tags of If-None-Match, for the weak comparison of section 8.8.3.2. Our tags hold no comma: a part of a foreign
 * tag that holds one equals none of them.
 */
function tagsOf(ifNoneMatch: string): string[] {
  return ifNoneMatch.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
}

/** What a 304 updates in the stored answer stays: ETag, Cache-Control, Vary, and headers of the caller's. */
function notModified(given: Headers): Response {
  const headers = new Headers(given);
  for (const name of OF_THE_BODY) headers.delete(name);
  return new Response(null, { status: 304, headers });
}

/** What has been read, and then what follows. Cancelling it cancels the query. */
function joined(chunks: Uint8Array[], reader: Reader): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const value = chunks.shift() ?? (await reader.read()).value;
        if (value) controller.enqueue(value);
        else controller.close();
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
