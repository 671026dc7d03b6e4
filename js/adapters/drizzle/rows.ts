// Converts the driver's rows, which are arrays, to nested objects by Drizzle's paths.
//
// Knows paths and decoders. Must not know columns, nor which version of Drizzle calls it.
import type { Convert } from "./forms.ts";

export type RowMapper = (row: readonly unknown[]) => Record<string, unknown>;

/** The path of a column's value in the object, and its decoder. Without a decoder the value is stored as it is. */
interface Field {
  readonly path: readonly string[];
  readonly decode: Convert | undefined;
}

interface Leaf {
  readonly key: string;
  readonly index: number;
  readonly decode: Convert | undefined;
}

interface Group {
  readonly keys: string[];
  readonly leaves: Leaf[];
  readonly groups: { readonly key: string; readonly group: Group }[];
  /** An object with all keys in order, which is copied for each row: each row then has the same hidden class. */
  template: Record<string, unknown>;
  /** Indexes of the columns that make the whole group null if all of them are NULL. Empty: it is never null. */
  readonly nullIndicators: number[];
}

/**
 * Returns a mapper that makes an object of each row. A group is null if all of its columns in `nullIndicators`, which
 * are indexes of `fields`, are NULL.
 */
export function rowMapper(fields: readonly Field[], nullIndicators: ReadonlySet<number>): RowMapper {
  const root = emptyGroup();
  fields.forEach(({ path, decode }, index) => {
    let group = root;
    for (const key of path.slice(0, -1)) group = groupIn(group, key);
    const leaf = { key: path.at(-1)!, index, decode };
    group.keys.push(leaf.key);
    group.leaves.push(leaf);
    if (nullIndicators.has(index)) groupIn(root, path[0]!).nullIndicators.push(index);
  });
  settle(root);
  return root.groups.length ? (row) => build(root, row)! : flat(root);
}

/** A faster mapper for selections without groups, as most are. */
const flat =
  ({ template, leaves }: Group): RowMapper =>
  (row) => {
    const object = { ...template };
    for (const leaf of leaves) object[leaf.key] = valueOf(leaf, row);
    return object;
  };

const emptyGroup = (): Group => ({ keys: [], leaves: [], groups: [], template: {}, nullIndicators: [] });

function groupIn(group: Group, key: string): Group {
  const known = group.groups.find((other) => other.key === key);
  if (known) return known.group;
  const made = { key, group: emptyGroup() };
  group.keys.push(key);
  group.groups.push(made);
  return made.group;
}

function settle(group: Group): void {
  group.template = Object.fromEntries(group.keys.map((key) => [key, null]));
  for (const { group: inner } of group.groups) settle(inner);
}

function build(
  { nullIndicators, template, leaves, groups }: Group,
  row: readonly unknown[],
): Record<string, unknown> | null {
  if (nullIndicators.length && nullIndicators.every((index) => row[index] === null)) return null;
  const object = { ...template };
  for (const leaf of leaves) object[leaf.key] = valueOf(leaf, row);
  for (const { key, group } of groups) object[key] = build(group, row);
  return object;
}

function valueOf({ index, decode }: Leaf, row: readonly unknown[]): unknown {
  const value = row[index];
  return decode && value !== null ? decode(value) : value;
}
