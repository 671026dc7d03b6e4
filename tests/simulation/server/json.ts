// JSON as the server stores it: `json` as written, `jsonb` with sorted keys and one form of whitespace.
//
// Knows JSON's grammar, and keeps numbers as written. Must not know types.
import { PgError } from "./errors.ts";
import { parseNumeric } from "./numerics.ts";

/** Returns the text of `jsonb`. Throws the server's error for text that is not JSON. */
export function normalJson(text: string): string {
  return print(parseJson(text));
}

export function checkJson(text: string): string {
  parseJson(text);
  return text;
}

type Json = { number: string } | string | boolean | null | Json[] | Map<string, Json>;

const TOKEN = /\s*(?:([[\]{},:])|("(?:[^"\\]|\\.)*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|([A-Za-z]+))/y;

function parseJson(text: string): Json {
  let at = 0;
  let token = "";
  const wrong = (detail: string): PgError =>
    new PgError("22P02", "invalid input syntax for type json", {
      detail,
      where: `JSON data, line 1: ${text.slice(0, at)}`,
    });
  const next = (): string => {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    if (!found) {
      const rest = text.slice(at).trim();
      at = text.length;
      if (rest) throw wrong(`Token "${rest.split(/[\s,\]}]/)[0]}" is invalid.`);
      return (token = "");
    }
    at = TOKEN.lastIndex;
    token = found[0].trim();
    if (found[4] && !/^(true|false|null)$/.test(token)) throw wrong(`Token "${token}" is invalid.`);
    return token;
  };
  const value = (): Json => {
    if (token === "") throw wrong("The input string ended unexpectedly.");
    if (token === "[") return list();
    if (token === "{") return object();
    const scalar = scalarOf(token);
    if (scalar === undefined) throw wrong(`Token "${token}" is invalid.`);
    next();
    return scalar;
  };
  const list = (): Json => {
    const items: Json[] = [];
    if (next() !== "]") {
      items.push(value());
      while (token === ",") {
        next();
        items.push(value());
      }
    }
    close("]", 'Expected "," or "]"');
    return items;
  };
  const object = (): Json => {
    const entries = new Map<string, Json>();
    if (next() !== "}")
      for (;;) {
        if (!token.startsWith('"')) throw wrong(`Expected string or "}", but found "${token}".`);
        const key = JSON.parse(token) as string;
        if (next() !== ":") throw wrong(`Expected ":", but found "${token}".`);
        next();
        entries.set(key, value());
        if (token !== ",") break;
        next();
      }
    close("}", 'Expected "," or "}"');
    return entries;
  };
  const close = (end: string, expected: string): void => {
    if (token === "") throw wrong("The input string ended unexpectedly.");
    if (token !== end) throw wrong(`${expected}, but found "${token}".`);
    next();
  };
  next();
  const found = value();
  if (token !== "") throw wrong(`Expected end of input, but found "${token}".`);
  return found;
}

function scalarOf(token: string): Json | undefined {
  if (token.startsWith('"')) return JSON.parse(token) as string;
  if (/^-?\d/.test(token)) return { number: parseNumeric(token) };
  return { true: true, false: false, null: null }[token];
}

function print(json: Json): string {
  if (json === null || typeof json === "boolean") return String(json);
  if (typeof json === "string") return JSON.stringify(json);
  if (Array.isArray(json)) return `[${json.map(print).join(", ")}]`;
  if (!(json instanceof Map)) return json.number;
  const length = (key: string) => new TextEncoder().encode(key).length;
  const entries = [...json].sort(([a], [b]) => length(a) - length(b) || (a < b ? -1 : a > b ? 1 : 0));
  return `{${entries.map(([key, value]) => `${JSON.stringify(key)}: ${print(value)}`).join(", ")}}`;
}
