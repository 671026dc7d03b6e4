// Learns which relations a statement reads, without running it: the server's own word, as the role that asks, with its
// settings.
//
// Knows the conversation with the server, and which of the trees that it shows is the statement's own (decision 0033).
// Must not know nodes (tree-reads.ts), the catalog (facts.ts), or what bounds an answer (reasons.ts).
//
//   BEGIN, snapshot and settings                     one round trip: later calls wait until BEGIN is answered
//   Parse of the statement, settings back            one round trip
//   questions about what the tree names              one round trip
//   COMMIT                                           one round trip
//
// The snapshot is taken before the server parses, so the catalog that the tree was made from is never older. The trees
// go to the server's log too, unless a superuser asks (decision 0033).
import { UsageError, type Column, type Notice, type Transaction, type TransactionOptions } from "../index.ts";
import { nodes, plain, treeIn, type Node, type Value } from "../util/node-tree.ts";
import { EQ, NE } from "../util/operators.ts";
import { hasSeveral, SqlReader } from "../util/sql-reader.ts";
import { factsOf } from "./facts.ts";
import { MOMENT, type Moment } from "./moment.ts";
import { QUIET, rowsOf } from "../util/question.ts";
import { judged } from "./reasons.ts";
import { TreeReads } from "./tree-reads.ts";

export { hasTimeWords } from "./time-words.ts";

/** What is known of a statement's answers, and the moment before the server parsed it. */
export interface Learned extends Omit<Moment, "seesOwn"> {
  /**
   * OIDs of the relations whose changes change the answer, ascending: the tables that the statement, its views,
   * subqueries, WITH and policies name, and the views themselves. Of a partitioned or inherited table only the one that
   * is named, because a change of a child is told by its ancestors.
   */
  readonly relations: readonly number[];
  /**
   * Why the answer may change without a commit to `relations`, each a text for a person. Empty: it cannot, unless a
   * parameter has one of the words of {@link hasTimeWords}.
   */
  readonly reasons: readonly string[];
  /**
   * Types of the parameters. The driver sends those that it learned before, so after a change of definitions a text may
   * run with others, and call another function than the one that was learned.
   */
  readonly parameterTypes: readonly number[];
  /** Whether the answer depends on who asks: current_user and its kin, current_setting(), a table with row security. */
  readonly isPersonal: boolean;
}

/** A client, a pool or a scope. */
export interface LearnCaller {
  transaction<T>(work: (transaction: Transaction) => T | Promise<T>, options?: TransactionOptions): Promise<T>;
}

export interface LearnOptions {
  /** The publication whose stream tells of changes. */
  readonly publication: string;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for all of it. */
  readonly timeout?: number | undefined;
}

/**
 * Learns what the statement reads. Asks the server each time: the caller keeps the answer.
 *
 * @throws UsageError `INVALID_QUERY` unless the text is one SELECT (or VALUES, TABLE, WITH) that neither writes nor
 * locks, and if its tree cannot be read. What its functions do is not known: a volatile one may write.
 * @throws the server's error if it refuses the statement
 */
export async function learn(
  caller: LearnCaller,
  query: { readonly text: string; readonly values?: readonly unknown[] | undefined },
  { publication, signal, timeout }: LearnOptions,
): Promise<Learned> {
  const { text } = query;
  if (hasSeveral(text)) throw refused("It has several statements.");
  // The server takes an empty statement, and shows no tree of it.
  if (isEmpty(text)) throw refused("It is empty.");
  return await caller.transaction(
    async (tx) => {
      const { trees, isCitus, ...moment } = await parsed(tx, text);
      // It may be one that writes.
      if (!trees.length) throw refused("The server's tree of it could not be read.");
      const reads = new TreeReads();
      for (const tree of trees) reads.add(tree);
      if (reads.refusal !== undefined) throw refused(reads.refusal);
      const facts = await factsOf(tx, reads, publication);
      const relations = [...reads.relations].sort((a, b) => a - b);
      if (isCitus) reads.reasons.add("the server is Citus, whose tables are on other nodes");
      return { relations, ...judged(reads, facts, { publication, text }), ...moment };
    },
    // Each question sees the newest catalog, as the parser does. `deferrable` would wait.
    { readOnly: true, isolation: "read committed", signal, timeout },
  );
}

