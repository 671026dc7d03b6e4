// Writes the tables of docs/options.md and docs/pool.md, between their markers, from the comments in js/config/table.ts
// and js/pool/options.ts. `node scripts/options.mjs --check` only compares (a test runs it).
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const root = fileURLToPath(new URL("..", import.meta.url));
const HEAD =
  "| option | values | default, and why | what it is | where it differs | may be a call's own |\n" +
  "|---|---|---|---|---|---|\n";
/** The meaning of an entry's last argument (js/config/entries.ts). */
const CALLS = { every: "every call", rows: "calls with rows", values: "calls whose rows are values" };

/** Returns the options of these tables, with their comments. */
export function entriesOf(file, ...tables) {
  const source = ts.createSourceFile(file, readFileSync(path.join(root, file), "utf8"), ts.ScriptTarget.Latest, true);
  return tables.flatMap((name) => {
    const declared = source.statements
      .filter(ts.isVariableStatement)
      .flatMap(({ declarationList }) => declarationList.declarations)
      .find((one) => one.name.text === name);
    return tableIn(declared.initializer).properties.map(entryOf);
  });
}

/** Returns the object of a table, or of a function that makes a table. */
function tableIn(initializer) {
  return ts.isArrowFunction(initializer) ? initializer.body.expression : initializer;
}

function entryOf(property) {
  const [comment] = ts.getJSDocCommentsAndTags(property).filter(ts.isJSDoc);
  const tag = (name) => {
    const found = comment.tags?.find(({ tagName }) => tagName.text === name);
    return found && oneLine(ts.getTextOfJSDocComment(found.comment));
  };
  return {
    name: property.name.text,
    text: oneLine(ts.getTextOfJSDocComment(comment.comment)),
    values: tag("unit") ?? words(property.initializer.arguments[0]),
    fallback: tag("defaultValue") ?? "none",
    differs: tag("runtimes") ?? "–",
    calls: CALLS[property.initializer.arguments.at(-1).text] ?? "–",
  };
}

const oneLine = (text) => text.replace(/\s*\n\s*/g, " ").trim();

/** Returns the values of the rules `oneOf(…)` and `flag`. */
function words(rule) {
  if (rule.getText() === "flag") return "boolean";
  if (!/^oneOf\b/.test(rule.getText())) throw new Error(`${rule.getText()}: say its values with @unit`);
  return rule.arguments.map((word) => `\`${word.text ?? word.getText()}\``).join(", ");
}

/** Turns pages and their sections, named as docs/x.md#y, into links on `page`. */
function linked(text, page) {
  return text.replace(/docs\/([\w-]+\.md)(#[\w-]+)?/g, (_, name, section = "") =>
    name === page && section ? `[below](${section})` : `[${name}](${name}${section})`,
  );
}

function table(entries, page) {
  const rows = entries.map(({ name, values, fallback, text, differs, calls }) => {
    const cells = [values, fallback, text, differs, calls].map((cell) => linked(cell, page).replaceAll("|", "\\|"));
    return `| \`${name}\` | ${cells.join(" | ")} |\n`;
  });
  return HEAD + rows.join("");
}

function write(page, entries, isCheck) {
  const file = path.join(root, "docs", page);
  const before = readFileSync(file, "utf8");
  const [start, end] = ["<!-- options: scripts/options.mjs -->", "<!-- /options -->"];
  const [head, rest] = [before.slice(0, before.indexOf(start)), before.slice(before.indexOf(end))];
  const after = `${head}${start}\n${table(entries, page)}${rest}`;
  if (after === before) return;
  if (isCheck) throw new Error(`docs/${page} is not what scripts/options.mjs writes`);
  writeFileSync(file, after);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isCheck = process.argv.includes("--check");
  write("options.md", entriesOf("js/config/table.ts", "OPTIONS"), isCheck);
  write("pool.md", entriesOf("js/pool/options.ts", "SIZES", "HOOKS"), isCheck);
}
