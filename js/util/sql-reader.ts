// Reads SQL as PostgreSQL's lexer does (src/backend/parser/scan.l): in one pass, in linear time, and only as far as the
// caller asks.
//
//   insert into "A;b" values (E'it\'s', $1) ; /* x /* y */ */ commit
//   word   word name  word   s text    s p  s ;              word      s: symbol, p: parameter
//
// All code that must know what a statement says uses this reader, so that no two places disagree. Comments nest. A
// quote, a comment or a semicolon within another of them has no meaning.
//
// Knows tokens, and where a statement ends. Must not know what words mean (the callers do), nor errors: an unclosed
// quote or comment extends to the end of the text, where the server reports a syntax error and runs nothing.

export type Kind =
  | "word" // an identifier or keyword without quotes
  | "name" // an identifier in double quotes, U&"…" too
  | "text" // a string constant: '…', E'…', U&'…', B'…', X'…', N'…', $tag$…$tag$
  | "number"
  | "parameter" // $1
  | "symbol" // any other character
  | "comment" // only if comments are asked for
  | "semicolon" // the end of a statement
  | "end"; // of the text

export interface Reading {
  /**
   * A backslash in '…' escapes, as with `standard_conforming_strings = off`. Code that decides by a text of unknown
   * origin must read it both ways ({@link readings}), since a session or a role may have that setting.
   */
  readonly backslashes?: boolean;
  readonly comments?: boolean;
}

// Classes of ASCII characters. Every other character is a letter: so are bytes from 128 on in the server's lexer.
const OTHER = 0,
  SPACE = 1,
  LETTER = 2,
  DIGIT = 3,
  /** Part of an identifier, but not its first character. */
  DOLLAR = 4;
const CLASSES = new Uint8Array(128);
for (const space of " \t\n\r\f\v") CLASSES[space.charCodeAt(0)] = SPACE;
for (let code = 48; code < 58; code++) CLASSES[code] = DIGIT;
for (let code = 65; code < 91; code++) CLASSES[code] = CLASSES[code + 32] = LETTER;
CLASSES[95] = LETTER; // _
CLASSES[36] = DOLLAR;

const LINE_FEED = 10,
  RETURN = 13,
  DOUBLE_QUOTE = 34,
  DOLLAR_SIGN = 36,
  AMPERSAND = 38,
  QUOTE = 39,
  OPEN = 40,
  CLOSE = 41,
  STAR = 42,
  PLUS = 43,
  MINUS = 45,
  DOT = 46,
  SLASH = 47,
  ZERO = 48,
  SEMICOLON = 59,
  BACKSLASH = 92,
  UNDERSCORE = 95;

export class SqlReader {
  /** The kind of the current token. `start` and `end` are its position. */
  kind: Kind = "end";
  start = 0;
  /** The index after the token's last character. */
  end = 0;
  readonly #text: string;
  readonly #backslashes: boolean;
  readonly #comments: boolean;
  /** Number of open parentheses: CREATE RULE has statements in them. */
  #depth = 0;
  readonly #routine = new RoutineBody();

  constructor(text: string, { backslashes = false, comments = false }: Reading = {}) {
    this.#text = text;
    this.#backslashes = backslashes;
    this.#comments = comments;
  }

