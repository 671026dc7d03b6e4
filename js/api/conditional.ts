// Answers that a client or a cache can revalidate: ETag, If-None-Match and 304 (RFC 9110, sections 8.8.3, 13.1.2 and
// 15.4.5).
//
// A function of its own and no option of `respond`: a Worker that does not call it has none of it. Knows HTTP and the
// bytes of a stream. Must not know SQL, or how rows come.
import { oneOf, whole } from "../config/rules.ts";
import { STANDARD_TOON, type Format, type FormatOptions } from "../rows/form.ts";
import { runtime } from "../runtime/runtime.ts";
import type { QueryInput } from "../statement/sql.ts";
import { UsageError } from "../util/errors.ts";
import { FORMATS } from "../wasm/boundary.ts";
import type { Client } from "./client.ts";
import type { RespondOptions, StreamOptions } from "./options.ts";
import { asBody, checkGzip, responseInit } from "./streams.ts";

/** Options of `conditional`: those of `respond` but `status`, and one of its own. */
export interface ConditionalOptions extends Omit<RespondOptions, "status"> {
  /**
   * The length up to which a result gets an ETag. It is held in memory until its end has come, because the tag is in
   * the headers. A longer result is sent as it comes, without a tag. In bytes, before compression. Default 1,048,576.
   */
  readonly etagUpTo?: number | undefined;
}

/** The part of a `Request` that is read. */
interface Asked {
  readonly method: string;
  readonly headers: { get(name: string): string | null };
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
 * second, would be answered with a false 304.
 *
 * A query that fails while the result is held rejects the call.
 *
 * @throws UsageError `INVALID_OPTION` for a request other than GET and HEAD, and for an option that `respond` would
 * refuse; otherwise as `stream`
 *
 * @example
 * return await conditional(request, db, sql`select * from prices`, { headers: { "cache-control": "no-cache" } });
 */
export async function conditional(
  request: Asked,
  caller: Caller,
  query: QueryInput,
  options: ConditionalOptions = {},
): Promise<Response> {
  const { etagUpTo = DEFAULT_BOUND, gzip, ...others } = options;
  const init = checked(request, caller, options, etagUpTo);
  const headers = init.headers as Headers;
  const { bytes, rest } = await readUpTo(await caller.stream(query, others), etagUpTo);
  if (!rest) {
    const tag = await tagOf(bytes, headers.get("content-type")!);
    headers.set("etag", `W/${tag}`);
    if (has(request.headers.get("if-none-match"), tag)) return notModified(headers);
    if (!gzip) return new Response(bytes, init);
  }
  if (request.method === "HEAD") {
    await rest?.cancel();
    return new Response(null, init);
  }
  return new Response(asBody(joined(bytes, rest), gzip), init);
}

/** Refuses what can be refused before the query is sent. That closes the client too, as with `respond`. */
function checked({ method }: Asked, caller: Caller, options: ConditionalOptions, etagUpTo: number): ResponseInit {
  try {
    if (method !== "GET" && method !== "HEAD")
      throw new UsageError("INVALID_OPTION", `conditional() is for GET and HEAD, not for ${method}: use respond().`);
    whole(0, Number.MAX_SAFE_INTEGER)(etagUpTo, "etagUpTo");
    checkGzip(options);
    return responseInit(options, contentTypeOf(options));
  } catch (error) {
    if (options.closeWhenDone) runtime().background((caller as Caller & Pick<Client, "close">).close());
    throw error;
  }
}

/** The content type that `respond` would send. Throws for an unknown format. */
function contentTypeOf({ format = "ndjson", toon }: FormatOptions): string {
  const { contentType } = FORMATS[oneOf(...(Object.keys(FORMATS) as Format[]))(format, "format")];
  return format === "toon" && toon === "standard" ? STANDARD_TOON : contentType;
}

interface Read {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** What follows; `undefined` if that was all. */
  readonly rest?: ReadableStreamDefaultReader<Uint8Array>;
}

/** Reads to the end, or until there are more than `most` bytes. */
async function readUpTo(stream: ReadableStream<Uint8Array>, most: number): Promise<Read> {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { bytes: concatenated(chunks, length) };
    chunks.push(value);
    length += value.length;
    if (length > most) return { bytes: concatenated(chunks, length), rest: reader };
  }
}

function concatenated(chunks: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

/** An entity-tag without its `W/`. The content type is part of it: no rows are the same bytes in two formats. */
async function tagOf(bytes: Uint8Array, contentType: string): Promise<string> {
  const type = new TextEncoder().encode(contentType);
  const all = concatenated([type, bytes], type.length + bytes.length);
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", all));
  return `"${btoa(String.fromCharCode(...hash.subarray(0, TAG_BYTES)))}"`;
}

/** By weak comparison (section 8.8.3.2). Our tags hold no comma: a part of a foreign tag that holds one equals none. */
function has(ifNoneMatch: string | null, tag: string): boolean {
  const tags = ifNoneMatch?.split(",").map((one) => one.trim().replace(/^W\//, "")) ?? [];
  return tags.includes(tag) || ifNoneMatch?.trim() === "*";
}

/** What a 304 updates in the stored answer stays: ETag, Cache-Control, Vary, and headers of the caller's. */
function notModified(given: Headers): Response {
  const headers = new Headers(given);
  for (const name of OF_THE_BODY) headers.delete(name);
  return new Response(null, { status: 304, headers });
}

/** What has been read, and then what follows. Cancelling it cancels the query. */
function joined(
  bytes: Uint8Array,
  rest: ReadableStreamDefaultReader<Uint8Array> | undefined,
): ReadableStream<Uint8Array> {
  let first: Uint8Array | undefined = bytes;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const value = first ?? (await rest?.read())?.value;
        first = undefined;
        if (value) controller.enqueue(value);
        else controller.close();
      },
      cancel: (reason) => rest?.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
