// The sql tag's cache of compiled texts: on random trees of fragments it never changes a text or its values.
import fc from "fast-check";
import { expect, test } from "vitest";
import { sql, type Query } from "../../js/statement/sql.ts";

/** A template with an identity, and the values of its holes. */
interface Tree {
  readonly strings: TemplateStringsArray;
  readonly holes: readonly (Tree | { readonly value: unknown } | { readonly list: readonly Tree[] })[];
}

const template = (strings: string[]) =>
  Object.freeze(Object.assign(strings, { raw: Object.freeze([...strings]) })) as TemplateStringsArray;
// A few templates for each number of holes, so that random trees use the same identities repeatedly with different
// contents.
const piece = fc.constantFrom("", " ", "a", "0", "12 ", " and ", "$1", "'x'", "\n");
const templates = [0, 1, 2, 3, 4].map((holes) =>
  fc
    .sample(fc.array(piece, { minLength: holes + 1, maxLength: holes + 1 }), { numRuns: 6, seed: 42 + holes })
    .map(template),
);
const { tree } = fc.letrec<{ tree: Tree; hole: Tree["holes"][number] }>((tie) => ({
  hole: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.record({
      value: fc.oneof(
        fc.integer(),
        fc.constant(null),
        fc.string(),
        fc.constant([sql`a fragment beside a value is none`, 1]),
        fc.constant([]),
      ),
    }),
    tie("tree"),
    fc.record({ list: fc.array(tie("tree") as fc.Arbitrary<Tree>, { minLength: 1, maxLength: 3 }) }),
  ),
  tree: fc.nat(4).chain((holes) =>
    fc.record({
      strings: fc.constantFrom(...(templates[holes] ?? [])),
      holes: fc.array(tie("hole"), { minLength: holes, maxLength: holes }),
    }),
  ),
}));

const build = ({ strings, holes }: Tree): Query =>
  sql(
    strings,
    ...holes.map((hole) => ("value" in hole ? hole.value : "list" in hole ? hole.list.map(build) : build(hole))),
  );

/** Written differently on purpose: first a list of tokens, and then the text from it. */
function cold(root: Tree): { text: string; values: unknown[] } {
  const tokens: (string | { value: unknown })[] = [];
  const walk = ({ strings, holes }: Tree): void =>
    strings.forEach((text, index) => {
      if (text !== "") tokens.push(text);
      const hole = holes[index];
      if (hole) "value" in hole ? tokens.push(hole) : "list" in hole ? hole.list.forEach(walk) : walk(hole);
    });
  walk(root);
  const values: unknown[] = [];
  const texts = tokens.map((token, index) => {
    if (typeof token !== "string") return `$${values.push(token.value)}`;
    return typeof tokens[index - 1] === "object" && /[0-9]/.test(token.charAt(0)) ? ` ${token}` : token;
  });
  return { text: texts.join(""), values };
}

test("without and with the cache, random fragment trees give the same text and values", () => {
  let nested = 0;
  fc.assert(
    fc.property(tree, (root) => {
      const expected = cold(root);
      for (const _ of ["first", "again"]) {
        const { text, values } = build(root);
        expect({ text, values }).toEqual(expected);
      }
      if (root.holes.some((hole) => "strings" in hole)) nested++;
    }),
    { numRuns: 10_000 },
  );
  expect(nested).toBeGreaterThan(1_000);
});
