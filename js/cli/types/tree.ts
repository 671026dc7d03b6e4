// Reads PostgreSQL's text of a node tree, as debug_print_rewritten writes it (src/backend/nodes/outfuncs.c):
//
//   node    {NAME :field value :field value …}
//   list    (value value …), of numbers with its kind in front: (i 1 2), (o 23), (b 1 2); empty or NULL: <>
//   datum   4 [ 1 0 0 0 ], the bytes of a constant
//   token   a number, true, a name; a backslash stands in front of a character that would mean something here
//
// Knows this grammar and no node. Must not know what a tree is asked for. Quotes and [ ] are nothing special: the
// server puts a backslash in front of each space and bracket of a name. Names stay written that way (`plain`).

/** A node: its name, and its fields by theirs. */
export interface Node {
  readonly kind: string;
  readonly [field: string]: Value;
}
/** `undefined` is `<>`: an empty list, or nothing. */
export type Value = Node | readonly Value[] | string | undefined;

/** @throws SyntaxError for anything else */
export function readTree(text: string): Value {
  if (isBroken(text)) throw new SyntaxError("The tree has a word that is longer than a line.");
  // An escaped space may have become the end of a line.
  const words = text.replace(/\\\n/g, "\\ ").match(/[{}()]|(?:\\[^]|[^\s{}()\\])+/g) ?? [];
  let at = 0;

  const value = (): Value => {
    const word = words[at++];
    if (word === undefined) throw new SyntaxError("The tree ends too early.");
    if (word === "{") return node();
    if (word === "(") return list();
    return word === "<>" ? undefined : word;
  };

  const node = (): Node => {
    const found: Record<string, Value> & { kind: string } = { kind: words[at++] ?? "" };
    while (words[at] !== "}") {
      const name = words[at++];
      if (!name?.startsWith(":")) throw new SyntaxError(`The tree has ${name} where a field begins.`);
      // The value may begin with a colon: a name.
      found[name.slice(1)] = value();
      // A constant's datum is several words; nobody asks for its bytes.
      while (at < words.length && words[at] !== "}" && !words[at]!.startsWith(":")) value();
    }
    at++;
    return found;
  };

  const list = (): readonly Value[] => {
    const found: Value[] = [];
    while (words[at] !== ")") found.push(value());
    at++;
    const [kind] = found;
    return typeof kind === "string" && /^[iobx]$/.test(kind) ? found.slice(1) : found;
  };

  const tree = value();
  if (at !== words.length) throw new SyntaxError("The tree goes on behind its end.");
  return tree;
}

/** The server breaks lines at spaces, and at their end where there is none. */
const LINE = 78;
const isBroken = (text: string): boolean =>
  text.split("\n").some((line) => !line.includes(" ", 1) && new TextEncoder().encode(line).length === LINE);

/** A name, as it is: without the backslashes. */
export const plain = (name: Value): string => (typeof name === "string" ? name.replace(/\\([^])/g, "$1") : "");

export const isNode = (value: Value): value is Node => typeof value === "object" && !Array.isArray(value);
export const nodes = (value: Value): readonly Node[] => (Array.isArray(value) ? (value as Value[]).filter(isNode) : []);
/** Those of a list, with places where there is nothing. */
export const items = (value: Value): readonly Value[] => (Array.isArray(value) ? (value as Value[]) : []);

/** All nodes of a tree, the tree's own first. */
export function* everyNode(value: Value): Generator<Node> {
  if (Array.isArray(value)) for (const item of value as Value[]) yield* everyNode(item);
  else if (isNode(value)) {
    yield value;
    for (const field of Object.values(value)) yield* everyNode(field);
  }
}