  /** Moves to the next token and returns its kind. */
  next(): Kind {
    this.#read();
    if (this.kind === "comment") return this.kind;
    this.#routine.note(this, this.#depth);
    if (this.kind === "semicolon" && (this.#depth || this.#routine.isOpen)) this.kind = "symbol";
    return this.kind;
  }

  /** The token as it is written. */
  get text(): string {
    return this.#text.slice(this.start, this.end);
  }

  /**
   * The identifier or keyword as the server reads it: without quotes and escapes, or in lower case. Any other token as
   * it is written. Keywords have the kind `word`; a quoted name is never a keyword.
   */
  get name(): string {
    if (this.kind === "word") return lowerCase(this.text);
    if (this.kind !== "name") return this.text;
    const { text } = this;
    const quoted = text.slice(text.indexOf('"') + 1, text.length > 1 && text.endsWith('"') ? -1 : undefined);
    const plain = quoted.replaceAll('""', '"');
    return text.startsWith('"') ? plain : unescaped(plain, this.#escapeCharacter());
  }

  /**
   * The content of a string constant that is a body of code (`$$…$$`) or a word: without its quotes, and with its
   * escapes as they are written.
   */
  get content(): string {
    const { text } = this;
    const tag = text.startsWith("$") ? text.indexOf("$", 1) + 1 : text.indexOf("'") + 1;
    return text.slice(tag, Math.max(tag, text.length - (text.startsWith("$") ? tag : 1)));
  }

  #read(): void {
    const text = this.#text;
    for (;;) {
      const start = (this.start = afterSpace(text, this.end));
      if (start >= text.length) return this.#take("end", text.length);
      const comment = afterComment(text, start);
      if (comment === start) return this.#readToken(start);
      this.#take("comment", comment);
      if (this.#comments) return;
    }
  }

  #readToken(start: number): void {
    const text = this.#text;
    const code = text.charCodeAt(start);
    const next = text.charCodeAt(start + 1);
    switch (classOf(code)) {
      case LETTER:
        return this.#readWord(start, code, next);
      case DIGIT:
        return this.#take("number", afterNumber(text, start));
      case DOLLAR:
        return this.#readDollar(start);
    }
    if (code === QUOTE) return this.#readString(start + 1, this.#backslashes);
    if (code === DOUBLE_QUOTE) return this.#take("name", afterQuotes(text, '"', start + 1));
    if (code === SEMICOLON) return this.#take("semicolon", start + 1);
    if (code === DOT && classOf(next) === DIGIT) return this.#take("number", afterNumber(text, start));
    if (code === OPEN) this.#depth++;
    if (code === CLOSE && this.#depth) this.#depth--;
    this.#take("symbol", start + 1);
  }

  #readWord(start: number, code: number, next: number): void {
    const text = this.#text;
    const letter = code | 32;
    if (next === QUOTE && (letter === LETTER_E || letter === LETTER_B || letter === LETTER_X || letter === LETTER_N))
      return this.#readString(start + 2, letter === LETTER_E || (letter === LETTER_N && this.#backslashes));
    if (letter === LETTER_U && next === AMPERSAND) {
      const quote = text.charCodeAt(start + 2);
      if (quote === QUOTE) return this.#readString(start + 3, false);
      if (quote === DOUBLE_QUOTE) return this.#take("name", afterQuotes(text, '"', start + 3));
    }
    this.#take("word", afterWord(text, start));
  }

  /** `from` is the index after the opening quote. */
  #readString(from: number, backslashes: boolean): void {
    this.#take("text", backslashes ? afterEscapes(this.#text, from) : afterQuotes(this.#text, "'", from));
  }

  /** Reads a parameter, a string in dollar quotes, or a character that the server refuses. */
  #readDollar(start: number): void {
    const text = this.#text;
    let end = start + 1;
    if (classOf(text.charCodeAt(end)) === DIGIT) {
      while (classOf(text.charCodeAt(end)) === DIGIT) end++;
      return this.#take("parameter", end);
    }
    for (let found = classOf(text.charCodeAt(end)); found === LETTER || found === DIGIT;)
      found = classOf(text.charCodeAt(++end));
    if (text.charCodeAt(end) !== DOLLAR_SIGN) return this.#take("symbol", start + 1);
    const tag = text.slice(start, end + 1);
    const close = text.indexOf(tag, end + 1);
    this.#take("text", close < 0 ? text.length : close + tag.length);
  }

  #take(kind: Kind, end: number): void {
    this.kind = kind;
    this.end = end;
  }

  /** The escape character of `U&"…" UESCAPE '!'`, which follows the name. E'\x21' and `'' ⏎ '!'` mean the same. */
  #escapeCharacter(): string {
    const ahead = new SqlReader(this.#text);
    ahead.end = this.end;
    if (ahead.next() !== "word" || ahead.name !== "uescape") return "\\";
    let written = "";
    while (ahead.next() === "text") {
      // Skips the E: without it the parts of the string come one by one.
      if ((ahead.text.charCodeAt(0) | 32) === LETTER_E) ahead.end = ahead.start + 1;
      else written += ahead.content;
    }
    return characterOf(written) || "\\";
  }
}

const LETTER_B = 98,
  LETTER_E = 101,
  LETTER_N = 110,
  LETTER_U = 117,
  LETTER_X = 120;

/**
 * `create function … begin atomic …; …; end`: its semicolons end no statement of the text. Its own END, and no other
 * END, follows a semicolon or ATOMIC, because the grammar requires a semicolon after each statement of the body.
 */
class RoutineBody {
  isOpen = false;
  /** How far the tokens have matched `create [or replace] function`. */
  #state: "begins" | "creates" | "routine" | "other" = "begins";
  #before = "";

