// SQL's tokens, and a reader of them that every topic of statements uses.
//
// Knows PostgreSQL's lexical rules. Must not know what words mean. This reader is the model's own, because the driver's
// reader of SQL may be wrong.
import { PgError, syntaxError } from "./errors.ts";

export interface Token {
  readonly kind: "word" | "name" | "string" | "number" | "parameter" | "symbol" | "end";
  /** A word in lower case, a string's content, a parameter's number, or a symbol unchanged. */
  readonly text: string;
  /** The token as written. */
  readonly raw: string;
  readonly at: number;
}

const SPACE = /(?:\s|--[^\n]*)*/y;
const TOKEN = new RegExp(
  [
    /([A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)/, // 1: word
    /"((?:[^"]|"")+)"/, // 2: name
    /'((?:[^']|'')*)'/, // 3: string
    /\$(\d+)/, // 4: parameter
    /(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)/, // 5: number
    /(::|:=|[(),;[\].:]|[-+*/<>=~!@#%^&|`?]+)/, // 6: symbol
  ]
    .map(({ source }) => source)
    .join("|"),
  "y",
);
const ESCAPED = /[eE]'((?:[^'\\]|''|\\[^])*)'/y;
const DOLLARS = /\$([A-Za-z_]\w*)?\$/y;

export function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  for (let at = skipSpace(text, 0); at < text.length;) {
    const token = tokenAt(text, at);
    tokens.push(token);
    at = skipSpace(text, at + token.raw.length);
  }
  tokens.push({ kind: "end", text: "", raw: "", at: text.length });
  return tokens;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (;;) {
    SPACE.lastIndex = at;
    SPACE.exec(text);
    at = SPACE.lastIndex;
    if (!text.startsWith("/*", at)) return at;
    at = behindComment(text, at);
  }
}

function behindComment(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const isOpening = text.startsWith("/*", at);
    if (!isOpening && !text.startsWith("*/", at)) continue;
    depth += isOpening ? 1 : -1;
    at++;
    if (depth === 0) return at + 1;
  }
  throw new PgError("42601", `unterminated /* comment at or near "${text.slice(from)}"`, { at: from });
}

function tokenAt(text: string, at: number): Token {
  const made = (kind: Token["kind"], content: string, length: number): Token => ({
    kind,
    text: content,
    raw: text.slice(at, at + length),
    at,
  });
  ESCAPED.lastIndex = at;
  const escaped = ESCAPED.exec(text);
  if (escaped) return made("string", unescaped(escaped[1]!), escaped[0].length);
  DOLLARS.lastIndex = at;
  const dollars = DOLLARS.exec(text);
  if (dollars) {
    const end = text.indexOf(dollars[0], at + dollars[0].length);
    if (end < 0) throw unterminated("dollar-quoted string", text, at);
    return made("string", text.slice(at + dollars[0].length, end), end + dollars[0].length - at);
  }
  TOKEN.lastIndex = at;
  const found = TOKEN.exec(text);
  if (!found) {
    if (text[at] === "'") throw unterminated("quoted string", text, at);
    if (text[at] === '"') throw unterminated("quoted identifier", text, at);
    throw syntaxError(text[at]!, at);
  }
  const [raw, word, name, string, parameter, number] = found;
  if (word !== undefined) return made("word", word.toLowerCase(), raw.length);
  if (name !== undefined) return made("name", name.replaceAll('""', '"'), raw.length);
  if (string !== undefined) return made("string", string.replaceAll("''", "'"), raw.length);
  if (parameter !== undefined) return made("parameter", parameter, raw.length);
  if (number !== undefined) return made("number", number, raw.length);
  const symbol = operatorOf(raw);
  return made("symbol", symbol, symbol.length);
}

/** An operator ends before a comment. Only an operator with certain characters may end in a sign. */
function operatorOf(raw: string): string {
  let symbol = raw.replace(/(--|\/\*)[^]*$/, "");
  if (symbol.length > 1 && !/[~!@#%^&|`?:]/.test(symbol)) symbol = symbol.replace(/(?<=.)[+-]+$/, "");
  return symbol || raw[0]!;
}

function unterminated(what: string, text: string, at: number): PgError {
  return new PgError("42601", `unterminated ${what} at or near "${text.slice(at)}"`, { at });
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" };

function unescaped(text: string): string {
  return text.replace(/''|\\(u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{1,2}|[^])/g, (all, escape?: string) => {
    if (escape === undefined) return "'";
    if (/^[ux]./.test(escape)) return String.fromCharCode(parseInt(escape.slice(1), 16));
    return ESCAPES[escape] ?? all.slice(1);
  });
}

/** Reads tokens in order. */
export class TokenReader {
  #at = 0;
  readonly #tokens: readonly Token[];

  constructor(
    readonly source: string,
    tokens = tokensOf(source),
  ) {
    this.#tokens = tokens;
  }

  get token(): Token {
    return this.#tokens[this.#at]!;
  }

  peek(ahead = 1): Token {
    return this.#tokens[Math.min(this.#at + ahead, this.#tokens.length - 1)]!;
  }

  next(): Token {
    const { token } = this;
    if (this.#at < this.#tokens.length - 1) this.#at++;
    return token;
  }

  get isAtEnd(): boolean {
    const { kind, text } = this.token;
    return kind === "end" || (kind === "symbol" && text === ";");
  }

  /** Whether the next tokens are these words or symbols. */
  is(...texts: string[]): boolean {
    return texts.every((text, ahead) => {
      const token = this.peek(ahead);
      return (token.kind === "word" || token.kind === "symbol") && token.text === text;
    });
  }

  isOneOf(...texts: string[]): boolean {
    return texts.some((text) => this.is(text));
  }

  /** Skips these tokens if they come next. Returns whether they did. */
  accept(...texts: string[]): boolean {
    if (!this.is(...texts)) return false;
    for (let n = texts.length; n > 0; n--) this.next();
    return true;
  }

  expect(...texts: string[]): void {
    for (const text of texts) if (!this.accept(text)) throw this.wrong();
  }

  /** Reads an identifier. */
  name(): string {
    const { kind, text } = this.token;
    if (kind !== "word" && kind !== "name") throw this.wrong();
    this.next();
    return text;
  }

  string(): string {
    if (this.token.kind !== "string") throw this.wrong();
    return this.next().text;
  }

  number(): number {
    const sign = this.accept("-") ? -1 : 1;
    if (this.token.kind !== "number") throw this.wrong();
    return sign * Number(this.next().text);
  }

  /** Reads items separated by commas. */
  list<T>(item: () => T): T[] {
    const items = [item()];
    while (this.accept(",")) items.push(item());
    return items;
  }

  end(): void {
    if (!this.isAtEnd) throw this.wrong();
  }

  /** Returns the server's error for a token that has no place here. */
  wrong({ kind, raw, at } = this.token): PgError {
    return syntaxError(kind === "end" ? undefined : raw, at);
  }
}
