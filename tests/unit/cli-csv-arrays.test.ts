// CSV with arrays in the form that COPY reads, however the input is cut into pieces.
import { expect, test } from "vitest";
import { arrayLiteral, withArrays, type ArrayKind } from "../../js/cli/csv-arrays.ts";

const plain: ArrayKind = { ofJson: false, delimiter: "," };
const ofJson: ArrayKind = { ofJson: true, delimiter: "," };
const boxes: ArrayKind = { ofJson: false, delimiter: ";" };

test.each<[string, ArrayKind, string]>([
  ['["(3,4),(1,2)",null,"(7,8),(5,6)"]', boxes, '{"(3,4),(1,2)";NULL;"(7,8),(5,6)"}'],
  ["[]", plain, "{}"],
  ["[1,null,9007199254740993,true]", plain, "{1,NULL,9007199254740993,true}"],
  ['["a,b","q\\"\\\\","NULL","","\\u00e9{}"]', plain, '{"a,b","q\\"\\\\","NULL","","é{}"}'],
  ["[[1,2],[3,null]]", plain, "{{1,2},{3,NULL}}"],
  ['[{"a":[1,"x"]},[1,[2]],"t",null,7]', ofJson, '{"{\\"a\\":[1,\\"x\\"]}","[1,[2]]","\\"t\\"",NULL,7}'],
  ['[{"f1":1}]', plain, '{"{\\"f1\\":1}"}'],
])("%s (%o) is %s", (json, kind, literal) => expect(arrayLiteral(json, kind)).toBe(literal));

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
    for await (const piece of withArrays(pieces(), [undefined, plain], true)) all += decoder.decode(piece);
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
    for await (const piece of withArrays(pieces(), [undefined, plain], true)) length += piece.length;
    expect(length).toBe(bytes.length + 2);
  }
});