  /**
   * `depth`: tokens in parentheses are skipped, since a parameter may be called begin and have a type called atomic.
   */
  note(reader: SqlReader, depth: number): void {
    const { kind } = reader;
    if (kind === "semicolon" && !this.isOpen) this.#state = "begins";
    else if (this.#state !== "other" && !depth) this.#noteToken(kind === "word" ? reader.name : kind);
  }

  #noteToken(token: string): void {
    if (this.#state === "begins") this.#state = token === "create" ? "creates" : "other";
    else if (this.#state === "creates") {
      if (token === "function" || token === "procedure") this.#state = "routine";
      else if (token !== "or" && token !== "replace") this.#state = "other";
    } else if (!this.isOpen) this.isOpen = token === "atomic" && this.#before === "begin";
    else if (token === "end" && (this.#before === "semicolon" || this.#before === "atomic")) this.isOpen = false;
    this.#before = token;
  }
}

/**
 * The readings of a text: one, and a second one if it has a backslash, whose meaning depends on a setting of the
 * session that the caller cannot be sure of.
 */
export function readings(text: string): SqlReader[] {
  const reader = new SqlReader(text);
  return text.includes("\\") ? [reader, new SqlReader(text, { backslashes: true })] : [reader];
}

/**
 * The first word of the first statement that is not empty, in lower case; `""` if that statement does not begin with a
 * word. Only the word is allocated, because this runs for every call.
 */
export function firstWord(text: string): string {
  let at = 0;
  for (let from = -1; from !== at;) {
    from = at;
    at = afterComment(text, afterSpace(text, at));
    if (text.charCodeAt(at) === SEMICOLON) at++;
  }
  return classOf(text.charCodeAt(at)) === LETTER ? lowerCase(text.slice(at, afterWord(text, at))) : "";
}

/** The first word of each statement, in lower case. If a text can be read in two ways: of both. */
export function firstWords(text: string): string[] {
  return text.includes(";") ? readings(text).flatMap(beginnings) : [firstWord(text)];
}

function beginnings(reader: SqlReader): string[] {
  const words: string[] = [];
  for (let before: Kind = "semicolon"; reader.next() !== "end"; before = reader.kind)
    if (before === "semicolon" && reader.kind === "word") words.push(reader.name);
  return words;
}

/** Whether more than one statement would run. */
export function hasSeveral(text: string): boolean {
  return text.includes(";") && readings(text).some(hasSecond);
}

function hasSecond(reader: SqlReader): boolean {
  let statements = 0;
  for (let before: Kind = "semicolon"; reader.next() !== "end"; before = reader.kind)
    if (reader.kind !== "semicolon" && before === "semicolon" && ++statements > 1) return true;
  return false;
}

/** Returns the text without the semicolons at its end, and without the comments after them. */
export function withoutEnd(text: string): string {
  const reader = new SqlReader(text);
  while (reader.next() !== "end")
    if (reader.kind === "semicolon") {
      const { start } = reader;
      while (reader.kind === "semicolon") reader.next();
      return reader.kind === "end" ? text.slice(0, start) : text;
    }
  return text;
}

// -- ends of tokens: each takes the index where a token begins or continues, and returns the index after the token ----

function classOf(code: number): number {
  return code < 128 ? CLASSES[code]! : code >= 128 ? LETTER : OTHER; // NaN after the end of the text
}

function afterSpace(text: string, from: number): number {
  let at = from;
  while (classOf(text.charCodeAt(at)) === SPACE) at++;
  return at;
}

/** Returns `from` itself if no comment begins there. */
function afterComment(text: string, from: number): number {
  const code = text.charCodeAt(from);
  const next = text.charCodeAt(from + 1);
  if (code === MINUS && next === MINUS) return afterLine(text, from);
  return code === SLASH && next === STAR ? afterBlock(text, from) : from;
}

function afterLine(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); code !== LINE_FEED && code !== RETURN && at < text.length;)
    code = text.charCodeAt(++at);
  return at;
}

/** Block comments nest. */
function afterBlock(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length;) {
    const code = text.charCodeAt(at);
    const next = text.charCodeAt(at + 1);
    if (code === SLASH && next === STAR) depth++;
    else if (code === STAR && next === SLASH) depth--;
    else {
      at++;
      continue;
    }
    at += 2;
    if (!depth) return at;
  }
  return text.length;
}

