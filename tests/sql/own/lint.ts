// Finds names in a statement that search_path decides.
//
// PostgreSQL's parser looks up a bare name in every schema on the path. pg_catalog is first there, but that protects
// only exact matches: for `oid = int4` it has none, so an operator of any schema on the path may win. So each function,
// operator, type and relation must have its schema. Constructs whose operator cannot have one are refused: IN, NULLIF,
// BETWEEN, LIKE, USING, a simple CASE, IS DISTINCT FROM, a comparison of rows. Key words of the grammar (int, bigint,
// COALESCE, GREATEST, current_user) always mean PostgreSQL's own.
//
// Knows tokens (js/util/sql-reader.ts), and the part of the grammar that the statements of list.ts use. Whatever else
// it meets, it refuses. Must not know what a name means: server.test.ts asks the server.
import { SqlReader, type Kind } from "../../../js/util/sql-reader.ts";

interface Token {
  readonly kind: Kind;
  /** In lower case, unless it was in quotes. */
  readonly name: string;
  /** The content of a text. */
  readonly content: string;
}

/** Types that are key words of the grammar. `text`, `oid`, `name`, `int4` and the like are not. */
const KEYWORD_TYPES = new Set(["int", "integer", "bigint", "smallint", "boolean", "bit", "timestamp"]);

/** Words before which a parenthesis opens no arguments of a function. */
const BEFORE_PARENTHESIS = new Set(
  `select where and or not when then else case any all some exists array coalesce greatest least values as over within
   from join lateral on operator except intersect limit offset having by with union only group`.split(/\s+/),
);

/** Constructs that search by a bare operator or function, and commands with a relation that no FROM announces. */
const REFUSED = new Set(
  `insert update delete merge truncate lock copy table nullif between like ilike similar using natural in row overlaps
   extract substring overlay trim position collate xmlserialize xmlelement collation isnull notnull at treat
   normalize`.split(/\s+/),
);

/** Words that may be in front of a text. Any other word there is a type's name. */
const BEFORE_TEXT = new Set("select then else when and or where limit do execute".split(" "));

/** Words after which a parenthesis holds a value, or several: a row. */
const BEFORE_VALUE = new Set("select where and or not when then else on having by".split(" "));

