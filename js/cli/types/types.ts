// `pgz-edge types`: writes row types for a project's `sql` templates, and reports the server's errors in their SQL.
//
// Knows the order of the work: sources, templates, server, file. Must not know how each of them is done.
import { existsSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import type { PgzError, PostgresError } from "../../index.ts";
import { SqlReader } from "../../util/sql-reader.ts";
import { choice, refuseUrls } from "../arguments.ts";
import type { Command, OptionValues, Task } from "../command.ts";
import { withClient } from "../connect.ts";
import { textOf } from "../failure.ts";
import { Misuse } from "../misuse.ts";
import { say } from "../terminal.ts";
import { describeAll, type Described } from "./describe.ts";
import { differences, moduleOf, type NamedRow } from "./module.ts";
import { sourcesOf } from "./project.ts";
import { RowTypes, type Member, type Representation, type Representing, type Sayings } from "./row-types.ts";
import { templatesIn, withoutEnding, type Place, type Template } from "./templates.ts";
import { foldersOf, Watcher } from "./watch.ts";

type Words<Name extends Representing> = Readonly<Record<NonNullable<Representation[Name]>, true>>;

/**
 * The options that change what the client's values look like, and their words. The compiler makes sure that all words
 * are here, and no other.
 */
const REPRESENTATION: { readonly [Name in Representing]: Words<Name> } = {
  int8: { string: true, number: true, bigint: true },
  numeric: { string: true, number: true },
  dates: { string: true, date: true, temporal: true },
  bytea: { uint8array: true, hex: true, base64: true },
  json: { parse: true, text: true },
  columnNames: { keep: true, camelCase: true },
};
/** The same words, by the names of the options on the command line. */
const WORDS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.entries(REPRESENTATION).map(([name, words]) => [flagOf(name), Object.keys(words)]),
);

