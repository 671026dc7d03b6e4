// Asks a server what statements take and return, and which of their columns can be NULL, without running any of them.
//
// Knows Parse and Describe by the driver's call, and two settings of PostgreSQL. Must not know files or TypeScript.
//
// All of it is one transaction that only reads and is rolled back. debug_print_rewritten makes the server show the tree
// of each statement that it parses, and client_min_messages = log makes it show it to us. The server's log would get it
// too: who may (a superuser) keeps it out of there for the transaction.
import type { Client, Column, PgzError, PostgresError, Transaction } from "../../index.ts";
import { factsOf } from "./facts.ts";
import { named, nullability, type Facts } from "./nullability.ts";
import { targetsOf } from "./targets.ts";
import { nodes, plain, readTree, type Value } from "./tree.ts";

/** What is known of a statement. */
export interface Described {
  readonly parameterTypes: readonly number[];
  readonly fields: readonly Column[];
  /** By column: it can be NULL, as far as is known. */
  readonly nullable: readonly boolean[];
}

/** What the server says of each text, or why it refuses it; whatever `after` finds out in the same transaction. */
export async function describeAll<After>(
  client: Client,
  texts: Iterable<string>,
  after: (tx: Transaction, described: ReadonlyMap<string, Described | PgzError>) => Promise<After>,
): Promise<After> {
  let result: { readonly after: After } | undefined;
  const undone = new Error("All of it is rolled back.");
  try {
    await client.transaction(
      async (tx) => {
        const found = await describeIn(tx, texts);
        result = { after: await after(tx, found) };
        throw undone;
      },
      { readOnly: true },
    );
  } catch (error) {
    if (error !== undone) throw error;
  }
  return result!.after;
}

interface Parsed {
  readonly described: Omit<Described, "nullable">;
  /** Those that may be the statement's own; none if one could not be read. */
  readonly trees: readonly Value[];
}

async function describeIn(tx: Transaction, texts: Iterable<string>): Promise<Map<string, Described | PgzError>> {
  await tx.exec("savepoint unset", QUIET);
  await tx.query(SETTINGS, QUIET);
  await tx.exec("savepoint described", QUIET);
  const found = new Map<string, Parsed | PgzError>();
  let waiting = [...new Set(texts)];
  while (waiting.length) {
    // One round trip for all, and one more for each that is refused: the server then refuses those behind it too.
    const answers = await Promise.allSettled(waiting.map((text) => parsed(tx, text)));
    const refused = answers.findIndex(({ status }) => status === "rejected");
    const over = refused < 0 ? answers.length : refused + 1;
    for (const [index, answer] of answers.slice(0, over).entries())
      found.set(waiting[index]!, answer.status === "fulfilled" ? answer.value : ofServer(answer.reason));
    if (refused >= 0) await tx.exec("rollback to savepoint described", QUIET);
    waiting = waiting.slice(over);
  }
  await tx.exec("rollback to savepoint unset", QUIET);
  const trees = [...found.values()].flatMap((each) => ("trees" in each ? each.trees : []));
  const facts = await factsOf(tx, named(trees));
  const all = new Map<string, Described | PgzError>();
  for (const [text, each] of found) all.set(text, "described" in each ? withNull(each, facts) : each);
  return all;
}

async function parsed(tx: Transaction, text: string): Promise<Parsed> {
  const trees: Value[] = [];
  const observer = {
    onNotice: ({ message, detail }: { message?: string | undefined; detail?: string | undefined }) => {
      if (message === "rewritten parse tree:") trees.push(treeIn(detail ?? ""));
    },
  };
  const { parameterTypes, fields } = await tx.describe(text, { observer });
  const own = trees.includes(undefined) ? [] : trees.filter((tree) => returns(tree, fields));
  return { described: { parameterTypes, fields }, trees: own };
}

/** What the server says against a statement. Anything else ends all of it. */
function ofServer(reason: unknown): PgzError {
  if (isOfServer(reason)) return reason;
  throw reason;
}

/**
 * Whether a statement with this tree has these columns. Beside its own there may be trees of functions that the server
 * runs while it parses (the CHECK of a constant's domain), and that of the driver's question about types.
 */
function returns(tree: Value, fields: readonly Column[]): boolean {
  const wanted = fields.map(({ name, tableOid, columnAttributeNumber }) => [name, tableOid, columnAttributeNumber]);
  return nodes(tree).some((query) => {
    const targets = targetsOf(query).map(({ resname, resorigtbl, resorigcol }) => [
      plain(resname),
      Number(resorigtbl),
      Number(resorigcol),
    ]);
    return JSON.stringify(targets) === JSON.stringify(wanted);
  });
}

/** What all trees say that may be the statement's own. */
function withNull({ described, trees }: Parsed, facts: Facts): Described {
  const answers = trees.map((tree) => nullability(tree, facts));
  const nullable = described.fields.map((_, index) => !answers.length || answers.some((one) => one?.[index] ?? true));
  return { ...described, nullable };
}

/** By its name, since the client may be another copy's. */
const isOfServer = (error: unknown): error is PostgresError => error instanceof Error && error.name === "PostgresError";

/** `undefined`: it cannot be read. */
function treeIn(text: string): Value {
  try {
    return readTree(text);
  } catch {
    return undefined;
  }
}

/** The trees of our own statements are for nobody. */
const QUIET = { observer: {} };
const SETTINGS = `select pg_catalog.set_config(name, value, true) from (values
    ('debug_print_rewritten', 'on'), ('debug_pretty_print', 'off'), ('client_min_messages', 'log'),
    ('log_min_messages', case when (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then 'panic' end)
  ) as settings (name, value) where value is not null`;
