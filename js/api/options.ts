// Options and results of the calls that a client and a transaction share.
//
// Holds types, and the names of the options. rows/form.ts says what an option of rows means. Options that a connection
// has too are in config/table.ts, with their defaults.
import type { CallOptionName, Options } from "../config/options.ts";
import { namesOf } from "../config/rules.ts";
import { namesBy, type NamesBy } from "../config/table.ts";
import type { Truncation } from "../util/observer.ts";
import type { FormatOptions, RowOptions, ValueOptions } from "../rows/form.ts";
import type { CopyProgress } from "../statement/copy.ts";
import type { Column } from "../wasm/boundary.ts";
import type { OwnBytes } from "../util/bytes.ts";

/** Options of every call. Each default is the client's option of that name. */
export interface CallOptions extends Readonly<Pick<Options, NamesBy<"every">>> {}

/** Options of calls whose answer may come from a cache in front of the server. */
export interface CacheOptions {
  /**
   * Whether a cache that is keyed by the text of a query, such as Hyperdrive's, may answer. `false` adds a comment
   * after the text that makes such a cache ask the server. `true` warns, once per text, if the text holds a function
   * that keeps Hyperdrive from caching it. Default: `false` in a scope over a Hyperdrive binding, because its cache
   * knows no tenants; elsewhere the text is sent unchanged (docs/poolers.md, Hyperdrive).
   */
  readonly cache?: boolean | undefined;
}

/** Options of `query`, `first`, `rows` and other calls that give JavaScript values. */
export interface QueryOptions extends CallOptions, CacheOptions, ValueOptions {
  /**
   * `"object"`: a row is an object whose keys are the column names. `"array"`: a row is its values in the order of
   * `fields`. Default `"object"`.
   */
  readonly rowMode?: "object" | "array" | undefined;
}

/** Makes the type of the rows an array type. */
export type AsArrays = { readonly rowMode: "array" };

/** Options of `exec`. */
export interface ExecOptions extends CallOptions, CacheOptions, Pick<RowOptions, "maxRows"> {}

/**
 * {@link QueryOptions} without `onLimit`: these calls cannot mark a shortened result, so exceeding a limit is an error.
 */
export type SimpleOptions = Omit<QueryOptions, "onLimit">;

/** Options of `json`. Its default `format` is `"json"`. */
export interface JsonOptions extends CallOptions, CacheOptions, FormatOptions {}

/** Options of `stream` and `respond`. */
export interface StreamOptions extends CallOptions, CacheOptions, FormatOptions {
  /**
   * Compresses the output with `CompressionStream`; `respond` also sets `content-encoding`. `CompressionStream` cannot
   * flush, so it holds rows back: `flushInterval` has no effect on rows of a slow query. Default false.
   */
  readonly gzip?: boolean | undefined;
  /**
   * Closes the client when the stream has ended, failed or been cancelled, or when the call is refused. Default false.
   */
  readonly closeWhenDone?: boolean | undefined;
}

/** Options of `respond`. */
export interface RespondOptions extends StreamOptions {
  /** Headers of the response. `content-type` is the format's unless given here. */
  readonly headers?: Headers | Iterable<readonly [string, string]> | Readonly<Record<string, string>> | undefined;
  /** Status of the response, one that may have a body. Default 200. */
  readonly status?: number | undefined;
}

/** What a statement did. */
export interface ExecResult {
  /** The words of the command tag, such as `"INSERT"`; `""` for an empty query. */
  readonly command: string;
  /**
   * Rows returned or changed, as the server says; `null` if the command has no count, or if it was cancelled because a
   * limit had cut off the result (`truncated`).
   */
  readonly rowCount: number | null;
}

/** What a statement did and returned. */
export interface QueryResult<Row> extends ExecResult {
  /** All rows, objects by column name or arrays (`rowMode`). */
  readonly rows: Row[];
  /** The columns, in order; empty for a statement that returns no rows. */
  readonly fields: readonly Column[];
  /** Only with `onLimit: "truncate"`, and only if rows are missing. */
  readonly truncated?: Truncation;
}

/** One item of a batch with `results: "ndjson"`. */
export interface EncodedResult extends ExecResult {
  /** The item's rows as NDJSON. */
  readonly bytes: OwnBytes;
  readonly fields: readonly Column[];
}

/** The result of one item of a batch; which of the three depends on the option `results`. */
export type BatchResult<Row> = QueryResult<Row> | ExecResult | EncodedResult;

/** Options of `batch`. Limits, `timeout` and `signal` apply to the whole batch. */
export interface BatchOptions extends SimpleOptions {
  /**
   * `true`: the batch is one transaction, or part of the open one. The first error undoes the items before it and skips
   * the rest. `false`: each item is a transaction of its own, in order, and settles on its own. Default true.
   */
  readonly atomic?: boolean | undefined;
  /** The form of the rows: JavaScript values, NDJSON bytes, or only a count, which is fastest. Default `"rows"`. */
  readonly results?: "rows" | "count" | "ndjson" | undefined;
}

export type Atomic<Results> = BatchOptions & { readonly atomic?: true | undefined; readonly results: Results };
export type Isolated<Results> = BatchOptions & { readonly atomic: false; readonly results: Results };

/** Options of `copyFrom` and `copyFromRows`. */
export interface CopyFromOptions extends CallOptions {
  /** Called after each piece of data, of about 64 KiB, is sent. If it throws, the COPY ends (`COPY_SOURCE_FAILED`). */
  readonly onProgress?: ((progress: CopyProgress) => void) | undefined;
}

/**
 * Options of `copyTo`. `maxRows` counts CopyData messages: rows, and CSV's header. `maxFieldBytes` applies to each of
 * them.
 */
export interface CopyToOptions extends CallOptions, Pick<RowOptions, "maxRows" | "maxBytes" | "maxFieldBytes"> {}

/** What `describe` and `prepare` return about a statement. */
export interface Description {
  /** The type OIDs of `$1`, `$2` … */
  readonly parameterTypes: readonly number[];
  /** Empty for a statement that returns no rows. */
  readonly fields: readonly Column[];
}

/**
 * Internal, beside the user's options: aborts when the call's consumer leaves. A symbol, so that it is in no list of
 * names.
 */
export const LEAVING = Symbol("leaving");

type AnyOptions = QueryOptions & JsonOptions & RespondOptions & BatchOptions & CopyFromOptions & CopyToOptions;

/** The names of all options. Each value is checked where it is used. */
export const CALL_OPTIONS: readonly string[] = [
  ...namesBy("every", "rows", "values"),
  ...namesOf<Omit<AnyOptions, CallOptionName>>({
    cache: true,
    rowMode: true,
    format: true,
    header: true,
    csvFormulas: true,
    endMark: true,
    toon: true,
    gzip: true,
    closeWhenDone: true,
    headers: true,
    status: true,
    atomic: true,
    results: true,
    onProgress: true,
  }),
];
