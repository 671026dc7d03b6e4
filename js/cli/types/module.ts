// The file of row types: how it is written, and what differs between two of them.
//
// Knows text. Must not know where rows come from. The same rows give the same bytes, whatever order they came in.
import { inComment, property, type Member } from "./row-types.ts";

/** A row that has a name. */
export interface NamedRow {
  readonly name: string;
  readonly members: readonly Member[];
  /** What its comment says. */
  readonly comment: readonly string[];
}

/** `made`: the options that change what is in it. */
export function moduleOf(rows: readonly NamedRow[], declarations: readonly string[], made: string): string {
  const sorted = [...rows].sort((a, b) => (a.name < b.name ? -1 : 1));
  return [
    "/* eslint-disable */",
    `// Written by \`pgz-edge types${made && ` ${made}`}\` from the project's sql templates: run it again instead of editing.`,
    ...[...declarations, ...sorted.map(interfaceOf)].map((block) => `\n${block}`),
    "",
  ].join("\n");
}

function interfaceOf({ name, members, comment }: NamedRow): string {
  const lines = comment.map((line) => ` * ${inComment(line)}\n`).join("");
  const body = members.map((member) => `  ${property(member.name)}: ${member.type};\n`).join("");
  return `/**\n${lines} */\nexport interface ${name} {\n${body}}`;
}

export interface Difference {
  /** The row, enum or composite type. */
  readonly name: string;
  /** Lines as `diff` shows them. */
  readonly lines: readonly string[];
}

/** By what they declare; none if only the order differs. */
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
  return new Map(
    blocks.map((block) => [
      /^export (?:interface|type) (\S+)/m.exec(block)?.[1] ?? "the head of the file",
      block.trim().split("\n"),
    ]),
  );
}