function flagOf(option: string): string {
  return option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function wordsOf([flag, words]: [string, readonly string[]]): string {
  const listed = `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
  return `${`  --${flag} WORD`.padEnd(24)}${listed}`;
}

export const types: Command = {
  summary: "writes row types for the sql templates of a project, and checks their SQL",
  usage: `Usage: pgz-edge types [file or glob …] [--out src/pgz-edge.types.ts]
       pgz-edge types --check

Asks the server about each \`sql\` template of a TypeScript project, without running any. sql<FindUser>\`select …\` asks
for a type: the interface FindUser is written, with null where a column can be NULL. Templates without a type are only
checked. The files are those of tsconfig.json, or those below src. docs/sql-types.md says what is known and what is not.

  --check               write nothing: exit with 1 if the file would change, or a template is wrong
  -o, --out FILE        where the types go: src/pgz-edge.types.ts, or pgz-edge.types.ts without a folder src
  -p, --project FILE    another tsconfig.json
  -w, --watch           keep running, and write again when a source changes
  --parameters WORD     known (the default): a value of a wrong type does not compile; any: it does, for values that
                        option serialize makes
  --verbose             list the templates that cannot be checked, and why
Options of the client whose rows these are (docs/options.md):
${Object.entries(WORDS).map(wordsOf).join("\n")}
All but --check, --watch and --verbose may be in package.json, as "pgz-edge": { "types": { "files": ["src/**/*"] } }.`,
  options: {
    check: { type: "boolean" },
    out: { type: "string", short: "o" },
    project: { type: "string", short: "p" },
    verbose: { type: "boolean" },
    watch: { type: "boolean", short: "w" },
    parameters: { type: "string" },
    ...Object.fromEntries(Object.keys(WORDS).map((flag) => [flag, { type: "string" as const }])),
  },
  run,
};

/** An error, with the place that it is reported for. */
interface Problem {
  readonly place: Place;
  readonly text: string;
}

async function run(task: Task): Promise<number> {
  if (task.options["watch"] !== true) return await once(task);
  if (task.options["check"]) throw new Misuse("--check or --watch, not both.");
  const { values, options } = settings(task, process.cwd());
  const watcher = new Watcher(outOf(options, process.cwd()));
  watcher.look([process.cwd(), ...foldersOf(values)]);
  for (;;) {
    try {
      await once(task, (files) => watcher.look(files.map((file) => path.dirname(file))));
    } catch (error) {
      task.signal.throwIfAborted();
      if (error instanceof Misuse) throw error;
      say(textOf(error, options["debug"] === true));
    }
    say("Waiting for a source to change: Ctrl-C ends it.");
    await watcher.change(task.signal);
  }
}

/** Runs once, and returns the exit code. Calls `seen` with the paths of the sources. */
async function once(task: Task, seen: (files: readonly string[]) => void = () => {}): Promise<number> {
  const folder = process.cwd();
  const { values, options } = settings(task, folder);
  refuseUrls(...values, options["out"], options["project"]);
  const out = outOf(options, folder);
  const representation = representationOf(options);
  const takesAny = choice({ options }, "parameters", ["known", "any"]) === "any";
  const { compiler, program, files } = await sourcesOf(folder, values, options["project"] as string | undefined);
  seen(files.map((file) => path.resolve(file.fileName)));
  const templates = templatesIn(compiler, program, files, withoutEnding(out));
  const asked = templates.filter(isAsked);
  const problems = templates.flatMap(unknownRow);
  const texts = asked.flatMap(({ variants }) => variants.map(({ text }) => text));
  const text = await withClient(task, {}, (client) =>
    describeAll(client, texts, async (tx, found) => {
      const statements = [...found.values()].filter((each) => "nullable" in each);
      const taken = new Set(asked.flatMap(({ row }) => row ?? []));
      const rowTypes = await RowTypes.of(tx, statements, representation, taken);
      const rows = rowsOf(asked, found, rowTypes, problems);
      const known = new Set(rows.map(({ name }) => name));
      return moduleOf(takesAny ? rows.map((row) => ({ ...row, takes: [] })) : rows, {
        declarations: rowTypes.declarations(),
        made: [madeWith(representation), takesAny ? "--parameters any" : ""].filter(Boolean).join(" "),
        driver: templates.find(({ driver }) => driver !== undefined)?.driver ?? "pgz-edge",
        old: existsSync(out) ? readFileSync(out, "utf8") : "",
        kept: templates.flatMap(({ row }) => (row === undefined || known.has(row) ? [] : row)),
      });
    }),
  );
  report(templates, asked, options["verbose"] === true);
  for (const problem of problems.sort(byPlace)) say(`${shown(problem.place)}: ${problem.text}`);
  const isRight = options["check"] === true ? check(out, text, templates) : await write(out, text, problems.length);
  return problems.length || !isRight ? 1 : 0;
}

// -- settings ---------------------------------------------------------------------------------------------------------

/** The values and options of the command line. Those of package.json apply where the command line has none. */
function settings({ values, options }: Task, folder: string): Pick<Task, "values" | "options"> {
  const file = path.join(folder, "package.json");
  const manifest = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>) : {};
  const given = ((manifest["pgz-edge"] as Record<string, unknown> | undefined)?.["types"] ?? {}) as Record<
    string,
    unknown
  >;
  const found: Record<string, string> = {};
  for (const [key, value] of Object.entries(given)) {
    const name = flagOf(key);
    if (name === "files" && Array.isArray(value) && value.every((one) => typeof one === "string")) continue;
    if (!(name in WORDS) && name !== "out" && name !== "project" && name !== "parameters")
      throw new Misuse(`package.json has "${key}" in "pgz-edge"."types", which means nothing.`);
    if (typeof value !== "string") throw new Misuse(`"${key}" in "pgz-edge"."types" of package.json is a text.`);
    found[name] = value;
  }
  const files = (given["files"] as readonly string[] | undefined) ?? [];
  return { values: values.length ? values : files, options: { ...found, ...options } };
}

function outOf(options: OptionValues, folder: string): string {
  if (options["out"] === "") throw new Misuse("--out is empty: is a variable missing?");
  return path.resolve(folder, (options["out"] as string | undefined) ?? defaultOut(folder));
}

const defaultOut = (folder: string): string =>
  path.join(existsSync(path.join(folder, "src")) ? "src" : ".", "pgz-edge.types.ts");

function representationOf(options: OptionValues): Representation {
  const found = Object.keys(REPRESENTATION).flatMap((name) => {
    const word = choice<string>({ options }, flagOf(name), WORDS[flagOf(name)]!);
    return word === undefined ? [] : [[name, word]];
  });
  return Object.fromEntries(found) as Representation;
}

