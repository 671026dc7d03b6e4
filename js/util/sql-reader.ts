// Reads SQL as PostgreSQL's lexer does (src/backend/parser/scan.l): one pass, in linear time, no further than the caller
// wants.
//
//   insert into "A;b" values (E'it\'s', $1) ; /* x /* y */ */ commit
//   word   word name  word   s text    s p  s ;              word      s: symbol, p: parameter
//
// Everything that has to know what a statement says asks here, so that no two places disagree. Comments nest; a quote,
// a comment or a semicolon within another of them means nothing.
//
// Knows tokens, and where a statement ends. Must not know what words mean (that is for the callers), nor errors: what
// is never closed goes to the end of the text, where the server reports a syntax error and runs nothing.

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
   * A backslash in '…' escapes, as with `standard_conforming_strings = off`. Who decides something by a text that
   * strangers wrote reads it both ways ({@link readings}), since a session or a role may have that setting.
   */
  readonly backslashes?: boolean;
  readonly comments?: boolean;
}

// Classes of ASCII characters. Every other one is a letter, as in the server: its lexer takes bytes from 128 on so.
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
  /** Of the current token, as are `start` and `end`. */
  kind: Kind = "end";
  start = 0;
  /** Behind its last character. */
  end = 0;
  readonly #text: string;
  readonly #backslashes: boolean;
  readonly #comments: boolean;
  /** Open parentheses: CREATE RULE has statements in them. */
  #depth = 0;
  readonly #routine = new RoutineBody();

  constructor(text: string, { backslashes = false, comments = false }: Reading = {}) {
    this.#text = text;
    this.#backslashes = backslashes;
    this.#comments = comments;
  }

  /** Goes to the next token and says of which kind it is. */
  next(): Kind {
    this.#read();
    if (this.kind === "comment") return this.kind;
    this.#routine.note(this, this.#depth);
    if (this.kind === "semicolon" && (this.#depth || this.#routine.isOpen)) this.kind = "symbol";
    return this.kind;
  }

  /** As it is written. */
  get text(): string {
    return this.#text.slice(this.start, this.end);
  }

  /**
   * The identifier or keyword as the server reads it: without quotes and escapes, or in lower case; else the token as it
   * is written. Keywords are words; a name in quotes is none.
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
   * What a string constant holds, where that is SQL of another language (`$$…$$`) or a word: without its quotes, and
   * with no escape undone.
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

  /** `from`: behind the opening quote. */
  #readString(from: number, backslashes: boolean): void {
    this.#take("text", backslashes ? afterEscapes(this.#text, from) : afterQuotes(this.#text, "'", from));
  }

  /** A parameter, a string in dollar quotes, or a character that the server refuses. */
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

  /** That of `U&"…" UESCAPE '!'`, which stands behind the name; E'\x21' and `'' ⏎ '!'` are the same. */
  #escapeCharacter(): string {
    const ahead = new SqlReader(this.#text);
    ahead.end = this.end;
    if (ahead.next() !== "word" || ahead.name !== "uescape") return "\\";
    let written = "";
    while (ahead.next() === "text") {
      // Without its E the string's parts come one by one.
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
 * `create function … begin atomic …; …; end`: its semicolons end no statement of the text. Its END, and no other one,
 * follows a semicolon or ATOMIC, because the grammar wants a semicolon behind each statement of the body.
 */
class RoutineBody {
  isOpen = false;
  /** The keywords so far may become `create [or replace] function`, or they have. */
  #state: "begins" | "creates" | "routine" | "other" = "begins";
  #before = "";

  /** `depth`: within parentheses stand parameters, one of which may be called begin and be of a type atomic. */
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
 * The readings of a text: one, and where it has a backslash a second one, because what that means depends on a setting
 * of the session that the text's reader cannot be sure of.
 */
export function readings(text: string): SqlReader[] {
  const reader = new SqlReader(text);
  return text.includes("\\") ? [reader, new SqlReader(text, { backslashes: true })] : [reader];
}

/**
 * The first word of the first statement that is not empty, in lower case; `""` where a statement begins otherwise.
 * Nothing is made but the word: every call asks.
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

/** Without the semicolons at its end, and the comments behind them. */
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

// -- ends of tokens: each takes the place where a token begins, or goes on, and returns the place behind it -----------

function classOf(code: number): number {
  return code < 128 ? CLASSES[code]! : code >= 128 ? LETTER : OTHER; // NaN behind the end of the text
}

function afterSpace(text: string, from: number): number {
  let at = from;
  while (classOf(text.charCodeAt(at)) === SPACE) at++;
  return at;
}

/** `from` itself where no comment begins. */
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

/** They nest. */
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

/** PostgreSQL 16 has `0x1f`, `0o17` and `0b11`; before, `x1f` is a word of no meaning. */
const RADIX = /^(?:x[\da-f]|o[0-7]|b[01])/i;

/**
 * Digits, a fraction and an exponent. A letter behind a digit begins a word: before PostgreSQL 15 `1into` is two tokens,
 * and from then on it is an error.
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

/** A quote twice is a character of what is quoted. */
function afterQuotes(text: string, quote: string, from: number): number {
  for (let at = from; ;) {
    const close = text.indexOf(quote, at);
    if (close < 0) return text.length;
    if (text.charCodeAt(close + 1) !== quote.charCodeAt(0)) return close + 1;
    at = close + 2;
  }
}

/**
 * Behind a string in which backslashes escape. It goes on behind blanks with a line's end in them, and the backslashes
 * there still escape: `E'a' ⏎ 'b\''`.
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

/** Behind the quote with which a string goes on; -1 where it does not. */
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

/** ASCII only, as the server does: `K` may be the Kelvin sign, whose lower case is `k`. */
function lowerCase(word: string): string {
  if (!/[A-Z]/.test(word)) return word;
  // Nearly every word is ASCII, and needs no function call for each run of letters.
  if (!/[^\0-\x7f]/.test(word)) return word.toLowerCase();
  return word.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** The one character that a string is, as E'…' may write it: `!`, `\x21`, `\41`, `\u0021`. */
function characterOf(written: string): string {
  if (!written.startsWith("\\")) return written;
  const kind = written.charCodeAt(1);
  const letter = kind | 32;
  if (letter === LETTER_X || letter === LETTER_U) return characterAt(parseInt(written.slice(2), 16));
  return classOf(kind) === DIGIT ? characterAt(parseInt(written.slice(1), 8)) : written.slice(1);
}

/** `""` where that is no character: the server refuses the text. */
function characterAt(code: number): string {
  return code <= 0x10ffff ? String.fromCodePoint(code) : "";
}

/** `\0061`, `\+000061` and `\\`, with any other character in the backslash's place. */
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
