// How a person at a terminal sees rows, and which duplicate names readers of JSON would lose.
import { expect, test } from "vitest";
import { doubledIn } from "../../js/cli/names.ts";
import { tableOf } from "../../js/cli/table.ts";

/** Yields the text in pieces of `size` bytes. */
async function* pieces(text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function shown(text: string, { columns = Infinity, size = text.length * 4 } = {}): Promise<string> {
  let all = "";
  for await (const piece of tableOf(pieces(text, size), columns)) all += piece;
  return all;
}

const columnar = (columns: string[], rows: string[], behind = "") =>
  `{"columns":${JSON.stringify(columns)},"rows":[${rows.join()}]${behind}}`;

const FEW = columnar(["id", "name", "list"], ['[1,"Ada",[1,null]]', '[12345678901234567890.10,null,{"a":[2]}]']);
const FEW_SHOWN = `                      id | name | list
-------------------------+------+-----------
                       1 | Ada  | [1,null]
 12345678901234567890.10 |      | {"a":[2]}
(2 rows)
`;

test("columns are aligned, numbers to the right with every digit, and NULL is empty", async () => {
  expect(await shown(FEW)).toBe(FEW_SHOWN);
});

test("pieces may end anywhere: within a character, an escape or a name", async () => {
  const text = columnar(['a"b', "ü"], ['["x\\\\\\"]","€"]', '["[{,}]",null]']);
  const whole = await shown(text);
  expect(whole).toBe(' a"b   | ü\n-------+---\n x\\"]  | €\n [{,}] |\n(2 rows)\n');
  // The first piece with rows decides the widths, and the words stay the same.
  const words = (shown: string) => shown.replace(/[ -]+/g, " ");
  for (let size = 1; size < text.length; size++) expect(words(await shown(text, { size }))).toBe(words(whole));
});

test("rows that are wider than the terminal are shown record by record", async () => {
  const text = columnar(["id", "text"], ['[1,"a long text"]', '[2,"b"]']);
  expect(await shown(text, { columns: 12 })).toBe(
    "-[ RECORD 1 ]\nid   | 1\ntext | a long text\n-[ RECORD 2 ]\nid   | 2\ntext | b\n(2 rows)\n",
  );
  expect(await shown(text, { columns: 18 })).toMatch(/^ id \| text\n/);
  expect(await shown(text, { columns: 18, size: 3 })).toMatch(/^ id \| text\n/);
});

test("wide characters take two columns, combining marks none, and control characters are not printed", async () => {
  const rows = ['["名前"]', '["e\\u0301e"]', '["👍"]', '["a\\u001b[2J\\nb\\u202e\\u009b"]'];
  const escaped = "a\\u001b[2J\\nb\\u202e\\u009b";
  const line = "-".repeat(escaped.length + 2);
  expect(await shown(columnar(["n"], rows))).toBe(` n\n${line}\n 名前\n e\u0301e\n 👍\n ${escaped}\n(4 rows)\n`);
  expect(await shown(columnar(["a", "b"], ['["名前",1]', '["é",2]']))).toBe(
    " a    | b\n------+---\n 名前 | 1\n é    | 2\n(2 rows)\n",
  );
});

test("no rows, no columns, and a mark after the rows are shown", async () => {
  expect(await shown(columnar(["a"], []))).toBe(" a\n---\n(0 rows)\n");
  expect(await shown(columnar([], []))).toBe("");
  expect(await shown("")).toBe("");
  const mark = ',"$truncated":{"limit":"rows","value":1,"rows":[1]}';
  expect(await shown(columnar(["a"], ["[7]"], mark))).toBe(" a\n---\n 7\n(1 row)\n");
});

test("columns become wider with later rows", async () => {
  const rows = Array.from({ length: 50 }, (_, at) => `["${"x".repeat(at)}",1]`);
  const lines = (await shown(columnar(["a", "b"], rows), { size: 40 })).split("\n");
  expect(lines.length).toBe(50 + 2 + 1 + 1);
  for (const [at, line] of lines.slice(2, -2).entries()) expect(line.trim()).toBe(at ? `${"x".repeat(at)} | 1` : "| 1");
});

test.each([
  ['{"a":1,"b":{"a":2},"a":3}\n{"c":1,"c":2}', ["a"]],
  ['[{"a":1},{"a":2}]', []],
  ['[{"x\\"":[{"x\\"":1}],"x\\"":"{"}]', ['x"']],
  ['{"a":1,"a":2', undefined],
  ["", undefined],
  ["[]", undefined],
])("duplicate names in %s", (text, names) => expect(doubledIn(text)).toEqual(names));

test("names are found only as whole strings, wherever a piece ends", () => {
  const row = '{"a":"b: c: d: } \\" x","a":{"n":"}"},"b":1}';
  for (let end = 0; end < row.length; end++) expect(doubledIn(row.slice(0, end)), row.slice(0, end)).toBeUndefined();
  expect(doubledIn(row)).toEqual(["a"]);
  expect(doubledIn(`{"a":"${"x".repeat(5_000_000)}","a":1}`)).toEqual(["a"]);
});
