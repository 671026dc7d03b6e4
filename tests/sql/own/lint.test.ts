// Reads every statement of the driver's own for names that search_path decides, and the sources of js/ for statements
// that are on no list.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { SqlReader, type Kind } from "../../../js/util/sql-reader.ts";
import { faultsOf } from "./lint.ts";
import { lookingUp, ownStatements } from "./list.ts";
import { NOT_SQL } from "./not-sql.ts";
import { unqualified } from "./unqualified.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const statements = lookingUp(Infinity);

test("every statement names everything with its schema", () => {
  const faults = statements.flatMap(({ owner, text }) => faultsOf(text).map((fault) => `${owner}: ${fault}`));
  expect(faults).toEqual([]);
});

// It is often a superuser who types it, and a literal has no type: a stranger's function of text would win.
test("a statement that an advice gives the reader names everything with its schema too", () => {
  const given = [...NOT_SQL].filter((text) => text.startsWith("(")).map((text) => text.replace(/^\(|\)\.$/g, ""));
  expect(given.length).toBeGreaterThan(0);
  for (const text of given) expect(faultsOf(text), text).toEqual([]);
});

// It runs as a superuser in every session that changes a definition.
test("the function of cache.sql names everything with its schema", () => {
  const setup = readFileSync(path.join(root, "js/cache/cache.sql"), "utf8");
  const bodies = [...setup.matchAll(/returns event_trigger\n[^$]*\$\$(.*?)\$\$;/gs)].map(([, body]) => body);
  expect(bodies).toHaveLength(1);
  expect(faultsOf(`do $$${bodies[0]}$$`)).toEqual([]);
});

test("each qualification that is taken away is reported", () => {
  const all = statements.flatMap(({ text }) => [...unqualified(text)]);
  expect(all.length).toBeGreaterThan(400);
  expect(all.filter((text) => faultsOf(text).length === 0)).toEqual([]);
});

test.each([
  ["select a in (1, 2) from pg_catalog.pg_class", "a construct"],
  ["select nullif(a, 0)", "a construct"],
  ["select a between 1 and 2", "a construct"],
  ["select a not like 'b'", "a construct"],
  ["select case a when 1 then 2 end", "a simple CASE"],
  ["select a is distinct from b", "IS DISTINCT FROM"],
  ["select 1 from pg_catalog.pg_class join pg_catalog.pg_type using (oid)", "a construct"],
  ["select 1 from pg_catalog.pg_class natural join pg_catalog.pg_type", "a construct"],
  ["select (a, b) operator(pg_catalog.=) (1, 2)", "a comparison of rows"],
  ["select cast(a as pg_catalog.oid)", "CAST"],
  ["select date '2026-11-28'", "a type in front"],
  ["select exists (table pg_class)", "a construct"],
  ["with a as (delete from pg_catalog.pg_class returning oid) select oid from a", "a construct"],
  ["select 1 from pg_catalog.pg_class, pg_type", "a relation"],
  ["select 1 from only pg_class", "a relation"],
  ["select 1 from (select 1) a cross join lateral unnest(array[1]) b", "a relation"],
  ["select a.pg_catalog.f(1)", "a function"],
  ["select -a", "a bare operator"],
  ["select a * b", "a bare operator"],
  ["select extract(year from a)", "a construct"],
  ["with a as (select 1) select 1 from b", "a relation"],
  ["do $$begin if a = 1 then return; end if; end$$", "a bare operator"],
  ["do $$declare a text; begin return; end$$", "a declaration"],
  ["do $$begin execute f(a); end$$", "a function"],
  ["do $$begin return f(a); end$$", "a function"],
  ["do $$begin foreach a in array f(b) loop null; end loop; end$$", "a function"],
  ["do $$declare a int default f(1); begin return; end$$", "a declaration with a value"],
  ["do $$declare a int := f(1); begin return; end$$", "a declaration with a value"],
  ["with f as (select 1) select f(1) as (x)", "a function"],
  ["select a from pg_catalog.f() as t(a mood)", "a list of columns with types"],
  ["do $$begin perform 1 from t; end$$", "a relation"],
])("%s is refused: %s", (text, fault) => {
  expect(faultsOf(text).join("\n")).toContain(fault);
});

test("no name ends a statement of our own and begins another", () => {
  const text = ownStatements.map((each) => each.text).find((each) => each.startsWith("deallocate"))!;
  expect(text).toBe('deallocate "s""; drop table t; --";');
  expect(readSql(text)).toEqual(["word", "name", "semicolon"]);
});

