// Turns a call's options into a form: how the core writes rows, within which caps, and the content type of the result.
//
// Knows formats and their options. Must not know calls, connections or streams.
import { callOption } from "../config/config.ts";
import type { Config, Options } from "../config/options.ts";
import { oneOf } from "../config/rules.ts";
import { namesBy, type NamesBy } from "../config/table.ts";
import { UsageError } from "../util/errors.ts";
import { temporal, type ValuePolicy } from "../values/converters.ts";
import type { Operation, RowSink } from "../connection/operation.ts";
import { runtime } from "../runtime/runtime.ts";
import type { Observer } from "../util/observer.ts";
import {
  CAMEL_CASE,
  CSV_HEADER,
  ESCAPE_FORMULAS,
  FORMATS,
  INT8_AS_STRING,
  JSON_AS_STRING,
  LIMIT_TRUNCATE,
  NUMERIC_AS_STRING,
  RENAME_DUPLICATES,
  ROWS_COLUMNS,
  limitsOf,
  type Limits,
} from "../wasm/boundary.ts";

/** How rows are written. The README shows two rows in each. */
export type Format = keyof typeof FORMATS;

/** Options of calls that return rows. Each default is the client's option of that name. */
export interface RowOptions extends Readonly<Pick<Options, NamesBy<"rows">>> {}

/** Options of calls whose rows become JavaScript values. */
export interface ValueOptions extends Readonly<Pick<Options, NamesBy<"rows" | "values">>> {}

/** Options of calls that return encoded output. */
export interface FormatOptions extends RowOptions {
  /** The form of the output; the README shows two rows in each. Default `"ndjson"`; for `json()` `"json"`. */
  readonly format?: Format | undefined;
  /** Whether CSV begins with the columns' names. Default true. */
  readonly header?: boolean | undefined;
  /**
   * For CSV that a person will open in a spreadsheet: `"escape"` puts an apostrophe before text that a spreadsheet
   * would take for a formula, because it begins with `=`, `+`, `-`, `@`, a tab or a line break. Numbers, dates and the
   * like are never changed. Default `"keep"`: programs read back what the database holds.
   */
  readonly csvFormulas?: "keep" | "escape" | undefined;
  /**
   * `standardToon`, an export of this package, makes a document of the TOON specification in place of the dialect of
   * the Go driver pgz, which can be streamed. The document's first line has the row count, so the whole result is held
   * in memory (`maxBytes` bounds it).
   */
  readonly toon?: ToonForm | undefined;
  /**
   * Whether NDJSON ends with a line `{"$end":{"rows":2}}`, so that a reader knows that all of it has come: some servers
   * end an incomplete response in the same way as a complete one (docs/workers.md). Other formats refuse it: JSON and
   * columnar end with a bracket, and TOON and CSV have no place for a mark. Default false.
   */
  readonly endMark?: boolean | undefined;
}

/** What a form makes of the bytes of rows. */
export interface Output {
  /** Nothing is passed on before `rest`, so that the statement may still be repeated. */
  readonly comesAtEnd?: true;
  /** Called before the first row of each run of the statement. Throws if the form refuses the columns. */
  readonly columns: NonNullable<RowSink["columns"]>;
  /** Returns a function that takes whole rows, as `RowSink.rows` does, and gives `next` what can be passed on. */
  rows(next: RowSink["rows"]): RowSink["rows"];
  /** Returns the bytes that follow the rows, when all rows of this operation have come. */
  rest(operation: Operation): Uint8Array | undefined;
}

/** Another form of TOON. `standardToon` is the only one. */
export interface ToonForm {
  readonly contentType: string;
  readonly output: (form: Form) => Output;
}

/** The form of one call's rows: flags as the core's number, and the caps in the core's order. */
export interface Form {
  readonly code: number;
  readonly limits: Limits;
  readonly contentType: string;
  /** Whether two columns of one name are an error. */
  readonly unique: boolean;
  /** What the core's TOON lines become. */
  readonly toon?: ToonForm;
  /** Whether a line that says how many there were follows the rows. */
  readonly endMark?: boolean;
  /** How rows become JavaScript values, if they do. */
  readonly policy?: ValuePolicy | undefined;
}

/** The call's own observer, which can report that rows are missing. */
type Told = { readonly observer?: Observer | undefined };

/** Returns the form of encoded output. Throws before anything is sent. */
export function outputForm(config: Config, options: FormatOptions & Told): Form {
  const { format = "ndjson", header = true, csvFormulas = "keep", toon, endMark = false } = options;
  const { code, contentType, truncates } = FORMATS[oneOf(...(Object.keys(FORMATS) as Format[]))(format, "format")];
  oneOf(true, false)(header, "header");
  oneOf("keep", "escape")(csvFormulas, "csvFormulas");
  if (toon !== undefined && !(toon as Partial<ToonForm> | null)?.output)
    throw new UsageError("INVALID_OPTION", 'Option "toon" takes standardToon, an export of pgz-edge.');
  oneOf(true, false)(endMark, "endMark");
  if (endMark && format !== "ndjson")
    throw new UsageError("INVALID_OPTION", `Option "endMark" is for ndjson, not for ${format}: ${END_OF[format]}.`);
  const csv = (header ? CSV_HEADER : 0) | (csvFormulas === "escape" ? ESCAPE_FORMULAS : 0);
  const form = withOptions(config, options, code | csv, "number", contentType);
  if (form.limits[LIMIT_TRUNCATE] && !truncates && !options.observer?.onQueryEnd) {
    throw new UsageError(
      "INVALID_OPTION",
      `Option "onLimit" cannot be "truncate" for ${format} unless an observer with onQueryEnd learns of the cut: ` +
        'use "error", or another format.',
    );
  }
  if (format === "toon" && toon) return { ...form, contentType: toon.contentType, toon };
  return endMark ? { ...form, endMark } : form;
}

