// Comments are plain English, as far as words show it. HACKING.md has the list of words ("Words"), and this test reads
// it there.
//
// Knows where comments are. Must not know what a comment says: a reader judges that.
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { read, root } from "./repository.ts";

const WIDTH = 120;

/** Written by other programs. */
const GENERATED = /^js\/(wasm\/(numbers|messages)|sqlstates)\.ts$/;
const sources = execFileSync("git", ["ls-files", "*.ts", "*.mts", "*.mjs", "*.rs"], { cwd: root, encoding: "utf8" })
  .trim()
  .split("\n")
  .filter((name) => !GENERATED.test(name));

/** The words in the first column of the table below the heading "Words". */
function wordsToAvoid(): string[] {
  const [, table = ""] = /^## Words\n([^]*?)(?=^## )/m.exec(read("HACKING.md")) ?? [];
  return [...table.matchAll(/^\| (?!not )([a-z, ]+?) \|/gm)].flatMap(([, words]) => words!.split(", "));
}

/** A line that is a comment and nothing else. */
const isComment = (line: string) => /^\s*(\/\/|\/\*|\*(\s|$))/.test(line);

/** A comment without what it quotes as code. */
const prose = (line: string) => line.replaceAll(/`[^`]*`/g, "");

/** Returns the lines of comments that have one of the words. */
function withWords(name: string, text: string, words: RegExp): string[] {
  const lines = text.split("\n");
  return lines.flatMap((line, at) =>
    isComment(line) && words.test(prose(line)) ? [`${name}:${at + 1}: ${line.trim()}`] : [],
  );
}

const words = wordsToAvoid();
const pattern = new RegExp(`\\b(${words.join("|")})\\b`, "i");

test("comments have none of the words that HACKING.md lists", () => {
  expect(words.length).toBeGreaterThan(4);
  expect(sources.flatMap((name) => withWords(name, read(name), pattern))).toEqual([]);
});

test("a word of the list is found in a comment, and not in code", () => {
  const text = "// Nobody reads it.\n/**\n * Somebody does.\n */\nconst nobody = 1;\n";
  expect(withWords("a.ts", text, pattern)).toEqual(["a.ts:1: // Nobody reads it.", "a.ts:3: * Somebody does."]);
});

test("comments fit 120 columns", () => {
  const wide = sources.flatMap((name) =>
    read(name)
      .split("\n")
      // A link is not broken.
      .flatMap((line, at) =>
        isComment(line) && line.length > WIDTH && !line.includes("://") ? [`${name}:${at + 1}`] : [],
      ),
  );
  expect(wide).toEqual([]);
});
