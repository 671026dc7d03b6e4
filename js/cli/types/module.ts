// Writes the file of row types, and compares two versions of it.
//
// Knows text. Must not know where rows come from. The same rows give the same bytes, in whatever order they come.
import { inComment, property, type Member } from "./row-types.ts";

/** A row type with its name. */
export interface NamedRow {
  readonly name: string;
  readonly members: readonly Member[];
  /** The lines of its comment. */
  readonly comment: readonly string[];
  /**
   * For each template that asks for this row: the parameter's type for each expression in its braces. `undefined` if
   * the expression is SQL, or if its type depends on a condition.
   */
  readonly takes: readonly (readonly (string | undefined)[])[];
}

/** What the file contains besides rows. */
interface Surroundings {
  /** Enums and composite types. */
  readonly declarations: readonly string[];
  /** The options that change the file's content. */
  readonly made: string;
  /** The module from which the project imports the driver. */
  readonly driver: string;
  /**
   * The present content of the file. `kept` are the rows in it that are not known now, because their templates are
   * wrong.
   */
  readonly old: string;
  readonly kept: readonly string[];
}

export function moduleOf(rows: readonly NamedRow[], around: Surroundings): string {
  const { declarations, made, driver } = around;
  const blocks = new Map(rows.map((row) => [row.name, interfaceOf(row)]));
  const kept = keptOf(around);
  for (const [name, block] of kept.rows) blocks.set(name, block);
  const sorted = [...blocks].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, block]) => block);
  const all = [...declarations, ...kept.declarations, ...sorted];
  return [
    "/* eslint-disable */",
    `// Written by \`pgz-edge types${made && ` ${made}`}\` from the project's sql templates: run it again instead of editing.`,
    ...(sorted.some((block) => block.includes(" extends pgz.Takes<"))
      ? [`import type * as pgz from ${JSON.stringify(driver)};`]
      : []),
    ...all.map((block) => `\n${block}`),
    "",
  ].join("\n");
}

/** Returns what is kept of the present file: the rows of wrong templates, and the types that only they name. */
function keptOf({ declarations, old, kept }: Surroundings): { rows: Map<string, string>; declarations: string[] } {
  const blocks = blocksOf(old);
  const isNew = new Set(declarations.flatMap((block) => nameOf(block) ?? []));
  const rows = new Map<string, string>();
  const named = new Map<string, string>();
  const waiting = [...kept];
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
    const block = blocks.get(name)?.join("\n");
    if (block === undefined || rows.has(name) || named.has(name) || isNew.has(name)) continue;
    (kept.includes(name) ? rows : named).set(name, block);
    waiting.push(...(block.match(/\b[A-Z]\w*/g) ?? []));
  }
  return { rows, declarations: [...named].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, block]) => block) };
}

function interfaceOf({ name, members, comment, takes }: NamedRow): string {
  const lines = comment.map((line) => ` * ${inComment(line)}\n`).join("");
  const body = members.map((member) => `  ${property(member.name)}: ${member.type};\n`).join("");
  const said = takes.some((types) => types.some((type) => type !== undefined));
  const values = [...new Set(takes.map((types) => `[${types.map(parameter).join(", ")}]`))].sort();
  const extending = said ? ` extends pgz.Takes<${values.join(" | ")}>` : "";
  return `/**\n${lines} */\nexport interface ${name}${extending} {\n${body}}`;
}

const parameter = (type: string | undefined) =>
  type === undefined ? "unknown" : `pgz.Parameter<${JSON.stringify(type)}>`;

interface Difference {
  /** The row, enum or composite type. */
  readonly name: string;
  /** Lines as `diff` shows them. */
  readonly lines: readonly string[];
}

/** Compares two files by their declarations. There is no difference if only the order differs. */
export function differences(old: string, now: string): Difference[] {
  const before = blocksOf(old);
  const after = blocksOf(now);
  const names = [...new Set([...before.keys(), ...after.keys()])].sort();
  return names.flatMap((name) => {
    const [gone, come] = [before.get(name) ?? [], after.get(name) ?? []];
    const lines = [
      ...gone.filter((line) => !come.includes(line)).map((line) => `- ${line}`),
      ...come.filter((line) => !gone.includes(line)).map((line) => `+ ${line}`),
    ];
    return lines.length ? [{ name, lines }] : [];
  });
}

function blocksOf(text: string): Map<string, readonly string[]> {
  const blocks = text.replaceAll("\r\n", "\n").split(/\n\n(?=\/\*\*)/);
  return new Map(blocks.map((block) => [nameOf(block) ?? "the head of the file", block.trim().split("\n")]));
}

const nameOf = (block: string): string | undefined => /^export (?:interface|type) (\S+)/m.exec(block)?.[1];