function readSql(text: string): Kind[] {
  const reader = new SqlReader(text);
  const kinds: Kind[] = [];
  for (let kind = reader.next(); kind !== "end"; kind = reader.next()) kinds.push(kind);
  return kinds;
}

// -- the sources ------------------------------------------------------------------------------------------------------

interface Text {
  readonly where: string;
  /** A string, or the parts of a template around its expressions. */
  readonly parts: readonly string[];
}

/** Returns all strings and templates of js/, but not names of modules and literal types. */
function textsOf(file: string): Text[] {
  const source = ts.createSourceFile(file, readFileSync(path.join(root, file), "utf8"), ts.ScriptTarget.Latest, true);
  const found: Text[] = [];
  const visit = (node: ts.Node): void => {
    const { parent } = node;
    const isModule = parent && (ts.isImportDeclaration(parent) || ts.isExportDeclaration(parent));
    const add = (...parts: string[]) => {
      if (isModule || (parent && ts.isLiteralTypeNode(parent))) return;
      const { line } = source.getLineAndCharacterOfPosition(node.getStart());
      found.push({ where: `${file}:${line + 1}`, parts });
    };
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) add(node.text);
    if (ts.isTemplateExpression(node)) add(node.head.text, ...node.templateSpans.map(({ literal }) => literal.text));
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/**
 * Whether a text may be SQL: it begins with a command in one case of letters and has more than a word, or it has what
 * only SQL has.
 */
function maybeSql([beginning = "", ...rest]: readonly string[]): boolean {
  const head = beginning.replace(/^(\s|--[^\n]*\n|\/\*[^]*?\*\/)+/, "");
  const whole = [head, ...rest].join(" ");
  const [, command, after] = /^\s*\(?([a-z_]+|[A-Z_]+)\s+(\S)/.exec(`${head}${rest.length ? " ?" : ""}`) ?? [];
  if (command && after && COMMANDS.has(command.toLowerCase())) return true;
  // The beginning of a statement that is put together by `+`.
  if (!rest.length && /^(select|with|insert|update|delete|call|do)\s+$/i.test(head)) return true;
  return /pg_catalog\.|\boperator\(|(^|[\w)\]\s])::[a-z]|^\s*(from|where|and|union all|order by|case when) /.test(
    whole,
  );
}

const COMMANDS = new Set(
  `select insert update delete merge with values table begin start commit end rollback savepoint release abort prepare
   execute deallocate listen unlisten notify set reset show discard close declare fetch move copy do call create alter
   drop lock explain wait union perform analyze truncate comment refresh grant revoke vacuum reindex cluster security start_replication create_replication_slot drop_replication_slot identify_system
   timeline_history read_replication_slot`.split(/\s+/),
);

const spaced = (text: string): string => text.replace(/\s+/g, " ").trim();

describe("the sources", () => {
  const files = readdirSync(path.join(root, "js"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `js/${name}`);
  const texts = files.flatMap(textsOf).filter(({ parts }) => maybeSql(parts));
  // The body of a DO is a string constant in a statement, and a template in the sources.
  const all = ownStatements.flatMap(({ text }) => [spaced(text), spaced(text.replaceAll("''", "'"))]);

  test("every text that may be SQL is part of a statement of the list, or is known to be none", () => {
    const isListed = ({ parts }: Text) => all.some((text) => parts.every((part) => text.includes(spaced(part))));
    const unknown = texts.filter((text) => !isListed(text) && !NOT_SQL.has(spaced(text.parts.join("…"))));
    expect(unknown.map(({ where, parts }) => `${where}: ${spaced(parts.join("…"))}`)).toEqual([]);
  });

  test("every owner exists, and every text that is known to be no SQL is there", () => {
    expect(ownStatements.map(({ owner }) => owner).filter((owner) => !files.includes(owner))).toEqual([]);
    const there = new Set(texts.map(({ parts }) => spaced(parts.join("…"))));
    expect([...NOT_SQL].filter((text) => !there.has(text))).toEqual([]);
  });

  test("a statement outside the list is found", () => {
    expect(maybeSql(["select a from b where c = ", ""])).toBe(true);
    expect(maybeSql(["c = ", "::text"])).toBe(true);
    expect(maybeSql(["select "])).toBe(true);
    expect(maybeSql(["select ", ""])).toBe(true);
    expect(maybeSql(["/* why */ -- so\n select 1"])).toBe(true);
    expect(maybeSql(["Select fewer columns."])).toBe(false);
  });
});
