// The doctor's findings, as text or as data. As text, each finding is a line, with its advice below it.
//
// Must not know servers.

/**
 * `note`: nothing is wrong, but the user should know it. `change`: the user should follow the advice. `unknown`: it
 * could not be found out.
 */
type Level = "good" | "note" | "change" | "unknown";

export interface Finding {
  /** A name for programs. It does not change. */
  readonly id: string;
  readonly title: string;
  readonly level: Level;
  readonly text: string;
  /** The facts behind the text. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** What to change, in one sentence each. */
  readonly advice: readonly string[];
}

type Facts = Finding["facts"];

export function good(id: string, title: string, text: string, facts: Facts = {}): Finding {
  return { id, title, level: "good", text, facts, advice: [] };
}

export function note(id: string, title: string, text: string, facts: Facts, ...advice: string[]): Finding {
  return { id, title, level: "note", text, facts, advice };
}

export function change(id: string, title: string, text: string, facts: Facts, ...advice: string[]): Finding {
  return { id, title, level: "change", text, facts, advice };
}

export function unknown(id: string, title: string, text: string): Finding {
  return { id, title, level: "unknown", text, facts: {}, advice: [] };
}

const MARKS: Readonly<Record<Level, string>> = { good: "ok", note: "--", change: "!!", unknown: "??" };
const WIDTH = 100;

export function asText(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ title }) => title.length));
  const indent = " ".repeat(3 + width + 2);
  const lines = findings.flatMap(({ level, title, text, advice }) => [
    ...wrapped(`${MARKS[level]} ${title.padEnd(width)}  `, text, indent),
    ...advice.flatMap((one) => wrapped(`${indent}-> `, one, `${indent}   `)),
  ]);
  return `${lines.join("\n")}\n`;
}

function wrapped(first: string, text: string, indent: string): string[] {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  for (const word of text.split(" ")) {
    if (!isEmpty && line.length + word.length + 1 > WIDTH) {
      lines.push(line);
      line = indent;
      isEmpty = true;
    }
    line += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, line];
}
