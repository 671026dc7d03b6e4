// Text that a terminal may be sent: a server's text has no effect there but its letters.
//
// Knows which characters move the cursor, set a title or change the direction of a line. Must not know where text goes.

/** Control characters of ASCII (DEL too) and of C1, and those that change the direction of a line. */
// eslint-disable-next-line no-control-regex -- these are what is looked for
const CONTROLS = /[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** The same, but ends of lines and tabs stay. */
// eslint-disable-next-line no-control-regex -- as above
const BUT_LINES = /\r(?!\n)|[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Writes control characters as JSON does, ends of lines and tabs too: for a cell, a name or a word. */
export function printableWord(text: string): string {
  return text.replace(CONTROLS, escaped);
}

/** Writes control characters as JSON does, so JSON stays JSON: for lines. */
export function printable(text: string): string {
  return text.replace(BUT_LINES, escaped);
}

function escaped(one: string): string {
  const json = JSON.stringify(one).slice(1, -1);
  return json === one ? `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}` : json;
}

/** Makes data printable that arrive in pieces, which may be cut anywhere. Bytes that are not UTF-8 become U+FFFD. */
export class PrintableData {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** A carriage return at the end of a piece: the line feed that makes it the end of a line may follow. */
  #held = "";

  next(piece: Uint8Array | string): string {
    return this.#next(typeof piece === "string" ? piece : this.#decoder.decode(piece, { stream: true }));
  }

  /** Returns what the pieces so far have left. */
  end(): string {
    return printable(this.#held + this.#decoder.decode());
  }

  #next(text: string): string {
    const all = this.#held + text;
    this.#held = all.endsWith("\r") ? "\r" : "";
    return printable(this.#held ? all.slice(0, -1) : all);
  }
}