const OPERATOR = /^[-+*/<>=~!@#%^&|`?]$/;
/** Words that end the list after FROM. */
const AFTER_FROM = new Set("where group order limit union having window offset except intersect".split(" "));

/** Returns what is wrong with the statements of the text, a line each. */
export function faultsOf(text: string): string[] {
  const statements: Token[][] = [[]];
  for (const token of tokensOf(text))
    if (token.kind === "semicolon") statements.push([]);
    else statements.at(-1)!.push(token);
  return statements.flatMap((tokens) => new Linter(tokens).run());
}

function tokensOf(text: string): Token[] {
  const reader = new SqlReader(text);
  const tokens: Token[] = [];
  for (let kind = reader.next(); kind !== "end"; kind = reader.next())
    tokens.push({ kind, name: reader.name, content: kind === "text" ? reader.content : "" });
  return tokens;
}

const NONE: Token = { kind: "end", name: "", content: "" };

class Linter {
  readonly #tokens: readonly Token[];
  readonly #faults: string[] = [];
  /** Names of WITH, which hide every relation. */
  readonly #ctes: ReadonlySet<string>;
  /** By the index of an opening parenthesis or bracket: the index of its end. */
  readonly #ends = new Map<number, number>();

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
    const open: number[] = [];
    for (const [at, { kind, name }] of tokens.entries()) {
      if (kind !== "symbol") continue;
      if (name === "(" || name === "[") open.push(at);
      else if (name === ")" || name === "]") this.#ends.set(open.pop() ?? -1, at);
    }
    this.#ctes = new Set(this.#namesOfWith());
  }

  run(): string[] {
    // SET and the like look up nothing. Their names are settings.
    if (this.#isWord(0, "set") || this.#isWord(0, "do")) this.#readBodies();
    else for (const at of this.#tokens.keys()) this.#readToken(at);
    return this.#faults;
  }

  #at(at: number): Token {
    return this.#tokens[at] ?? NONE;
  }

  #isWord(at: number, name: string): boolean {
    return this.#at(at).kind === "word" && this.#at(at).name === name;
  }

  #isSymbol(at: number, name: string): boolean {
    return this.#at(at).kind === "symbol" && this.#at(at).name === name;
  }

  #isName(at: number): boolean {
    return this.#at(at).kind === "word" || this.#at(at).kind === "name";
  }

  /** Whether this name has pg_catalog in front, which no table's alias hides: there `pg_catalog.f(` is a function. */
  #isQualified(at: number): boolean {
    return this.#isSymbol(at - 1, ".") && this.#isWord(at - 2, "pg_catalog") && !this.#isSymbol(at - 3, ".");
  }

  #fault(at: number, what: string): void {
    const around = this.#tokens.slice(Math.max(0, at - 4), at + 4).map(({ name }) => name);
    this.#faults.push(`${what}: ${around.join(" ")}`);
  }

  /** Yields the names that WITH defines. */
  *#namesOfWith(): Generator<string> {
    for (const at of this.#tokens.keys()) if (this.#definesCte(at)) yield this.#at(at).name;
  }

  #readToken(at: number): void {
    const { kind, name } = this.#at(at);
    if (kind === "symbol" && OPERATOR.test(name)) this.#readOperator(at);
    if (kind === "symbol" && name === ":") this.#readColon(at);
    if (kind === "symbol" && name === "(") this.#readParenthesis(at);
    if (kind === "text") this.#readText(at);
    if (kind === "word") this.#readWord(at, name);
  }

  /** An operator is written OPERATOR(pg_catalog.=). `count(*)` and `unlisten *` have none. */
  #readOperator(at: number): void {
    let from = at;
    while (this.#at(from - 1).kind === "symbol" && OPERATOR.test(this.#at(from - 1).name)) from--;
    const isWritten = this.#isQualified(from) && this.#isSymbol(from - 3, "(") && this.#isWord(from - 4, "operator");
    const isStar = this.#isSymbol(at, "*") && this.#isSymbol(at - 1, "(") && this.#isSymbol(at + 1, ")");
    if (!isWritten && !isStar && !this.#isWord(at - 1, "unlisten")) this.#fault(at, "a bare operator");
  }

  /** `::type`, or the bounds of a slice. */
  #readColon(at: number): void {
    if (this.#isSymbol(at - 1, ":")) return;
    if (this.#isSymbol(at + 1, ":")) return this.#readType(at + 2);
    const isInSlice = [...this.#ends].some(([from, to]) => this.#isSymbol(from, "[") && from < at && at < to);
    if (!isInSlice) this.#fault(at, "an unknown colon");
  }

  #readType(at: number): void {
    if (this.#at(at).kind === "word" && KEYWORD_TYPES.has(this.#at(at).name)) return;
    if (!this.#isQualified(at + 2)) this.#fault(at, "a type without its schema");
  }

  #readParenthesis(at: number): void {
    const before = this.#at(at - 1);
    if (this.#isName(at - 1) && !this.#isQualified(at - 1) && !this.#opensNoArguments(at, before))
      this.#fault(at, "a function without its schema");
    const end = this.#ends.get(at) ?? at;
    if (this.#isWord(end + 1, "operator") && this.#isRow(at, end)) this.#fault(at, "a comparison of rows");
    if (this.#isWord(at - 1, "cast")) this.#fault(at, "CAST, which is written ::");
    if (this.#isWord(at - 2, "as")) this.#readAliases(at, end);
  }

  /** `as t (a, b)` names columns. `as t (a mood)` would name types, too. */
  #readAliases(from: number, end: number): void {
    for (let at = from + 1; at < end; at++)
      if (this.#isName(at) && this.#isName(at + 1)) this.#fault(at, "a list of columns with types");
  }

  #opensNoArguments(at: number, { kind, name }: Token): boolean {
    if (kind === "word" && BEFORE_PARENTHESIS.has(name)) return true;
    // `as t (a, b)`, `) t(a)`, `with ordinality t (a)`, and a type with its size.
    if (this.#isWord(at - 2, "as") || this.#isWord(at - 2, "ordinality")) return true;
    if (this.#isSymbol(at - 2, ")") && !this.#closesOperator(at - 2)) return true;
    if (this.#isSymbol(at - 2, ":") && KEYWORD_TYPES.has(name)) return true;
    return this.#definesCte(at - 1);
  }

  /** WITH a(x) AS (…), b(x) AS (…). */
  #definesCte(at: number): boolean {
    if (!this.#isName(at)) return false;
    const isFirst = this.#isWord(at - 1, "with") || this.#isWord(at - 1, "recursive");
    if (!isFirst && !(this.#isSymbol(at - 1, ",") && this.#isSymbol(at - 2, ")"))) return false;
    const after = this.#isSymbol(at + 1, "(") ? this.#ends.get(at + 1)! + 1 : at + 1;
    return this.#isWord(after, "as") && this.#isSymbol(after + 1, "(");
  }

  #closesOperator(end: number): boolean {
    const from = [...this.#ends].find(([, to]) => to === end)?.[0] ?? 0;
    return this.#isWord(from - 1, "operator");
  }

  /** Whether the parenthesis holds several values, and is no list of arguments. */
  #isRow(at: number, end: number): boolean {
    if (this.#isName(at - 1) && !BEFORE_VALUE.has(this.#at(at - 1).name)) return false;
    for (let i = at + 1; i < end; i++) {
      if (this.#isSymbol(i, ",")) return true;
      if (this.#isSymbol(i, "(") || this.#isSymbol(i, "[")) i = this.#ends.get(i) ?? i;
    }
    return false;
  }

  #readText(at: number): void {
    const { kind, name } = this.#at(at - 1);
    if ((kind === "word" || kind === "name") && !BEFORE_TEXT.has(name)) this.#fault(at, "a type in front of a text");
  }

  #readWord(at: number, name: string): void {
    if (this.#isSymbol(at - 1, ".")) return;
    if (REFUSED.has(name)) return this.#fault(at, "a construct with a name without a schema");
    if (name === "distinct" && this.#isWord(at + 1, "from")) return this.#fault(at, "IS DISTINCT FROM");
    if (name === "case" && !this.#isWord(at + 1, "when")) return this.#fault(at, "a simple CASE");
    if (name === "from" || name === "join") this.#readSources(at);
  }

  /** The relations after FROM or JOIN, up to the end of the list. */
  #readSources(from: number): void {
    this.#readSource(from + 1);
    if (!this.#isWord(from, "from")) return;
    for (let at = from + 1; at < this.#tokens.length; at++) {
      const { kind, name } = this.#at(at);
      if (kind === "symbol" && (name === ")" || name === "]")) return;
      if (kind === "word" && AFTER_FROM.has(name)) return;
      if (this.#isSymbol(at, "(") || this.#isSymbol(at, "[")) at = this.#ends.get(at) ?? at;
      else if (this.#isSymbol(at, ",")) this.#readSource(at + 1);
    }
  }

  #readSource(at: number): void {
    if (this.#isWord(at, "lateral") || this.#isWord(at, "only")) return this.#readSource(at + 1);
    if (this.#isWord(at, "rows") && this.#isWord(at + 1, "from")) return;
    if (this.#isSymbol(at, "(") || this.#isQualified(at + 2)) return;
    if (this.#isName(at) && this.#ctes.has(this.#at(at).name)) return;
    this.#fault(at, "a relation without its schema");
  }

  // -- PL/pgSQL -------------------------------------------------------------------------------------------------------

  #readBodies(): void {
    for (const { kind, content } of this.#tokens) if (kind === "text") this.#faults.push(...faultsOfBody(content));
  }
}

/** Statements of PL/pgSQL that contain no expression, by their first word. SET and SET CONSTRAINTS look up nothing. */
const CONTROL = new Set(["set", "begin", "end", "exception", "declare", "loop", "null"]);

/** Reads a body of PL/pgSQL: its declarations, and the expressions of its statements. */
function faultsOfBody(body: string): string[] {
  const faults: string[] = [];
  for (const statement of statementsOf(tokensOf(body.replaceAll("''", "'")))) {
    const [first, second] = [statement[0]?.name ?? "", statement[1]];
    // `name type;` of a declaration.
    if (statement.length > 1 && second?.kind === "word" && !KEYWORDS_OF_BODY.has(first)) {
      const isTyped = second.name === "pg_catalog" || KEYWORD_TYPES.has(second.name);
      if (!isTyped) faults.push(`a declaration without the schema of its type: ${first} ${second.name}`);
      if (statement.some(({ name }) => [":", "=", "default"].includes(name)))
        faults.push(`a declaration with a value: ${first}`);
      continue;
    }
    if (CONTROL.has(first) || (first === "return" && statement.length === 1)) continue;
    faults.push(...new Linter(expression(statement)).run());
  }
  return faults;
}

const KEYWORDS_OF_BODY = new Set(
  "if begin set select execute exception when foreach end return perform then loop declare null".split(" "),
);

/** What is left of a statement without PL/pgSQL's own words. INTO names variables. */
function expression(statement: readonly Token[]): Token[] {
  const into = statement.findIndex(({ kind, name }) => kind === "word" && name === "into");
  const sql = into < 0 ? [...statement] : [...statement.slice(0, into), ...statement.slice(into + 2)];
  const select = { kind: "word", name: "select", content: "" } as const;
  // FOREACH name IN ARRAY value
  if (sql[0]?.name === "foreach") sql.splice(0, 4, select);
  if (["if", "execute", "perform", "return"].includes(sql[0]?.name ?? "")) sql[0] = select;
  // `when a or b then` of EXCEPTION names conditions.
  return sql[0]?.name === "when" ? [] : sql;
}

/** Splits at semicolons, and after the words that begin a block. */
function statementsOf(tokens: readonly Token[]): Token[][] {
  const all: Token[][] = [[]];
  let cases = 0;
  for (const token of tokens) {
    const word = token.kind === "word" ? token.name : "";
    if (word === "case") cases++;
    if (word === "end" && cases) cases--;
    const isBlock = ["begin", "declare", "exception", "loop"].includes(word) || (word === "then" && !cases);
    if (token.name === ";") all.push([]);
    else if (isBlock) all.push([]);
    else all.at(-1)!.push(token);
  }
  return all.filter((statement) => statement.length > 0);
}
