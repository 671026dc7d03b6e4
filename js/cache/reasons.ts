// Judges what a statement reads: why its answers may change although no commit to a published table is told.
//
// Knows what the catalog's facts mean for a cache. Must not know how they were asked for.
//
// What the facts do not name is a reason.
import { everyNode, treeIn } from "../util/node-tree.ts";
import type { Facts, Publication, Relation, Routine, Type } from "./facts.ts";
import { JSON_TO_ROWS, PERSONAL, STABLE } from "./stable-functions.ts";
import { hasTimeLiteral, hasTimePath } from "./time-words.ts";
import { TreeReads } from "./tree-reads.ts";

/** More of them, as of a table with hundreds of partitions, would make the header longer than HTTP clients take. */
const MOST_REASONS = 5;

export interface Judgement {
  readonly reasons: readonly string[];
  readonly isPersonal: boolean;
}

export interface Subject {
  /** The statement's text. */
  readonly text: string;
  /** Its name. */
  readonly publication: string;
}

export function judged(reads: TreeReads, facts: Facts, { text, publication }: Subject): Judgement {
  const hidden = hiddenReads(facts);
  const all = new Set([
    ...reads.reasons,
    ...hidden.reasons,
    ...relationReasons(reads, facts, publication),
    ...routineReasons([...reads.functions, ...hidden.functions], facts.routines),
    ...typeReasons(reads, facts.types, hasTimeLiteral(text)),
    ...pathReasons(reads, facts, text),
  ]);
  const isPersonal =
    reads.isPersonal ||
    hidden.isPersonal ||
    facts.relations.some(({ hasPolicies }) => hasPolicies) ||
    facts.routines.some(({ oid, isBuiltIn }) => isBuiltIn && PERSONAL.has(oid));
  const reasons = [...all].slice(0, MOST_REASONS);
  const more = all.size - reasons.length;
  return { reasons: more > 0 ? [...reasons, `${more} more`] : reasons, isPersonal };
}

// -- relations --------------------------------------------------------------------------------------------------------

function* relationReasons(reads: TreeReads, facts: Facts, publication: string): Generator<string> {
  const { relations } = facts;
  const byOid = new Map(relations.filter(({ oid, top }) => oid === top).map((one) => [one.oid, one]));
  for (const oid of reads.relations) if (!byOid.has(oid)) yield `the catalog has no relation ${oid} any more`;
  for (const relation of relations) {
    const { top, oid, name } = relation;
    const shown = top === oid ? name : `${name}, a child of ${byOid.get(top)?.name ?? top},`;
    yield* reasonsOfRelation(relation, shown, publication);
  }
  const tables = [...byOid.values()].filter(({ kind, isSystem }) => isTable(kind) && !isSystem);
  if (tables.length) yield* publicationReasons(facts.publication, publication);
}

const isTable = (kind: string): boolean => kind === "r" || kind === "p";

function* reasonsOfRelation(relation: Relation, name: string, publication: string): Generator<string> {
  const { kind, persistence, isHeap, isSystem, isPublished, isFiltered } = relation;
  if (isSystem) return yield `${name} is part of the system catalog`;
  if (persistence === "t") return yield `${name} is temporary`;
  if (persistence === "u") return yield `${name} is unlogged`;
  if (kind === "v") return;
  if (!isTable(kind)) return yield `${name} is ${KINDS[kind] ?? `of a kind that is not known: ${kind}`}`;
  // Of a partitioned table the leaves are published. Each that is not is reported itself.
  if (kind === "p") return;
  if (!isHeap) yield `${name} has an access method that need not take part in logical decoding`;
  if (!isPublished) yield `${name} is not in the publication "${publication}"`;
  else if (isFiltered) yield `${name} has a row filter in the publication "${publication}"`;
}

const KINDS: Readonly<Record<string, string>> = {
  m: "a materialized view",
  f: "a foreign table",
  S: "a sequence",
};

function* publicationReasons(found: Publication | undefined, name: string): Generator<string> {
  if (!found) return yield `there is no publication "${name}"`;
  for (const operation of ["insert", "update", "delete", "truncate"] as const)
    if (!found[operation]) yield `the publication "${name}" does not publish ${operation}`;
  if (found.viaRoot) yield `the publication "${name}" has publish_via_partition_root, which hides a TRUNCATE of a leaf`;
}

// -- functions --------------------------------------------------------------------------------------------------------

