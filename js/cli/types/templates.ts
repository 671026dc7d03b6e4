// Finds the `sql` templates of a project: where they are, the SQL that they make, and the row type that they ask for.
//
// Knows TypeScript's syntax and checker, and what the helpers of `sql` become (docs/queries.md). Must not know servers.
// A value is $1, $2 …; a fragment is looked up if it is a constant, and both arms of a condition are tried. A part that
// is only known at run time is reported, and never guessed.
import path from "node:path";
import type ts from "typescript";
import { sql, unnest, type Query, type UsageError } from "../../index.ts";

/** A place in a source file. `offset` counts from 0. */
export interface Place {
  readonly file: ts.SourceFile;
  readonly offset: number;
}

/** SQL that a template may make. */
interface Variant {
  readonly text: string;
  /** The expressions of $1, $2 …; `undefined` for the value of a helper. */
  readonly values: readonly (ts.Expression | undefined)[];
  /** The place in the source from which the text at this index comes. */
  placeOf(index: number): Place;
}

export interface Template {
  readonly place: Place;
  /** The row type that it asks for: a plain name, declared by the file of row types or nowhere. */
  readonly row: string | undefined;
  /** The module from which its file imports the driver; `undefined` if `sql` comes through another file. */
  readonly driver: string | undefined;
  /** The expressions in its braces. */
  readonly expressions: readonly ts.Expression[];
  readonly variants: readonly Variant[];
  /** The part that is only known at run time. With such a part there are no variants. */
  readonly unknown: { readonly place: Place; readonly what: string } | undefined;
}

interface TextPart {
  readonly text: string;
  readonly places: readonly number[];
  readonly file: ts.SourceFile;
}
/** A value, and its expression; `undefined` for the value of a helper. */
interface ValuePart {
  readonly value: ts.Expression | undefined;
}
type Part = TextPart | ValuePart;

/** Maximum number of texts that a template may make. */
const MOST_VARIANTS = 64;
const DEEPEST = 30;
const PACKAGE = /^(npm:|jsr:)?(@[^/]+\/)?pgz-edge(@[^/]*)?(\/.*)?$/;

/** Thrown for a part of a template that is only known at run time. */
class Unknown extends Error {
  constructor(
    readonly node: ts.Node,
    what: string,
  ) {
    super(what);
  }
}

/** `module` is the full path of the file of row types, without its ending. */
export function templatesIn(
  compiler: typeof ts,
  program: ts.Program,
  files: readonly ts.SourceFile[],
  module: string,
): Template[] {
  const finder = new Finder(compiler, program.getTypeChecker(), module);
  const found = files.flatMap((file) => finder.templates(file));
  return found.filter(({ node, template }) => !finder.nested.has(node) || template.row).map((each) => each.template);
}

class Finder {
  readonly #ts: typeof ts;
  readonly #checker: ts.TypeChecker;
  readonly #module: string;
  /** Templates that are part of another template. */
  readonly nested = new Set<ts.Node>();

  constructor(compiler: typeof ts, checker: ts.TypeChecker, module: string) {
    this.#ts = compiler;
    this.#checker = checker;
    this.#module = module;
  }

