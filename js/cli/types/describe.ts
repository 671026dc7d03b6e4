// Asks a server what statements take and return, and which of their columns can be NULL, without running any of them.
//
// Knows Parse and Describe by the driver's call, and two settings of PostgreSQL. Must not know files or TypeScript.
//
// All questions are asked in one read-only transaction, which is rolled back. debug_print_rewritten makes the server
// print the tree of each statement that it parses, and client_min_messages = log makes it send the tree to the client.
// The tree would go to the server's log too. A superuser may prevent that, so a superuser's transaction sets
// log_min_messages = panic.
import type { Client, Column, PgzError, PostgresError, Transaction } from "../../index.ts";
import { factsOf } from "./facts.ts";
import { named, nullability, type Facts } from "./nullability.ts";
import { targetsOf } from "./targets.ts";
import { nodes, plain, treeIn, type Value } from "../../util/node-tree.ts";
import { EQ } from "../../util/operators.ts";

/** The description of a statement. */
export interface Described {
  readonly parameterTypes: readonly number[];
  readonly fields: readonly Column[];
  /** By column: whether it can be NULL, as far as is known. */
  readonly nullable: readonly boolean[];
}

/**
 * Describes each text, or keeps the server's error for it. Returns the result of `after`, which runs in the same
 * transaction.
 */
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

/** in_failed_sql_transaction */
const FOLLOWS_A_FAILURE = "25P02";

interface Parsed {
  readonly described: Omit<Described, "nullable">;
  /** The trees that may be the statement's own; empty if a tree could not be read. */
  readonly trees: readonly Value[];
}

async function describeIn(tx: Transaction, texts: Iterable<string>): Promise<Map<string, Described | PgzError>> {
  await tx.exec("savepoint unset", QUIET);
  await tx.query(SETTINGS, QUIET);
  await tx.exec("savepoint described", QUIET);
  const wanted = [...new Set(texts)];
  const found = new Map<string, Parsed | PgzError>();
  let waiting = wanted;
  while (waiting.length) {
    // One round trip for all texts, and one more for each text that is refused: the server then refuses what follows
    // too, which may be the question about an earlier text's types.
    const answers = await Promise.allSettled(waiting.map((text) => parsed(tx, text)));
    const reasons = answers.map((answer) => (answer.status === "rejected" ? ofServer(answer.reason) : undefined));
    const refused = waiting.find((_, index) => (reasons[index]?.code ?? FOLLOWS_A_FAILURE) !== FOLLOWS_A_FAILURE);
    for (const [index, text] of waiting.entries()) {
      const answer = answers[index]!;
      if (answer.status === "fulfilled") found.set(text, answer.value);
      else if (refused === undefined || text === refused) found.set(text, reasons[index]!);
    }
    if (reasons.some((reason) => reason !== undefined)) await tx.exec("rollback to savepoint described", QUIET);
    waiting = waiting.filter((text) => !found.has(text));
  }
  await tx.exec("rollback to savepoint unset", QUIET);
  const trees = [...found.values()].flatMap((each) => ("trees" in each ? each.trees : []));
  const facts = await factsOf(tx, named(trees));
  const all = new Map<string, Described | PgzError>();
  for (const text of wanted) {
    const each = found.get(text)!;
    all.set(text, "described" in each ? withNull(each, facts) : each);
  }
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

/** Returns the server's error for a statement. Throws any other error, which ends the whole description. */
function ofServer(reason: unknown): PgzError {
  if (isOfServer(reason)) return reason;
  throw reason;
}

/**
 * Whether a statement with this tree has these columns. Besides the statement's own tree, there may be trees of
 * functions that the server runs while it parses (the CHECK of a constant's domain), and that of the driver's question
 * about types.
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

/** A column can be NULL if one of the trees that may be the statement's own says so, or if there is no such tree. */
function withNull({ described, trees }: Parsed, facts: Facts): Described {
  const answers = trees.map((tree) => nullability(tree, facts));
  const nullable = described.fields.map((_, index) => !answers.length || answers.some((one) => one?.[index] ?? true));
  return { ...described, nullable };
}

/** Checked by name, because the client may come from another copy of the driver. */
const isOfServer = (error: unknown): error is PostgresError => error instanceof Error && error.name === "PostgresError";

/** Drops the notices of the statements here, whose trees are not needed. */
const QUIET = { observer: {} };
export const SETTINGS = `select pg_catalog.set_config(name, value, true) from (values
    ('debug_print_rewritten', 'on'), ('debug_pretty_print', 'off'), ('client_min_messages', 'log'),
    ('log_min_messages', case
      when (select rolsuper from pg_catalog.pg_roles where rolname ${EQ} current_user) then 'panic' end)
  ) as settings (name, value) where value is not null`;