function* routineReasons(called: readonly number[], routines: readonly Routine[]): Generator<string> {
  const known = new Set(routines.map(({ oid }) => oid));
  for (const oid of called) if (!known.has(oid)) yield `the catalog has no function ${oid} any more`;
  for (const routine of routines) {
    const { oid, name, volatility, isBuiltIn, isWire, isTemporary } = routine;
    if (isTemporary) yield `${name} is temporary`;
    if (!isBuiltIn && POPULATE.test(name)) yield `${name} makes values from texts: one may be the word "now"`;
    const isHarmless = volatility === "i" || (volatility === "s" && (isBuiltIn ? isKnown(oid) : isWire));
    if (!isHarmless) yield `${name} is ${VOLATILITIES[volatility] ?? "of a volatility that is not known"}`;
  }
}

/** Of the extension hstore, which declares it as immutable. */
const POPULATE = /^("?\w+"?\.)?populate_record\(/;
const VOLATILITIES: Readonly<Record<string, string>> = {
  v: "volatile",
  s: "stable, and is not known to depend on its arguments alone",
};
const isKnown = (oid: number): boolean => STABLE.has(oid) || PERSONAL.has(oid) || JSON_TO_ROWS.has(oid);

// -- expressions of the catalog ---------------------------------------------------------------------------------------

/**
 * What default arguments and CHECK constraints of domains read. Their functions are among the facts, but not all of
 * their types, so the types that matter are reasons here.
 */
function hiddenReads({ types, routines }: Facts): TreeReads {
  const reads = new TreeReads();
  const defaults = routines.flatMap(({ defaults }) => defaults ?? []);
  for (const text of new Set([...types.flatMap(({ checks }) => checks), ...defaults])) {
    const tree = treeIn(text);
    if (tree === undefined || [...everyNode(tree)].some(({ kind }) => kind === "ROWCOMPAREEXPR"))
      reads.reasons.add("a default argument or the CHECK of a domain cannot be read");
    reads.add(tree);
  }
  if (
    reads.hasJsonPath ||
    [...reads.types].some((oid) => NAMES.has(oid)) ||
    [...reads.parsed].some((oid) => !PLAIN.has(oid))
  )
    reads.reasons.add("a default argument or the CHECK of a domain may depend on the time or on the system catalog");
  return reads;
}

/** boolean, numbers and texts. */
const PLAIN: ReadonlySet<number> = new Set([16, 20, 21, 23, 25, 700, 701, 1042, 1043, 1700]);

// -- JSON paths -------------------------------------------------------------------------------------------------------

/** A path is a constant that the tree does not show. That of a view or a policy is not in the text either. */
function* pathReasons({ hasJsonPath }: TreeReads, { relations }: Facts, text: string): Generator<string> {
  if (!hasJsonPath) return;
  const hasHidden = relations.some(({ kind, hasPolicies }) => kind === "v" || hasPolicies);
  if (hasHidden || hasTimePath(text))
    yield "the path of JSON_VALUE or its kin may make a time, with the offset of today";
}

// -- types ------------------------------------------------------------------------------------------------------------

/** date, timestamp, timestamptz and time; and timetz, whose texts mean another value on another day. */
const TIMETZ = 1266;
const TIMES: ReadonlySet<number> = new Set([1082, 1083, 1114, 1184, TIMETZ]);
/**
 * Types that are OIDs, and are written as names, which the catalog gives: regproc, regprocedure, regoper, regoperator,
 * regclass, regtype, regconfig, regdictionary, regnamespace, regrole, regcollation, regdatabase; and aclitem.
 */
const NAMES: ReadonlySet<number> = new Set([
  24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191, 6490, 1033,
]);

function* typeReasons(reads: TreeReads, types: readonly Type[], mayHaveTime: boolean): Generator<string> {
  const byOid = new Map(types.map((type) => [type.oid, type]));
  const has = (oid: number, parts: ReadonlySet<number>) =>
    byOid.get(oid)?.parts.some((part) => parts.has(part)) !== false;
  const nameOf = (oid: number) => byOid.get(oid)?.name ?? String(oid);
  const timetz = new Set([TIMETZ]);
  for (const oid of reads.types) if (!byOid.has(oid)) yield `the catalog has no type ${oid} any more`;
  for (const { oid, name, isTemporary } of types) {
    if (isTemporary) yield `${name} is temporary`;
    if (has(oid, NAMES)) yield `its values of ${name} are names from the system catalog`;
  }
  for (const oid of reads.parsed)
    if (has(oid, TIMES)) yield `a text becomes ${nameOf(oid)} while the statement runs: it may be the word "now"`;
  for (const oid of reads.constants) {
    if (mayHaveTime && has(oid, TIMES)) yield `a constant of ${nameOf(oid)} may be "now" or "today" in the statement`;
    if (has(oid, timetz)) yield `a constant of ${nameOf(oid)} takes the offset that its zone has today`;
  }
  for (const oid of reads.parameters)
    if (has(oid, timetz)) yield `a parameter of ${nameOf(oid)} takes the offset that its zone has today`;
}