function isEmpty(text: string): boolean {
  const reader = new SqlReader(text);
  while (reader.next() === "semicolon");
  return reader.kind === "end";
}

const refused = (why: string): UsageError => new UsageError("INVALID_QUERY", `The statement cannot be cached. ${why}`);

// -- the tree ---------------------------------------------------------------------------------------------------------

interface Parsed extends Omit<Moment, "seesOwn"> {
  /** Tables are on other nodes, whose changes this server's log does not have. */
  readonly isCitus: boolean;
  /** The trees that may be the statement's own; none if a tree could not be read. */
  readonly trees: readonly Value[];
  readonly parameterTypes: readonly number[];
}

async function parsed(tx: Transaction, text: string): Promise<Parsed> {
  const trees: Value[] = [];
  const onNotice = ({ message, detail }: Notice) => {
    if (message === "rewritten parse tree:") trees.push(treeIn(detail ?? ""));
  };
  const [begun, described, ended] = await Promise.allSettled([
    rowsOf<Omit<Parsed, "trees" | "parameterTypes">>(tx, BEGINNING),
    // The driver would not send a text again that it has described before.
    tx.describe(`${text}\n/* pgz-edge/cache ${crypto.randomUUID()} */`, { observer: { onNotice } }),
    tx.exec({ text: ENDING, values: [] }, QUIET),
  ]);
  if (begun.status === "rejected") throw begun.reason;
  if (described.status === "rejected") throw described.reason;
  if (ended.status === "rejected") throw ended.reason;
  const { snapshot, isStandby, fingerprint, timeline, isCitus } = begun.value[0]!;
  const { fields, parameterTypes } = described.value;
  return { snapshot, isStandby, fingerprint, timeline, isCitus, parameterTypes, trees: ownOf(trees, fields) };
}

/**
 * The trees that may be the statement's own: those with its columns. Besides it the server shows the trees of functions
 * that it runs while it parses. A utility statement has no columns in its tree.
 */
function ownOf(trees: readonly Value[], fields: readonly Column[]): readonly Value[] {
  if (trees.includes(undefined)) return [];
  const wanted = JSON.stringify(
    fields.map(({ name, tableOid, columnAttributeNumber }) => [name, tableOid, columnAttributeNumber]),
  );
  const own = trees.filter((tree) => nodes(tree).some((query) => JSON.stringify(targetsOf(query)) === wanted));
  return own.length ? own : trees.filter((tree) => nodes(tree).some(({ commandType }) => commandType === UTILITY));
}

const SELECT = "1";
const UTILITY = "6";

const targetsOf = (query: Node) =>
  nodes(query[query["commandType"] === SELECT ? "targetList" : "returningList"])
    .filter(({ resjunk }) => resjunk !== "true")
    .map(({ resname, resorigtbl, resorigcol }) => [plain(resname), Number(resorigtbl), Number(resorigcol)]);

/**
 * Notices at the level `log` bring the trees. Any role may set these for a transaction; only a superuser the log's.
 * JIT is off, because the server expects many rows of the questions that follow. They have few, and to compile them
 * took two seconds.
 */
export const BEGINNING = `select ${MOMENT},
    (select pg_catalog.count(*) from pg_catalog.pg_extension where extname ${EQ} 'citus') ${NE} 0 as "isCitus",
    pg_catalog.set_config('debug_print_rewritten', 'on', true) as a,
    pg_catalog.set_config('debug_pretty_print', 'off', true) as b,
    pg_catalog.set_config('client_min_messages', 'log', true) as c,
    pg_catalog.set_config('jit', 'off', true) as d,
    case when (select rolsuper from pg_catalog.pg_roles where rolname ${EQ} current_user)
      then pg_catalog.set_config('log_min_messages', 'panic', true) end as e`;
/** The trees of the questions that follow are not needed. */
export const ENDING = "select pg_catalog.set_config('debug_print_rewritten', 'off', true)";
