// Turns a value into JSON, and refuses what JSON.stringify would lose: it writes null for NaN, {} for a Map, and
// {"0":1} for bytes.
// It refuses the driver's own objects too: a query is SQL, and would be stored with its values.
// Also marks text that is JSON already.
//
// Must not know which type a parameter has.
import { UsageError } from "./errors.ts";
import { isOfDriver, isQuery } from "./shown.ts";
import { isThenable } from "./text.ts";

/** The text, or in a few words why there is none, such as `its .a[0] is NaN`. */
type Json = { readonly text: string } | { readonly why: string; readonly cause?: unknown };

/** Whether the text may have a loss: null, {}, bytes, or members of a query or of a prepared statement. */
function mayHaveLost(text: string): boolean {
  // Not one expression: with the text of a query in it, it overflows the stack at ten million letters.
  return /null|\{\}|\{"0":/.test(text) || (text.includes('{"text":') && /,"(values|parameterTypes)":\[/.test(text));
}

/**
 * Members that are `undefined` or functions are left out, and `toJSON` is called, as JSON.stringify does. What would be
 * lost becomes null, {} or an object with the name 0. A query begins with its text, and a client has a {}. The value is
 * looked through only if the text has one of them: that takes up to twice as long.
 */
export function jsonOf(value: unknown): Json {
  let text: string | undefined;
  try {
    if (isThenable(value)) return { why: "it is a promise (await it first)" };
    text = JSON.stringify(value) as string | undefined;
  } catch (cause) {
    const isCycle = /circular|cyclic/i.test(String(cause)); // V8's word, and JavaScriptCore's
    const otherwise = isCycle ? "it contains itself" : "JSON.stringify fails, see the cause";
    return { why: orUndefined(() => lossIn(value, true)) ?? otherwise, cause };
  }
  if (text === undefined) return { why: `JSON has no ${typeof value}` };
  const why = mayHaveLost(text) ? orUndefined(() => lossIn(value, false)) : undefined;
  return why === undefined ? { text } : { why };
}

/** Code of the user's runs a second time, getters and proxies. If it fails now, nothing is known of a loss. */
function orUndefined<Result>(look: () => Result): Result | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

/** An object that is looked through, and where it is. */
interface Place {
  readonly object: object;
  /** Its name or index in the object of `parent`. */
  readonly name?: string | number;
  readonly parent?: Place;
}

/**
 * Returns where something would be lost, and what. `orRefused`: also what JSON.stringify throws at. Not recursive,
 * because a value may be as deep as JSON.stringify can go.
 */
function lossIn(value: unknown, orRefused: boolean): string | undefined {
  const what = lossOf(value, orRefused);
  if (what !== undefined) return `it is ${what}`;
  if (!hasContent(value)) return undefined;
  const seen = new Set<object>([value]);
  const places: Place[] = [{ object: value }];
  for (let parent; (parent = places.pop());) {
    const { object } = parent;
    // Of an array only the items are written.
    for (const name of Array.isArray(object) ? object.keys() : Object.keys(object)) {
      const item = (object as Record<string | number, unknown>)[name];
      const what = lossOf(item, orRefused);
      if (what !== undefined) return `its ${pathOf({ object, name, parent })} is ${what}`;
      if (!hasContent(item) || seen.has(item)) continue;
      seen.add(item);
      places.push({ object: item, name, parent });
    }
  }
  return undefined;
}

/** Such as `.a[0]`. A name may be data, such as an address: then it is not repeated. */
function pathOf({ name, parent }: Place): string {
  if (name === undefined || !parent) return "";
  const isWord = typeof name === "string" && /^[A-Za-z_$][\w$]{0,39}$/.test(name);
  return pathOf(parent) + (isWord ? `.${name}` : `[${typeof name === "number" ? name : "…"}]`);
}

function hasContent(value: unknown): value is object {
  return typeof value === "object" && value !== null && !hasToJson(value);
}

function lossOf(value: unknown, orRefused: boolean): string | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : String(value);
  if (typeof value === "bigint") return orRefused ? "a bigint (pass its text)" : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  if (isOfDriver(value)) return lossOfOwn(value);
  if (value instanceof Date && Number.isNaN(value.getTime())) return "an invalid Date";
  if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype || hasToJson(value)) return undefined;
  return lossOfContent(value);
}

/** Of an object that is neither plain nor an array. A tag that is not `Object` says that its content is elsewhere. */
function lossOfContent(object: object): string | undefined {
  if (object instanceof Number) return lossOf(object.valueOf(), false);
  if (ArrayBuffer.isView(object)) return "bytes (JSON has none: pass them as base64 or hex text)";
  if (object instanceof String || object instanceof Boolean || Object.keys(object).length > 0) return undefined;
  const tag = Object.prototype.toString.call(object).slice(8, -1);
  if (tag === "Promise") return "a promise (await it first)";
  return tag === "Object" ? undefined : `of type ${tag}, whose content JSON.stringify does not see`;
}

/** Of a query, a client or another object of the driver. */
function lossOfOwn(object: object): string {
  if (!isQuery(object)) return "an object of the driver (no value of JSON)";
  return "a query (a fragment is no value of JSON: write jsonb_build_object in the SQL)";
}

function hasToJson(object: object): boolean {
  return typeof (object as { toJSON?: unknown }).toJSON === "function";
}

/**
 * Marks JSON text that is sent unchanged. A registered symbol, so that it also works between two copies of the package.
 */
const JSON_TEXT = Symbol.for("pgz-edge.json");

/** The result of `sql.json`: a parameter that is JSON, whatever its value. */
export class JsonText {
  declare readonly [JSON_TEXT]: string;

  /** @throws UsageError `INVALID_PARAMETER` for a value that JSON cannot represent */
  constructor(value: unknown) {
    const json = jsonOf(value);
    if (!("text" in json))
      throw new UsageError(
        "INVALID_PARAMETER",
        `sql.json needs a value that JSON can represent: ${json.why}.`,
        json.cause === undefined ? undefined : { cause: json.cause },
      );
    Object.defineProperty(this, JSON_TEXT, { value: json.text });
    Object.freeze(this);
  }

  /**
   * Inside another JSON value it is the value that it was made from.
   *
   * @example
   * JSON.stringify({ note: sql.json({ a: 1 }) }); // {"note":{"a":1}}
   */
  toJSON(): unknown {
    return JSON.parse(this[JSON_TEXT]);
  }
}

export function jsonTextOf(value: unknown): string | undefined {
  return typeof value === "object" && value !== null ? (value as { [JSON_TEXT]?: string })[JSON_TEXT] : undefined;
}
