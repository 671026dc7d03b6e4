// Reads PostgreSQL's text of a node tree, as debug_print_rewritten writes it (src/backend/nodes/outfuncs.c):
//
//   node    {NAME :field value :field value …}
//   list    (value value …), of numbers with its kind in front: (i 1 2), (o 23), (b 1 2); empty or NULL: <>
//   datum   4 [ 1 0 0 0 ], the bytes of a constant
//   token   a number, true, a name; a backslash is in front of a character that would mean something here
//
// Knows this grammar, but no node. Must not know what a tree is used for. Quotes and [ ] are not special: the server
// puts a backslash in front of each space and bracket of a name. Names keep their backslashes (see `plain`).

/** A node: its kind, and its fields by name. */
export interface Node {
  readonly kind: string;
  readonly [field: string]: Value;
}
/** `undefined` is `<>`: an empty list or NULL. */
export type Value = Node | readonly Value[] | string | undefined;

/**
 * Reads the text of a tree.
 *
 * @throws SyntaxError for any other text
 */
export function readTree(text: string): Value {
  if (isBroken(text)) throw new SyntaxError("The tree has a word that is longer than a line.");
  // The server may have broken the line at an escaped space.
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
      // A name as a value may begin with a colon. A field called `kind`, which GROUPINGSET has, is not kept.
      const read = value();
      if (name !== ":kind") found[name.slice(1)] = read;
      // A constant's datum is several words. Its bytes are not needed.
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
  if (at !== words.length) throw new SyntaxError("The tree continues after its end.");
  return tree;
}

/** Returns the tree; `undefined` if it cannot be read. */
export function treeIn(text: string): Value {
  try {
    return readTree(text);
  } catch {
    return undefined;
  }
}

/** Bytes of a full line. The server breaks lines at spaces, and after this many bytes if there is no space. */
const LINE = 78;
const isBroken = (text: string): boolean =>
  text.split("\n").some((line) => !line.includes(" ", 1) && new TextEncoder().encode(line).length === LINE);

/** A name without its backslashes. */
export const plain = (name: Value): string => (typeof name === "string" ? name.replace(/\\([^])/g, "$1") : "");

export const isNode = (value: Value): value is Node => typeof value === "object" && !Array.isArray(value);
export const nodes = (value: Value): readonly Node[] => (Array.isArray(value) ? (value as Value[]).filter(isNode) : []);
/** The values of a list, including the empty ones. */
export const items = (value: Value): readonly Value[] => (Array.isArray(value) ? (value as Value[]) : []);

/** Yields all nodes of a tree, each before the nodes in it. */
export function* everyNode(value: Value): Generator<Node> {
  if (Array.isArray(value)) for (const item of value as Value[]) yield* everyNode(item);
  else if (isNode(value)) {
    yield value;
    for (const field of Object.values(value)) yield* everyNode(field);
  }
}
