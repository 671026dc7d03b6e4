// The official TOON document (toon-format/spec 4.0) from pgz's TOON lines: a root array in tabular form, comma as
// delimiter.
//
// Its first line says how many rows there are, so it can only be written when all have come: the result is held in
// memory. Values cross as text, never as JavaScript numbers, so no digit is lost. A cell must be primitive: json,
// arrays and composites become their JSON text.

import { encoder, type OwnBytes } from "../util/bytes.ts";

/** What a value's text starts with when it has to be taken apart by brackets. */
const NESTED = /^[[{]/;
const STRING = /"(?:[^"\\]|\\.)*"/y;
/** Section 7.2: what must stand between quotes. */
const QUOTED = /^$|^[\s#-]|\s$|^(?:true|false|null)$|^\+?\d+(?:\.\d+)?(?:e[+-]?\d+)?$|[:,"\\[\]{}\p{Cc}]/iu;
const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/;

export class ToonDocument {
  readonly #decoder = new TextDecoder();
  #rows: string[] = [];
  #fields: readonly string[] = [];
  /** The core's own first line, the names, is still to come. */
  #headed = false;

  columns(names: readonly string[]): void {
    this.#fields = names.map((name) => (/^[a-z_][\w.]*$/i.test(name) ? name : quote(name)));
    this.#rows = [];
    this.#headed = false;
  }

  /** Whole lines as the core writes them. */
  add(lines: Uint8Array): void {
    const texts = this.#decoder.decode(lines).split("\n").slice(0, -1);
    if (!this.#headed) texts.shift();
    this.#headed = true;
    // An object without members has no place in a table, so a result without columns is a list.
    for (const text of texts)
      this.#rows.push(this.#fields.length ? `\n  ${values(text).map(cell).join(",")}` : "\n  -");
  }

  /** The document. No newline at its end. */
  finish(): OwnBytes {
    const { length } = this.#rows;
    const fields = length && this.#fields.length ? `{${this.#fields.join(",")}}` : "";
    return encoder.encode(`[${length}]${fields}:${this.#rows.join("")}`);
  }
}

/** The values of one line, as they stand. */
function values(line: string): string[] {
  const found: string[] = [];
  let start = 0;
  let depth = 0;
  for (let at = 0; at < line.length; at++) {
    const character = line[at]!;
    if (character === '"') {
      STRING.lastIndex = at;
      STRING.test(line);
      at = STRING.lastIndex - 1;
    } else if (character === "[" || character === "{") depth++;
    else if (character === "]" || character === "}") depth--;
    else if (character === "," && depth === 0) {
      found.push(line.slice(start, at));
      start = at + 1;
    }
  }
  found.push(line.slice(start));
  return found;
}

/** White space around a json value is its user's, and would make a text of it. */
function cell(text: string): string {
  const json = text.trim();
  if (json.startsWith('"')) {
    const string = JSON.parse(json) as string;
    return QUOTED.test(string) ? quote(string) : string;
  }
  return NESTED.test(json) ? quote(json) : canonical(json);
}

/** Section 7.1. JSON's own escapes but for `\b` and `\f`, which TOON does not have. */
function quote(text: string): string {
  return JSON.stringify(text).replace(/\\(?:\\|([bf]))/g, (escape, letter) =>
    letter ? `\\u000${letter === "b" ? 8 : "c"}` : escape,
  );
}

/**
 * Section 2: no exponent from 1e-6 up to 1e21, no zeros that say nothing. What is no number (true, false, null) stays.
 */
function canonical(number: string): string {
  const [matched, sign, whole = "", fraction = "", exponent = 0] = NUMBER.exec(number) ?? [];
  if (matched === undefined) return number;
  const all = whole + fraction;
  const first = all.search(/[1-9]/);
  if (first < 0) return "0";
  const digits = all.slice(first).replace(/0+$/, "");
  const magnitude = whole.length + Number(exponent) - first - 1;
  const shown = (before: string, behind: string) => `${sign}${before}${behind && "."}${behind}`;
  if (magnitude < -6 || magnitude > 20)
    return `${shown(digits.charAt(0), digits.slice(1))}e${magnitude < 0 ? "" : "+"}${magnitude}`;
  return magnitude < 0
    ? shown("0", "0".repeat(-magnitude - 1) + digits)
    : shown(digits.slice(0, magnitude + 1).padEnd(magnitude + 1, "0"), digits.slice(magnitude + 1));
}