const madeWith = (representation: Representation): string =>
  Object.entries(representation)
    .map(([name, word]) => `--${flagOf(name)} ${String(word)}`)
    .sort()
    .join(" ");

// -- templates --------------------------------------------------------------------------------------------------------

const STATEMENTS = new Set(["select", "insert", "update", "delete", "merge", "with", "values", "table"]);

function returnsRows(text: string): boolean {
  const reader = new SqlReader(text);
  while (reader.next() === "symbol" && reader.text === "(");
  return reader.kind === "word" && STATEMENTS.has(reader.name);
}

/**
 * Whether the server is asked about a template: it names a row, or it begins as a statement. A template that begins
 * otherwise is part of a statement, or returns no rows.
 */
function isAsked({ row, variants }: Template): boolean {
  return variants.length > 0 && (row !== undefined || variants.every(({ text }) => returnsRows(text)));
}

function unknownRow({ row, unknown }: Template): Problem[] {
  if (row === undefined || !unknown) return [];
  return [{ place: unknown.place, text: `error: ${row} cannot be known: ${unknown.what}.` }];
}

/** Returns the rows that the templates ask for, and adds the templates' errors to `problems`. */
function rowsOf(
  templates: readonly Template[],
  found: ReadonlyMap<string, Described | PgzError>,
  types: RowTypes,
  problems: Problem[],
): NamedRow[] {
  const rows = new Map<string, NamedRow & { readonly place: Place }>();
  for (const template of templates) {
    const row = rowOf(template, found, types, problems);
    if (!row) continue;
    const other = rows.get(row.name);
    if (!other) rows.set(row.name, row);
    else if (JSON.stringify(other.members) === JSON.stringify(row.members))
      rows.set(row.name, { ...other, takes: [...other.takes, ...row.takes] });
    else problems.push({ place: row.place, text: `error: ${row.name} is another row at ${shown(other.place)}.` });
  }
  return [...rows.values()];
}

function rowOf(
  { row: name, place, variants, expressions }: Template,
  found: ReadonlyMap<string, Described | PgzError>,
  types: RowTypes,
  problems: Problem[],
): (NamedRow & { readonly place: Place }) | undefined {
  const wrong = (text: string, at = place): undefined => void problems.push({ place: at, text: `error: ${text}` });
  let members: readonly Member[] | undefined;
  let comment: string[] = [];
  for (const variant of variants) {
    const statement = found.get(variant.text)!;
    if (!("nullable" in statement)) return wrong(messageOf(statement), placeIn(variant, statement));
    if (variant.values.length !== statement.parameterTypes.length) {
      const [has, takes] = [variant.values.length, statement.parameterTypes.length];
      return wrong(`it has ${has} values, and the SQL takes ${takes}: one is in quotes or in a comment.`);
    }
    if (name === undefined) continue;
    if (!statement.fields.length) return wrong(`${name} would have no columns: the statement returns no rows.`);
    const sayings = sayingsIn(variant.text);
    const columns = new Set(statement.fields.map((field) => field.name));
    const stranger = [...sayings.notNull, ...sayings.nullable].find((column) => !columns.has(column));
    if (stranger !== undefined) return wrong(`a comment names the column "${stranger}", which does not exist.`);
    const next = types.members(statement, sayings);
    members = members ? either(members, next) : next;
    if (!members) return wrong(`${name} has different columns, depending on its conditions.`);
    const parameters = statement.parameterTypes.map((oid, index) => `$${index + 1} ${types.nameOf(oid)}`);
    if (!comment.length) comment = [relative(place), ...(parameters.length ? [`Takes ${parameters.join(", ")}.`] : [])];
  }
  if (name === undefined || !members) return undefined;
  const takes = expressions.map((expression) => {
    const all = variants.map(({ text, values }) => {
      const at = values.indexOf(expression);
      return at < 0 ? undefined : types.nameOf((found.get(text) as Described).parameterTypes[at]!);
    });
    return all.every((one) => one === all[0]) ? all[0] : undefined;
  });
  return { name, members, comment, place, takes: [takes] };
}

/**
 * Makes one row of both: a member can be NULL if it can be in one of them. `undefined` if they have different members.
 */
