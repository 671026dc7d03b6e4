// Runs a statement, and reads from the server's own trees which functions, operators, types and relations it names.
//
// Knows trees (js/util/node-tree.ts). Must not know what is wrong with a name.
import type { Client } from "pg";
import { everyNode, items, readTree, type Node, type Value } from "../../../js/util/node-tree.ts";
import { lookingUp, type OwnStatement } from "./list.ts";
import type { Named } from "./traps.ts";

/**
 * Options of a session for `run`. RESET ALL, which is one of our statements, returns to these. The trees stay out of
 * the server's log.
 */
export const SHOWING_TREES =
  "-c debug_print_parse=on -c debug_pretty_print=off -c client_min_messages=log -c log_min_messages=panic";

export interface Outcome {
  /** The SQLSTATE, if the statement failed. */
  readonly code: string | undefined;
  readonly named: Named;
}

/** Returns what all statements of our own name. The session's search_path must be harmless. */
export async function namedByOwn(client: Client, major: number): Promise<Named> {
  await client.query(`set log_min_messages = panic; set debug_print_parse = on; set debug_pretty_print = off;
    set client_min_messages = log;
    create function pg_catalog.create_intermediate_result(text, text) returns int language sql as 'select 1'`);
  const all: Named[] = [];
  for (const statement of lookingUp(major)) all.push((await run(client, statement)).named);
  await client.query("reset debug_print_parse; reset client_min_messages; reset log_min_messages");
  return together(all);
}

/** Runs the statement in a transaction that is rolled back, and reads the trees that the server shows. */
export async function run(client: Client, { text, values }: OwnStatement): Promise<Outcome> {
  const trees: Value[] = [];
  const heard = ({ message, detail }: { message?: string | undefined; detail?: string | undefined }) => {
    if (message === "parse tree:") trees.push(readTree(detail ?? ""));
  };
  await client.query("begin");
  client.on("notice", heard);
  let code: string | undefined;
  try {
    // Without a list of values pg sends the text by the simple protocol.
    await client.query(values ? ({ text, values: [...values], queryMode: "extended" } as never) : text);
  } catch (error) {
    ({ code } = error as { code?: string });
  } finally {
    client.off("notice", heard);
    await client.query("rollback");
  }
  return { code, named: together(trees.map(namedIn)) };
}

export function together(all: readonly Named[]): Named {
  const union = (of: keyof Named) => new Set(all.flatMap((each) => [...each[of]]));
  return {
    functions: union("functions"),
    operators: union("operators"),
    types: union("types"),
    relations: union("relations"),
  };
}

/** Fields of nodes that hold OIDs, by what the OIDs are of. */
const FIELDS: Readonly<Record<keyof Named, readonly string[]>> = {
  functions: ["funcid", "aggfnoid", "winfnoid"],
  operators: ["opno", "eqop", "sortop"],
  types: [
    ...["consttype", "vartype", "paramtype", "resulttype", "funcresulttype", "opresulttype", "aggtype", "wintype"],
    ...["array_typeid", "element_typeid", "casetype", "coalescetype", "minmaxtype", "refcontainertype", "refelemtype"],
  ],
  relations: ["relid"],
};

function namedIn(tree: Value): Named {
  const found = {
    functions: new Set<number>(),
    operators: new Set<number>(),
    types: new Set<number>(),
    relations: new Set<number>(),
  };
  for (const node of everyNode(tree))
    for (const of of Object.keys(FIELDS) as (keyof Named)[])
      for (const field of FIELDS[of]) for (const oid of oidsOf(node, field)) found[of].add(oid);
  return found;
}

function oidsOf(node: Node, field: string): number[] {
  const value = node[field];
  return (typeof value === "string" ? [value] : items(value)).map(Number).filter((oid) => oid > 0);
}
