// Turns pgz's TOON lines into the official TOON document (toon-format/spec 4.0): a root array in tabular form with
// comma as delimiter.
//
// Its first line has the number of rows, so it can only be written when all rows have come: the result is held in
// memory. Values are handled as text, never as JavaScript numbers, so no digit is lost. A cell must be primitive: json,
// arrays and composites become their JSON text. The tests read the result with the specification's own decoder. The
// lines themselves are pgz's dialect, because it can be streamed.

import { encoder, type OwnBytes } from "../util/bytes.ts";

/** Matches the text of a JSON array or object. */
const NESTED = /^[[{]/;
const STRING = /"(?:[^"\\]|\\.)*"/y;
/** Section 7.2: text that must be quoted. */
const QUOTED = /^$|^[\s#-]|\s$|^(?:true|false|null)$|^\+?\d+(?:\.\d+)?(?:e[+-]?\d+)?$|[:,"\\[\]{}\p{Cc}]/iu;
const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/;

export class ToonDocument {
  readonly #decoder = new TextDecoder();
  #rows: string[] = [];
  #fields: readonly string[] = [];
  /** Whether the core's own first line, which has the names, has been dropped. */
  #headed = false;

  columns(names: readonly string[]): void {
    this.#fields = names.map((name) => (/^[a-z_][\w.]*$/i.test(name) ? name : quote(name)));
    this.#rows = [];
    this.#headed = false;
  }

  /** Adds whole lines as the core writes them. */
  add(lines: Uint8Array): void {
    const texts = this.#decoder.decode(lines).split("\n").slice(0, -1);
    if (!this.#headed) texts.shift();
    this.#headed = true;
    // A table cannot hold an object without members, so a result without columns is a list.
    for (const text of texts)
      this.#rows.push(this.#fields.length ? `\n  ${values(text).map(cell).join(",")}` : "\n  -");
  }

  /** Returns the document, with no newline at its end. */
  finish(): OwnBytes {
    const { length } = this.#rows;
    const fields = length && this.#fields.length ? `{${this.#fields.join(",")}}` : "";
    return encoder.encode(`[${length}]${fields}:${this.#rows.join("")}`);
  }
}

/** The values of one line, as they are written. */
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

/** White space around a json value comes from the user. It would turn the cell into a string. */
function cell(text: string): string {
  const json = text.trim();
  if (json.startsWith('"')) {
    const string = JSON.parse(json) as string;
    return QUOTED.test(string) ? quote(string) : string;
  }
  return NESTED.test(json) ? quote(json) : canonical(json);
}

/** Quotes by section 7.1: JSON's own escapes, except `\b` and `\f`, which TOON does not have. */
function quote(text: string): string {
  return JSON.stringify(text).replace(/\\(?:\\|([bf]))/g, (escape, letter) =>
    letter ? `\\u000${letter === "b" ? 8 : "c"}` : escape,
  );
}

/**
 * Writes a number by section 2: no exponent from 1e-6 up to 1e21, and no redundant zeros. Other literals (true, false,
 * null) are returned unchanged.
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