function either(some: readonly Member[], others: readonly Member[]): readonly Member[] | undefined {
  if (some.length !== others.length) return undefined;
  const pairs = some.map((member, index) => [member, others[index]!] as const);
  const bare = (type: string) => type.replace(/ \| null$/, "");
  if (pairs.some(([a, b]) => a.name !== b.name || bare(a.type) !== bare(b.type))) return undefined;
  return pairs.map(([a, b]) => (a.type.length > b.type.length ? a : b));
}

/** Reads `@notnull a, b` and `@nullable c` in the SQL's comments. */
function sayingsIn(text: string): Sayings {
  const comments = commentsIn(text);
  const named = (word: string) => {
    const lists = comments.flatMap((comment) => comment.split(new RegExp(`@${word}\\b`)).slice(1));
    const names = lists.flatMap((list) => [...(list.split("@")[0] ?? "").matchAll(/"([^"]+)"|[^\s,]+/g)]);
    return new Set(names.map(([name, quoted]) => quoted ?? name));
  };
  return { notNull: named("notnull"), nullable: named("nullable") };
}

/** Returns the comments, without the marks at their beginning and end. */
function commentsIn(text: string): string[] {
  const comments: string[] = [];
  const reader = new SqlReader(text, { comments: true });
  while (reader.next() !== "end")
    if (reader.kind === "comment") comments.push(reader.text.slice(2, reader.text.endsWith("*/") ? -2 : undefined));
  return comments;
}

function messageOf(error: PgzError): string {
  const { detail, hint } = error as PostgresError;
  const more = [detail, hint].filter(Boolean).map((text) => ` ${String(text)}`);
  return `${error.message} (${error.code})${more.join("")}`;
}

function placeIn({ text, placeOf }: Template["variants"][number], error: PgzError): Place {
  const position = Number((error as PostgresError).position ?? 1);
  // The server counts characters, JavaScript UTF-16 code units.
  return placeOf([...text].slice(0, position - 1).join("").length);
}

// -- report -----------------------------------------------------------------------------------------------------------

const relative = ({ file }: Place): string => path.relative(process.cwd(), file.fileName).replaceAll("\\", "/");

function shown(place: Place): string {
  const { line, character } = place.file.getLineAndCharacterOfPosition(place.offset);
  return `${relative(place)}:${line + 1}:${character + 1}`;
}

const byPlace = (a: Problem, b: Problem): number =>
  a.place.file.fileName.localeCompare(b.place.file.fileName) || a.place.offset - b.place.offset;

function report(templates: readonly Template[], asked: readonly Template[], isVerbose: boolean): void {
  const unknown = templates.filter((template) => template.unknown && template.row === undefined);
  const others = templates.length - asked.length - templates.filter((template) => template.unknown).length;
  const counts = [asked.length === 1 ? "1 template was described" : `${asked.length} templates were described`];
  if (others) counts.push(`${others} are no statements that return rows`);
  if (unknown.length) counts.push(`${unknown.length} are only known at run time${isVerbose ? "" : " (--verbose)"}`);
  say(`${counts.join(", ")}.`);
  if (isVerbose) for (const { unknown: part } of unknown) say(`${shown(part!.place)}: not checked: ${part!.what}.`);
}

function check(out: string, text: string, templates: readonly Template[]): boolean {
  const old = existsSync(out) ? readFileSync(out, "utf8") : "";
  const name = path.relative(process.cwd(), out).replaceAll("\\", "/");
  if (old.replaceAll("\r\n", "\n") === text) return true;
  const found = differences(old, text);
  if (!found.length) say(`${name}: error: it has the same lines in another order, or some twice.`);
  for (const { name: row, lines } of found) {
    const template = templates.find((one) => one.row === row);
    say(`${template ? shown(template.place) : name}: error: ${row} is different in ${name}:`);
    for (const line of lines) say(`  ${line}`);
  }
  return false;
}

/** Writes the file if it has changed. A row whose template is wrong stays unchanged. */
async function write(out: string, text: string, problems: number): Promise<boolean> {
  if (problems && !existsSync(out) && !/^export /m.test(text)) return false; // it would be empty
  const isNew = !existsSync(out) || readFileSync(out, "utf8") !== text;
  if (isNew) {
    await mkdir(path.dirname(out), { recursive: true });
    await writeFile(out, text);
  }
  say(`${path.relative(process.cwd(), out)} ${isNew ? "was written" : "is unchanged"}.`);
  return true;
}