  templates(file: ts.SourceFile): { node: ts.Node; template: Template }[] {
    const found: { node: ts.Node; template: Template }[] = [];
    const visit = (node: ts.Node): void => {
      if (this.#ts.isTaggedTemplateExpression(node) && this.#isSql(node.tag))
        found.push({ node, template: this.#template(node) });
      this.#ts.forEachChild(node, visit);
    };
    visit(file);
    return found;
  }

  #template(node: ts.TaggedTemplateExpression): Template {
    const place = placeOf(node);
    const row = this.#rowOf(node);
    const { template } = node;
    const driver = this.#driverOf(node.tag);
    const expressions = this.#ts.isTemplateExpression(template)
      ? template.templateSpans.map(({ expression }) => expression)
      : [];
    try {
      const variants = this.#ofTemplate(node, 0).map(joined);
      return { place, row, driver, expressions, variants, unknown: undefined };
    } catch (error) {
      if (!(error instanceof Unknown)) throw error;
      return {
        place,
        row,
        driver,
        expressions,
        variants: [],
        unknown: { place: placeOf(error.node), what: error.message },
      };
    }
  }

  /**
   * Returns the name of the row type: one that is imported from the file of row types, or that nothing declares yet.
   */
  #rowOf({ typeArguments }: ts.TaggedTemplateExpression): string | undefined {
    const [type] = typeArguments ?? [];
    if (!type || !this.#ts.isTypeReferenceNode(type) || type.typeArguments || !this.#ts.isIdentifier(type.typeName))
      return undefined;
    const declaration = this.#checker.getSymbolAtLocation(type.typeName)?.declarations?.[0];
    return declaration ? this.#nameBehind(declaration, type.typeName.text, 0) : type.typeName.text;
  }

  /**
   * Returns the name that an imported or exported type has in the file of row types; `undefined` if it does not come
   * from there.
   */
  #nameBehind(declaration: ts.Declaration, name: string, depth: number): string | undefined {
    if (this.#ts.isImportSpecifier(declaration))
      return this.#nameIn(declaration.parent.parent.parent, (declaration.propertyName ?? declaration.name).text, depth);
    if (this.#ts.isExportDeclaration(declaration)) return this.#nameIn(declaration, name, depth); // export * from
    if (!this.#ts.isExportSpecifier(declaration)) return undefined;
    const original = (declaration.propertyName ?? declaration.name).text;
    if (declaration.parent.parent.moduleSpecifier) return this.#nameIn(declaration.parent.parent, original, depth);
    const [local] = this.#checker.getExportSpecifierLocalTargetSymbol(declaration)?.declarations ?? [];
    return local && this.#nameBehind(local, original, depth + 1);
  }

  /**
   * The same for a name in the module that `from` names: the file of row types itself, or a file that exports its names
   * again.
   */
  #nameIn(
    from: ts.ImportDeclaration | ts.JSDocImportTag | ts.ExportDeclaration,
    name: string,
    depth: number,
  ): string | undefined {
    const module = from.moduleSpecifier && this.#checker.getSymbolAtLocation(from.moduleSpecifier);
    const file = module && fileOf(module);
    if (file === undefined) return this.#mayBeModule(from) ? name : undefined;
    if (withoutEnding(path.resolve(file)) === this.#module) return name;
    if (depth > DEEPEST) return undefined;
    const passedOn = [name, "__export"].flatMap((key) => module?.exports?.get(key as ts.__String)?.declarations ?? []);
    return passedOn.map((each) => this.#nameBehind(each, name, depth + 1)).find((found) => found !== undefined);
  }

  /**
   * Whether `from` may name the file of row types. Before the first run this file does not exist, so only the name can
   * tell.
   */
  #mayBeModule(from: ts.Node): boolean {
    const named = this.#specifierOf(from);
    if (!named.startsWith(".")) return path.basename(withoutEnding(named)) === path.basename(this.#module);
    return withoutEnding(path.resolve(path.dirname(from.getSourceFile().fileName), named)) === this.#module;
  }

  #specifierOf(declaration: ts.Node): string {
    const { moduleSpecifier } = declaration as Partial<ts.ImportDeclaration>;
    return moduleSpecifier && this.#ts.isStringLiteral(moduleSpecifier) ? moduleSpecifier.text : "";
  }

  #driverOf(tag: ts.Expression): string | undefined {
    const name = this.#ts.isPropertyAccessExpression(tag) ? tag.expression : tag;
    const declaration = this.#checker.getSymbolAtLocation(name)?.declarations?.[0];
    if (!declaration) return undefined;
    const from = this.#ts.isImportSpecifier(declaration)
      ? declaration.parent.parent.parent
      : this.#ts.isNamespaceImport(declaration)
        ? declaration.parent.parent
        : undefined;
    const specifier = from && this.#specifierOf(from);
    return specifier !== undefined && PACKAGE.test(specifier) ? specifier : undefined;
  }

  // -- sql ------------------------------------------------------------------------------------------------------------

  #isSql(node: ts.Expression): boolean {
    return this.#isExport("sql", node);
  }

  /** Whether it is this export of the package, under whatever name it is imported. */
  #isExport(wanted: "sql" | "unnest", node: ts.Expression): boolean {
    const name = this.#ts.isPropertyAccessExpression(node) ? node.name : node;
    const symbol = this.#checker.getSymbolAtLocation(name);
    const declaration = symbol?.declarations?.[0];
    if (declaration && this.#ts.isImportSpecifier(declaration)) {
      const isNamed = (declaration.propertyName ?? declaration.name).text === wanted;
      if (isNamed && PACKAGE.test(this.#specifierOf(declaration.parent.parent.parent))) return true;
    }
    if (this.#ts.isPropertyAccessExpression(node) && node.name.text === wanted) {
      const space = this.#checker.getSymbolAtLocation(node.expression)?.declarations?.[0];
      if (space && this.#ts.isNamespaceImport(space)) return PACKAGE.test(this.#specifierOf(space.parent.parent));
    }
    if (!symbol || !(symbol.flags & this.#ts.SymbolFlags.Alias)) return false;
    const origin = this.#checker.getAliasedSymbol(symbol);
    const file = fileOf(origin);
    if (file === undefined || path.basename(withoutEnding(file)) !== wanted) return false;
    return origin.name === wanted && this.#isOurs(file);
  }

  /** Whether the nearest package that has a name has the driver's: a user may have a `js/sql.ts` too. */
  #isOurs(file: string): boolean {
    const { fileExists, readFile } = this.#ts.sys;
    const manifest = this.#ts.findConfigFile(path.dirname(file), fileExists, "package.json");
    if (manifest === undefined) return false;
    const { name } = (this.#ts.readConfigFile(manifest, readFile).config ?? {}) as { name?: unknown };
    // A folder of CommonJS has a package.json without a name.
    return name === undefined ? this.#isOurs(path.dirname(manifest)) : PACKAGE.test(String(name));
  }

  #ofTemplate({ template }: ts.TaggedTemplateExpression, depth: number): Part[][] {
    if (this.#ts.isNoSubstitutionTemplateLiteral(template)) return [[textPart(template, template.text)]];
    let variants: Part[][] = [[textPart(template.head, template.head.text)]];
    for (const { expression, literal } of template.templateSpans) {
      const behind = textPart(literal, literal.text);
      variants = product(variants, this.#of(expression, depth + 1), expression).map((parts) => [...parts, behind]);
    }
    return variants;
  }

  /** Returns the variants of what an expression puts into a template. */
  #of(given: ts.Expression, depth: number): Part[][] {
    const node = this.#bare(given);
    if (depth > DEEPEST) throw new Unknown(node, "a fragment that is made of itself");
    if (this.#ts.isTaggedTemplateExpression(node) && this.#isSql(node.tag)) {
      this.nested.add(node);
      return this.#ofTemplate(node, depth);
    }
    if (this.#ts.isConditionalExpression(node) && this.#mayBeFragment(node))
      return [...this.#of(node.whenTrue, depth + 1), ...this.#of(node.whenFalse, depth + 1)];
    const helper = this.#helperOf(node);
    if (helper) return this.#ofHelper(helper, node as ts.CallExpression, depth);
    if (this.#ts.isIdentifier(node)) {
      const constant = this.#constantOf(node);
      if (constant && this.#mayBeFragment(constant)) {
        if (this.#ts.isArrayLiteralExpression(this.#bare(constant)) && !this.#isReadonly(node))
          throw new Unknown(node, "an array that may be changed before it is used, without `as const`");
        return this.#of(constant, depth + 1);
      }
    }
    if (this.#ts.isArrayLiteralExpression(node) && node.elements.some((element) => this.#mayBeFragment(element)))
      return this.#inARow(node.elements, [], depth);
    if (this.#mayBeFragment(node)) throw new Unknown(node, "a fragment that is only known at run time");
    return [[{ value: given }]];
  }

  #inARow(elements: readonly ts.Expression[], separator: readonly Part[], depth: number): Part[][] {
    let variants: Part[][] = [[]];
    elements.forEach((element, index) => {
      if (this.#ts.isSpreadElement(element)) throw new Unknown(element, "fragments that are only known at run time");
      const between = index ? [...separator] : [];
      const with_ = variants.map((parts) => [...parts, ...between]);
      variants = product(with_, this.#of(element, depth + 1), element);
    });
    return variants;
  }

  #bare(node: ts.Expression): ts.Expression {
    if (
      this.#ts.isParenthesizedExpression(node) ||
      this.#ts.isAsExpression(node) ||
      this.#ts.isNonNullExpression(node) ||
      this.#ts.isSatisfiesExpression(node)
    )
      return this.#bare(node.expression);
    return node;
  }

  /** Returns the initializer of a `const`, in this file or in the file from which it is imported. */
  #constantOf(node: ts.Identifier): ts.Expression | undefined {
    let symbol = this.#checker.getSymbolAtLocation(node);
    if (symbol && symbol.flags & this.#ts.SymbolFlags.Alias) symbol = this.#checker.getAliasedSymbol(symbol);
    const declaration = symbol?.valueDeclaration;
    if (!declaration || !this.#ts.isVariableDeclaration(declaration)) return undefined;
    const isConstant = (this.#ts.getCombinedNodeFlags(declaration) & this.#ts.NodeFlags.Const) !== 0;
    return isConstant ? declaration.initializer : undefined;
  }

  #isReadonly(array: ts.Expression): boolean {
    const type = this.#checker.getTypeAtLocation(array);
    if (this.#checker.isTupleType(type)) return (type as ts.TupleTypeReference).target.readonly;
    return type.symbol.name === "ReadonlyArray";
  }

  /** Whether the expression may be SQL instead of a value, by its syntax and by its type. */
  #mayBeFragment(given: ts.Expression): boolean {
    const node = this.#bare(given);
    if (this.#ts.isTaggedTemplateExpression(node)) return this.#isSql(node.tag);
    const helper = this.#helperOf(node);
    if (helper) return helper !== "json" && helper !== "snakeCase";
    const isQuery = (type: ts.Type): boolean => {
      if (type.isUnion()) return type.types.some(isQuery);
      const isArray = this.#checker.isArrayType(type) || this.#checker.isTupleType(type);
      const element = isArray ? type.getNumberIndexType() : undefined;
      if (element) return isQuery(element);
      return type.getProperty("text") !== undefined && type.getProperty("values") !== undefined;
    };
    return isQuery(this.#checker.getTypeAtLocation(node));
  }

  // -- sql.identifier, sql.in, … --------------------------------------------------------------------------------------

  #helperOf(node: ts.Expression): string | undefined {
    if (!this.#ts.isCallExpression(node)) return undefined;
    if (this.#isExport("unnest", node.expression)) return "unnest";
    if (!this.#ts.isPropertyAccessExpression(node.expression)) return undefined;
    return this.#isSql(node.expression.expression) ? node.expression.name.text : undefined;
  }

  #ofHelper(helper: string, node: ts.CallExpression, depth: number): Part[][] {
    const [first, ...others] = node.arguments;
    const made = (...parts: string[]): Part[][] => [
      parts.map((part) => (part === VALUE ? { value: undefined } : here(node, part))),
    ];
    switch (helper) {
      case "identifier":
        return made(node.arguments.map((name) => quoted(this.#literal(name))).join("."));
      case "unsafe":
        if (others.length || !first) break;
        return made(this.#literal(first));
      case "json":
        return [[{ value: node }]];
      case "join": {
        const list = first && this.#bare(first);
        if (!list || !this.#ts.isArrayLiteralExpression(list)) break;
        const [separator] = others[0] ? this.#of(others[0], depth + 1) : [[here(node, ", ")]];
        return this.#inARow(list.elements, separator!, depth);
      }
      case "in": // one value is enough, whatever their number
        return made("(", VALUE, ")");
      case "set": {
        const names = this.#columns(first, others);
        if (names) return made(...names.flatMap((name, at) => [`${at ? ", " : ""}${quoted(name)} = `, VALUE]));
        break;
      }
      case "values": {
        const names = this.#columns(first, others);
        const values = names?.flatMap((_, at) => [at ? ", " : "", VALUE]) ?? [];
        if (names) return made(`(${names.map(quoted).join(", ")}) values (`, ...values, ")");
        break;
      }
      case "unnest":
        return made(...this.#unnest(node, others[0], depth));
    }
    throw new Unknown(node, `sql.${helper} of what is only known at run time`);
  }

  /** Returns the texts of `unnest`, and its values between them. */
  #unnest(node: ts.Expression, given: ts.Expression | undefined, depth: number): string[] {
    const types = given && this.#typesOf(given, depth);
    if (!types) throw new Unknown(node, "unnest whose types are not in the call, or in a constant with `as const`");
    try {
      const texts = unnest([], types).text.split(/(?<=pg_catalog\.unnest\()\$\d+(?=::)/);
      return texts.flatMap((text, at) => (at ? [VALUE, text] : [text]));
    } catch (error) {
      throw new Unknown(node, (error as UsageError).message);
    }
  }

  #typesOf(given: ts.Expression, depth: number): Record<string, string | Query> | undefined {
    const constant = this.#ts.isIdentifier(given) ? this.#constantOf(given) : undefined;
    if (constant && !this.#isConst(constant)) return undefined;
    const object = this.#bare(constant ?? given);
    if (!this.#ts.isObjectLiteralExpression(object)) return undefined;
    const types: Record<string, string | Query> = {};
    for (const member of object.properties) {
      if (!this.#ts.isPropertyAssignment(member) || !this.#isPlainName(member.name)) return undefined;
      types[member.name.text] = this.#typeIn(member.initializer, depth);
    }
    return types;
  }

  /** Whether it says `as const`, with `satisfies` behind it or not. */
  #isConst(node: ts.Expression): boolean {
    if (this.#ts.isSatisfiesExpression(node)) return this.#isConst(node.expression);
    return this.#ts.isAsExpression(node) && this.#ts.isConstTypeReference(node.type);
  }

  /** Returns a type: a text, or a fragment without conditions and values. */
  #typeIn(node: ts.Expression, depth: number): string | Query {
    if (!this.#mayBeFragment(node)) return this.#literal(node);
    const [parts = [], ...others] = this.#of(node, depth + 1);
    if (others.length || !parts.every((part) => "text" in part))
      throw new Unknown(node, "a type that is only known at run time");
    return sql.unsafe(parts.map(({ text }) => text).join(""));
  }

  #isPlainName(name: ts.PropertyName): name is ts.Identifier | ts.StringLiteral {
    return this.#ts.isIdentifier(name) || this.#ts.isStringLiteral(name);
  }

  #literal(node: ts.Expression): string {
    const bare = this.#bare(node);
    if (this.#ts.isStringLiteralLike(bare)) return bare.text;
    const constant = this.#ts.isIdentifier(bare) ? this.#constantOf(bare) : undefined;
    if (constant && this.#ts.isStringLiteralLike(constant)) return constant.text;
    throw new Unknown(node, "a name or a text that is only known at run time");
  }

  /** Returns the columns that are named, or else the members of an object literal. */
  #columns(row: ts.Expression | undefined, named: readonly ts.Expression[]): string[] | undefined {
    if (named.length) return named.map((name) => this.#literal(name));
    let bare = row && this.#bare(row);
    if (bare && this.#ts.isArrayLiteralExpression(bare)) bare = bare.elements[0] && this.#bare(bare.elements[0]);
    if (!bare || !this.#ts.isObjectLiteralExpression(bare)) return undefined;
    const names = bare.properties.map(({ name }) => (name && this.#isPlainName(name) ? name.text : undefined));
    return names.every((name) => name !== undefined) ? names : undefined;
  }
}

const VALUE = "\0";
const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
export const withoutEnding = (file: string): string => file.replace(/(\.d)?\.[cm]?[jt]sx?$/, "");
const fileOf = (symbol: ts.Symbol): string | undefined => symbol.declarations?.[0]?.getSourceFile().fileName;
const placeOf = (node: ts.Node): Place => ({ file: node.getSourceFile(), offset: node.getStart() });

function product(left: readonly Part[][], right: readonly Part[][], at: ts.Node): Part[][] {
  if (left.length * right.length > MOST_VARIANTS)
    throw new Unknown(at, `more than ${MOST_VARIANTS} texts, by its conditions`);
  return left.flatMap((parts) => right.map((more) => [...parts, ...more]));
}

/** Text that a whole expression makes: each index has the expression's place. */
function here(node: ts.Node, text: string): Part {
  return { text, file: node.getSourceFile(), places: Array<number>(text.length + 1).fill(node.getStart()) };
}

/** A template's own text, between its backticks and braces. */
function textPart(node: ts.TemplateLiteralLikeNode, cooked: string): Part {
  const file = node.getSourceFile();
  const start = node.getStart() + 1;
  return { text: cooked, file, places: placesIn(file.text.slice(start, node.getEnd()), cooked, start) };
}

/** Returns the source's place of each index of the text. Escapes and CRLF are longer in the source. */
function placesIn(source: string, cooked: string, start: number): number[] {
  const places: number[] = [];
  let at = 0;
  while (places.length <= cooked.length) {
    const piece = /^(\r\n|\\(u\{[^}]*\}|u....|x..|\r\n|[^]))/.exec(source.slice(at, at + 12))?.[0] ?? source[at] ?? "";
    const isContinuation = /^\\\r?\n$/.test(piece);
    const wide = /^\\u\{/.test(piece) && Number.parseInt(piece.slice(3), 16) > 0xffff;
    for (let count = isContinuation ? 0 : wide ? 2 : 1; count > 0; count--) places.push(start + at);
    at += piece.length;
    if (at > source.length || piece === "") places.push(start + at);
  }
  return places;
}

/** Joins the parts as the driver does, with numbered parameters. */
function joined(parts: readonly Part[]): Variant {
  let text = "";
  const values: (ts.Expression | undefined)[] = [];
  let behindParameter = false;
  const starts: { readonly at: number; readonly part: TextPart }[] = [];
  for (const part of parts) {
    if ("value" in part) {
      text += `$${values.push(part.value)}`;
      behindParameter = true;
      continue;
    }
    if (behindParameter && /^\d/.test(part.text)) text += " ";
    starts.push({ at: text.length, part });
    text += part.text;
    behindParameter &&= part.text === "";
  }
  return {
    text,
    values,
    placeOf(index) {
      const { at, part } = [...starts].reverse().find((start) => start.at <= index) ?? starts[0]!;
      return { file: part.file, offset: part.places[Math.min(index - at, part.text.length)]! };
    },
  };
}
