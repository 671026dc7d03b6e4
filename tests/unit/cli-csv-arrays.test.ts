// CSV with arrays in the form that COPY reads, however the input is cut into pieces.
import { expect, test } from "vitest";
import { arrayLiteral, withArrays, type ArrayKind } from "../../js/cli/csv-arrays.ts";

test.each<[string, ArrayKind, string]>([
  ["[]", "array", "{}"],
  ["[1,null,9007199254740993,true]", "array", "{1,NULL,9007199254740993,true}"],
  ['["a,b","q\\"\\\\","NULL","","\\u00e9{}"]', "array", '{"a,b","q\\"\\\\","NULL","","é{}"}'],
  ["[[1,2],[3,null]]", "array", "{{1,2},{3,NULL}}"],
  ['[{"a":[1,"x"]},[1,[2]],"t",null,7]', "array of JSON", '{"{\\"a\\":[1,\\"x\\"]}","[1,[2]]","\\"t\\"",NULL,7}'],
  ['[{"f1":1}]', "array", '{"{\\"f1\\":1}"}'],
])("%s (%s) is %s", (json, kind, literal) => expect(arrayLiteral(json, kind)).toBe(literal));

test("other columns, names and NULL stay as they are, and pieces may end anywhere", async () => {
  const csv = '"a,""b""",n\r\n"[1]","[1,2]"\r\nx,\r\n"two\r\nlines, ""q""","[""é"",null]"\r\n,[3]\r\n';
  const right = '"a,""b""",n\r\n"[1]","{1,2}"\r\nx,\r\n"two\r\nlines, ""q""","{""é"",NULL}"\r\n,"{3}"\r\n';
  const bytes = new TextEncoder().encode(csv);
  for (let size = 1; size <= bytes.length; size++) {
    async function* pieces() {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    }
    const decoder = new TextDecoder();
    let all = "";
    for await (const piece of withArrays(pieces(), [undefined, "array"], true)) all += decoder.decode(piece);
    expect(all).toBe(right);
  }
});

test("a cell of many megabytes passes, in one piece and in many", async () => {
  const cell = `"${'x""'.repeat(4_000_000)}"`;
  const bytes = new TextEncoder().encode(`a,b\r\n${cell},[1]\r\n`);
  for (const size of [bytes.length, 65_536]) {
    async function* pieces() {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    }
    let length = 0;
    for await (const piece of withArrays(pieces(), [undefined, "array"], true)) length += piece.length;
    expect(length).toBe(bytes.length + 2);
  }
});