function afterWord(text: string, from: number): number {
  let at = from;
  for (let found = LETTER; found === LETTER || found === DIGIT || found === DOLLAR;)
    found = classOf(text.charCodeAt(++at));
  return at;
}

/** PostgreSQL 16 has `0x1f`, `0o17` and `0b11`. In earlier versions `x1f` is a word without a meaning. */
const RADIX = /^(?:x[\da-f]|o[0-7]|b[01])/i;

/**
 * Reads digits, a fraction and an exponent. A letter after a digit begins a word: before PostgreSQL 15 `1into` is two
 * tokens, and since then it is an error.
 */
function afterNumber(text: string, from: number): number {
  if (text.charCodeAt(from) === ZERO && RADIX.test(text.slice(from + 1, from + 3))) return afterWord(text, from + 1);
  let at = afterDigits(text, from);
  if (text.charCodeAt(at) === DOT) at = afterDigits(text, at + 1);
  if ((text.charCodeAt(at) | 32) !== LETTER_E) return at;
  const sign = text.charCodeAt(at + 1);
  const digits = sign === PLUS || sign === MINUS ? at + 2 : at + 1;
  return classOf(text.charCodeAt(digits)) === DIGIT ? afterDigits(text, digits) : at;
}

/** PostgreSQL 16 has `1_000`. */
function afterDigits(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    if (classOf(code) !== DIGIT && !(code === UNDERSCORE && classOf(text.charCodeAt(at + 1)) === DIGIT)) return at;
    at++;
  }
}

/** A doubled quote is a character of the quoted text. */
function afterQuotes(text: string, quote: string, from: number): number {
  for (let at = from; ;) {
    const close = text.indexOf(quote, at);
    if (close < 0) return text.length;
    if (text.charCodeAt(close + 1) !== quote.charCodeAt(0)) return close + 1;
    at = close + 2;
  }
}

/**
 * Returns the index after a string in which backslashes escape. The string may continue after white space with a line
 * end in it, and backslashes still escape there: `E'a' ⏎ 'b\''`.
 */
function afterEscapes(text: string, from: number): number {
  for (let at = from; at < text.length;) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at += 2;
    else if (code !== QUOTE) at++;
    else if (text.charCodeAt(at + 1) === QUOTE) at += 2;
    else {
      const next = continued(text, at + 1);
      if (next < 0) return at + 1;
      at = next;
    }
  }
  return text.length;
}

/** Returns the index after the quote with which a string continues, or -1 if it does not. */
function continued(text: string, from: number): number {
  let hasLineEnd = false;
  for (let at = from; ;) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return hasLineEnd ? at + 1 : -1;
    if (code === MINUS && text.charCodeAt(at + 1) === MINUS) at = afterLine(text, at);
    else if (classOf(code) !== SPACE) return -1;
    else {
      hasLineEnd ||= code === LINE_FEED || code === RETURN;
      at++;
    }
  }
}

// -- identifiers -----------------------------------------------------------------------------------------------------

/** ASCII only, as in the server: `K` may be the Kelvin sign, whose lower case is `k`. */
function lowerCase(word: string): string {
  if (!/[A-Z]/.test(word)) return word;
  // Nearly every word is ASCII, and needs no function call for each run of letters.
  if (!/[^\0-\x7f]/.test(word)) return word.toLowerCase();
  return word.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Returns the one character of a string, which E'…' may write as `!`, `\x21`, `\41`, `\u0021`. */
function characterOf(written: string): string {
  if (!written.startsWith("\\")) return written;
  const kind = written.charCodeAt(1);
  const letter = kind | 32;
  if (letter === LETTER_X || letter === LETTER_U) return characterAt(parseInt(written.slice(2), 16));
  return classOf(kind) === DIGIT ? characterAt(parseInt(written.slice(1), 8)) : written.slice(1);
}

/** Returns `""` if the code is not a character, such as of `\-a`: the server refuses the text. */
function characterAt(code: number): string {
  return code >= 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "";
}

/** Undoes `\0061`, `\+000061` and `\\`, where `escape` takes the place of the backslash. */
function unescaped(name: string, escape: string): string {
  let plain = "";
  for (let at = 0; at < name.length;) {
    if (name[at] !== escape) plain += name[at++]!;
    else if (name[at + 1] === escape) {
      plain += escape;
      at += 2;
    } else {
      const [from, to] = name[at + 1] === "+" ? [at + 2, at + 8] : [at + 1, at + 5];
      plain += characterAt(parseInt(name.slice(from, to), 16));
      at = to;
    }
  }
  return plain;
}