/** How a reader of a format without an end mark learns that all of it has come. */
const END_OF: Readonly<Record<Exclude<Format, "ndjson">, string>> = {
  json: "the bracket at its end is one",
  columnar: "the brace at its end is one",
  toon: "it has no place for one",
  csv: "it has no place for one",
};

/** The form of rows that become JavaScript values. */
export interface ValueForm extends Form {
  readonly policy: ValuePolicy;
}

/**
 * Returns the form of rows that become JavaScript values. Equal options give the same object, by which a statement that
 * runs again finds the decoder of its rows.
 */
export function valueForm(config: Config, options: ValueOptions): ValueForm {
  let own = NONE;
  for (const name in options) {
    const value = options[name as keyof ValueOptions];
    if (value === undefined || value === config[name as keyof ValueOptions] || !VALUE_OPTIONS.has(name)) continue;
    if (name === "types") return newValueForm(config, options);
    own = [...own, name, value];
  }
  let known = forms.get(config);
  if (!known) forms.set(config, (known = []));
  // Not by `find`, whose function would be made for each call.
  for (const one of known) if (isSame(one.own, own)) return one.form;
  const form = newValueForm(config, options);
  if (known.length === MOST_FORMS) known.length = 0;
  known.push({ own, form });
  return form;
}

const NONE: readonly unknown[] = [];

function isSame(one: readonly unknown[], other: readonly unknown[]): boolean {
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false;
  return one.length === other.length;
}

/** The names of the options that decide what a row's values are. */
const VALUE_OPTIONS: ReadonlySet<string> = new Set(namesBy("rows", "values"));
/** Per configuration of a connection: the options that differ from it, as names and values, with their form. */
const forms = new WeakMap<Config, { readonly own: readonly unknown[]; readonly form: ValueForm }[]>();
/** A bound, because caps may differ in each call. */
const MOST_FORMS = 8;

function newValueForm(config: Config, options: ValueOptions): ValueForm {
  const dates = callOption(config, options, "dates");
  if (dates === "temporal" && !temporal())
    throw new UsageError(
      "UNSUPPORTED_ON_RUNTIME",
      `${runtime().name} has no Temporal: option "dates" can be "string" or "date".`,
    );
  const form = withOptions(
    config,
    options,
    ROWS_COLUMNS | (callOption(config, options, "json") === "text" ? JSON_AS_STRING : 0),
    "string",
    "",
  );
  const types = callOption(config, options, "types");
  // Not a spread: property names that are numbers would come first, and lose to names of the client's.
  const parsers = types && new Map([...Object.entries(config.types ?? {}), ...Object.entries(types)]);
  return {
    ...form,
    policy: {
      int8: options.int8 ?? config.int8,
      numeric: options.numeric ?? config.numeric,
      dates,
      bytea: callOption(config, options, "bytea"),
      parsers,
    },
  };
}

function withOptions(
  config: Config,
  options: RowOptions,
  code: number,
  digits: "string" | "number",
  contentType: string,
): Form {
  const duplicates = callOption(config, options, "duplicates");
  const limit = (name: "maxRows" | "maxBytes" | "maxFieldBytes") => callOption(config, options, name);
  const isText = (name: "int8" | "numeric") => {
    const policy = callOption(config, options, name) ?? digits;
    // A bigint is made from text. In JSON it is written as its digits.
    return (policy === "bigint" ? digits : policy) === "string";
  };
  return {
    code:
      code |
      (isText("int8") ? INT8_AS_STRING : 0) |
      (isText("numeric") ? NUMERIC_AS_STRING : 0) |
      (callOption(config, options, "columnNames") === "camelCase" ? CAMEL_CASE : 0) |
      (duplicates === "rename" ? RENAME_DUPLICATES : 0),
    limits: limitsOf({
      rows: limit("maxRows"),
      bytes: limit("maxBytes"),
      fieldBytes: limit("maxFieldBytes"),
      truncate: callOption(config, options, "onLimit") === "truncate",
    }),
    contentType,
    unique: duplicates === "error",
  };
}

/** Returns the names that columns have in rows of this form, by the core's rules (src/encode/header.rs). */
export function namesIn({ code }: Form, columns: readonly { readonly name: string }[]): string[] {
  const names = columns.map(({ name }) => (code & CAMEL_CASE ? camelCase(name) : name));
  return code & RENAME_DUPLICATES ? uniqueNames(names) : names;
}

/** Throws for `duplicates: "error"` if two columns have one name. */
export function checkNames(form: Form, columns: readonly { readonly name: string }[]): void {
  if (!form.unique) return;
  const seen = new Set<string>();
  for (const name of namesIn(form, columns)) {
    if (seen.has(name))
      throw new UsageError(
        "DUPLICATE_COLUMN",
        `Two columns are called "${name}": rename one with AS, or set option "duplicates".`,
      );
    seen.add(name);
  }
}

function camelCase(name: string): string {
  return name.replace(/(?<=[A-Za-z0-9])_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Renames, so that each name is used once. */
function uniqueNames(names: readonly string[]): string[] {
  /** Each used name, with the number up to which all of its numbered names are used. */
  const used = new Map<string, number>();
  for (const name of names) {
    let unique = name;
    let number = used.get(name) ?? 1;
    while (used.has(unique)) unique = `${name}_${++number}`;
    used.set(name, number).set(unique, 1);
  }
  return [...used.keys()];
}
