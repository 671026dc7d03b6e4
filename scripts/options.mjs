// Writes the options of docs/options.md and docs/pool.md, between their markers, from the comments in
// js/config/table.ts, js/pool/options.ts, js/api/options.ts and js/rows/form.ts. `node scripts/options.mjs --check`
// only compares (a test runs it).
//
// Each option has a heading of its own: a link and the site's search lead to it, and a phone shows it whole. (In a
// table of six columns the page was 25,803 pixels long there.)
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const root = fileURLToPath(new URL("..", import.meta.url));
/** The groups of a client's options: their titles by the first option of each, in the order of OPTIONS. */
const GROUPS = {
  host: "The server",
  user: "Login and session",
  sslmode: "TLS",
  requireAuth: "Authentication",
  connectTimeout: "Deadlines",
  maxRows: "Limits of a result",
  duplicates: "Names and values",
  maxMessageBytes: "Memory, and pieces of a result",
  statementCacheSize: "Statements",
  earlyQuery: "The connection",
  observer: "Watching",
};
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

/**
 * Returns the options that only calls have: the members of the interfaces in these files whose comment begins with
 * "Options of". The rest of that sentence says which calls.
 */
export function callEntriesOf(...files) {
  return files.flatMap((file) => {
    const source = ts.createSourceFile(file, readFileSync(path.join(root, file), "utf8"), ts.ScriptTarget.Latest, true);
    return source.statements.filter(ts.isInterfaceDeclaration).flatMap((declared) => {
      const [, calls] = /^Options of (.+?)\.(\s|$)/.exec(textOf(declared)) ?? [];
      return calls ? declared.members.map((member) => callEntryOf(member, calls)) : [];
    });
  });
}

function callEntryOf(member, calls) {
  const types = ts.isUnionTypeNode(member.type) ? member.type.types : [member.type];
  const values = types.map((type) => type.getText()).filter((type) => type !== "undefined");
  return { name: member.name.text, text: textOf(member), values: values.map(valueOf).join(", "), calls };
}

/** Returns what the page says of a type: functions have no signature there. */
const valueOf = (type) => (type.includes("=>") ? "function" : /^(boolean|number)$/.test(type) ? type : `\`${type}\``);

/** Returns the comment of a declaration on one line, without the braces of links. */
function textOf(declared) {
  const [comment] = ts.getJSDocCommentsAndTags(declared).filter(ts.isJSDoc);
  return oneLine(ts.getTextOfJSDocComment(comment?.comment) ?? "").replace(/\{@link (\w+)\}/g, "`$1`");
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

function callTable(entries, page) {
  const rows = entries.map(({ name, values, text, calls }) => {
    const cells = [values, text, calls].map((cell) => linked(cell, page).replaceAll("|", "\\|"));
    return `| \`${name}\` | ${cells.join(" | ")} |\n`;
  });
  return "| option | values | what it is | which calls |\n|---|---|---|---|\n" + rows.join("");
}

/** `groups`: the titles of the groups, by the first option of each. */
function headings(entries, page, groups = {}) {
  const stranger = Object.keys(groups).find((first) => !entries.some(({ name }) => name === first));
  if (stranger) throw new Error(`a group begins with ${stranger}, which is no option`);
  return entries.map((entry) => `\n${group(groups[entry.name])}${optionText(entry, page)}`).join("");
}

const group = (title) => (title ? `## ${title}\n\n` : "");

function optionText({ name, values, fallback, text, differs, calls }, page) {
  const facts = { Values: values, Default: fallback, "Where it differs": differs, "May be a call's own": calls };
  const lines = Object.entries(facts).filter(([, fact]) => fact !== "–");
  const list = lines.map(([title, fact]) => wrapped(`- **${title}**: ${linked(fact, page)}`, "  "));
  return `### \`${name}\`\n\n${wrapped(linked(text, page))}\n${list.join("")}`;
}

/** Returns the text in lines of at most 120 columns. A piece of code stays on its line. */
function wrapped(text, indent = "") {
  const lines = [""];
  for (const [word] of text.matchAll(/(?:`[^`]*`|[^\s`])+/g)) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (longer.length <= 120) lines[lines.length - 1] = longer;
    else lines.push(indent + word);
  }
  return `${lines.join("\n")}\n`;
}

/** Replaces what is between the markers of this name. */
function write(page, name, written, isCheck) {
  const file = path.join(root, "docs", page);
  const before = readFileSync(file, "utf8");
  const [start, end] = [`<!-- ${name}: scripts/options.mjs -->`, `<!-- /${name} -->`];
  const [head, rest] = [before.slice(0, before.indexOf(start)), before.slice(before.indexOf(end))];
  const after = `${head}${start}\n${written}${rest}`;
  if (after === before) return;
  if (isCheck) throw new Error(`docs/${page} is not what scripts/options.mjs writes`);
  writeFileSync(file, after);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isCheck = process.argv.includes("--check");
  const options = headings(entriesOf("js/config/table.ts", "OPTIONS"), "options.md", GROUPS);
  write("options.md", "options", options, isCheck);
  const ofCalls = callTable(callEntriesOf("js/api/options.ts", "js/rows/form.ts"), "options.md");
  write("options.md", "call options", ofCalls, isCheck);
  const ofPools = headings(entriesOf("js/pool/options.ts", "SIZES", "HOOKS"), "pool.md", { beforeConnect: "Hooks" });
  write("pool.md", "options", ofPools, isCheck);
}
