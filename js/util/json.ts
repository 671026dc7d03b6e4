// Turns a value into JSON, and refuses what JSON.stringify would lose: NaN becomes null there, and a Map becomes {}.
// Also marks text that is JSON already.
//
// Must not know which type a parameter has.
import { UsageError } from "./errors.ts";
import { isThenable } from "./text.ts";

/** The text, or in a few words why there is none, such as `its .a[0] is NaN`. */
type Json = { readonly text: string } | { readonly why: string; readonly cause?: unknown };

/** Objects whose content JSON.stringify does not see. */
const CLOSED = new Set("Map Set WeakMap WeakSet RegExp Error Promise ArrayBuffer SharedArrayBuffer".split(" "));

/**
 * Members that are `undefined` or functions are left out, and `toJSON` is called, as JSON.stringify does. The value is
 * looked through only if its text contains what a loss looks like, because that takes as long again.
 */
export function jsonOf(value: unknown): Json {
  if (isThenable(value)) return { why: "it is a promise (await it first)" };
  let text: string | undefined;
  try {
    text = JSON.stringify(value) as string | undefined;
  } catch (cause) {
    const isCycle = /circular|cyclic/i.test(String(cause)); // V8's word, and JavaScriptCore's
    const otherwise = isCycle ? "it contains itself" : "JSON.stringify fails with what is the cause";
    return { why: lossIn(value, true) ?? otherwise, cause };
  }
  if (text === undefined) return { why: `JSON has no ${typeof value}` };
  const why = text.includes("null") || text.includes("{}") ? lossIn(value, false) : undefined;
  return why === undefined ? { text } : { why };
}

/** Returns where something would be lost, and what. `orRefused`: also what JSON.stringify throws at. */
function lossIn(value: unknown, orRefused: boolean): string | undefined {
  // What JSON.stringify accepts contains no circle.
  const seen = orRefused ? new Set<unknown>() : undefined;
  const found = find(value, seen);
  return found && (found.startsWith(" ") ? `it${found}` : `its ${found}`);
}

/** Returns such as `.a[0] is NaN`, or ` is NaN` of the value itself. */
function find(value: unknown, seen: Set<unknown> | undefined): string | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : ` is ${value}`;
  if (typeof value === "bigint") return seen && " is a bigint (pass its text)";
  if (typeof value !== "object" || value === null || seen?.has(value)) return undefined;
  seen?.add(value);
  if (Array.isArray(value)) return findIn(value, (index) => `[${index}]`, seen);
  const what = Object.getPrototypeOf(value) === Object.prototype ? undefined : closed(value);
  if (what !== undefined) return ` is ${what}`;
  return "toJSON" in value ? undefined : findIn(value, (name) => `.${name}`, seen);
}

function findIn(object: object, step: (name: string) => string, seen: Set<unknown> | undefined): string | undefined {
  for (const name of Object.keys(object)) {
    const found = find((object as Record<string, unknown>)[name], seen);
    if (found !== undefined) return step(name) + found;
  }
  return undefined;
}

/** Returns what an object is if JSON.stringify does not see its content. */
function closed(object: object): string | undefined {
  const tag = Object.prototype.toString.call(object).slice(8, -1);
  if (tag === "Date" && Number.isNaN(Number(object))) return "an invalid Date";
  if ("toJSON" in object) return undefined;
  if (isThenable(object)) return "a promise (await it first)";
  return CLOSED.has(tag) ? `of type ${tag}` : undefined;
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
