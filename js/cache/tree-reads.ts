// Finds what a rewritten tree reads: relations, functions, operators, types, and what the tree alone shows to change
// without a commit.
//
// Knows the nodes of a query. Must not know the catalog: whether a function is volatile or a table is published is
// judged from the catalog's facts (reasons.ts).
//
// There is one rule: what is not known is a reason. A node or a field that is not in tree-fields.ts is reported, so a
// newer server can make a statement uncacheable, but no answer stale.
import { isNode, items, nodes, type Node, type Value } from "../util/node-tree.ts";
import { JSON_TO_ROWS, TEXT_SEARCH } from "./stable-functions.ts";
import { FUNCTIONS, NODES, OPERATORS, OTHERS, RANGE_TABLE_KINDS, TYPES } from "./tree-fields.ts";

export class TreeReads {
  readonly relations = new Set<number>();
  /** The relations whose children are read too: those without ONLY. */
  readonly withChildren = new Set<number>();
  readonly functions = new Set<number>();
  readonly operators = new Set<number>();
  /** All types of expressions. */
  readonly types = new Set<number>();
  /** Types of constants, which the server has made from a text of the statement. */
  readonly constants = new Set<number>();
  readonly parameters = new Set<number>();
  /** Types whose values the statement makes from texts while it runs. */
  readonly parsed = new Set<number>();
  /** JSON_VALUE and its kin: their paths may make a time with the offset that its zone has today. */
  hasJsonPath = false;
  readonly reasons = new Set<string>();
  /** current_user and its kin, or a policy. */
  isPersonal = false;
  /** The first cause to refuse the statement. */
  refusal: string | undefined;

  /** Adds what a tree, or an expression of the catalog, reads. */
  add(tree: Value): void {
    if (Array.isArray(tree)) for (const item of tree as readonly Value[]) this.add(item);
    else if (isNode(tree)) this.#addNode(tree);
  }

  #addNode(node: Node): void {
    const { kind } = node;
    if (!NODES.has(kind)) this.reasons.add(`the server's tree has a node that is not known: ${kind}`);
    BY_KIND[kind]?.(this, node);
    for (const [field, value] of Object.entries(node)) if (field !== "kind") this.#addField(node, field, value);
  }

  #addField(node: Node, field: string, value: Value): void {
    const isType = TYPES.has(field) && !(field === "type" && node.kind === "JSONCONSTRUCTOREXPR");
    if (isType) for (const oid of oidsOf(value)) this.types.add(oid);
    else if (FUNCTIONS.has(field)) for (const oid of oidsOf(value)) this.functions.add(oid);
    else if (OPERATORS.has(field)) for (const oid of oidsOf(value)) this.operators.add(oid);
    else if (!OTHERS.has(field) && field !== "type" && NODES.has(node.kind) && !isEmpty(value))
      this.reasons.add(`the server's tree has a field that is not known: ${field} of ${node.kind}`);
    if (field === "args" && TEXT_SEARCH.has(Number(node["funcid"]))) this.add(withoutConfiguration(value));
    else if (typeof value === "object") this.add(value);
  }
}

/** What a node means beyond the OIDs in its fields. */
const BY_KIND: Readonly<Record<string, (reads: TreeReads, node: Node) => void>> = {
  QUERY(reads, { commandType, rowMarks, hasRowSecurity }) {
    if (commandType !== SELECT) reads.refusal ??= "It is not a SELECT, or has one in WITH that changes data.";
    if (items(rowMarks).length) reads.refusal ??= "It locks rows (FOR UPDATE or FOR SHARE).";
    if (hasRowSecurity === "true") reads.isPersonal = true;
  },

  // PostgreSQL 15 keeps a view as a relation of the view's own query; from 16 on the subquery has the view's OID.
  RANGETBLENTRY(reads, { rtekind, relid, inh }) {
    if (!RANGE_TABLE_KINDS.has(String(rtekind)))
      reads.reasons.add(`the server's tree has a kind of relation that is not known: ${String(rtekind)}`);
    for (const oid of oidsOf(relid)) {
      reads.relations.add(oid);
      if (inh !== "false") reads.withChildren.add(oid);
    }
  },

  VAR(reads, { varattno }) {
    if (Number(varattno) < 0) reads.reasons.add("it reads a system column, such as ctid or xmin");
  },

  TABLESAMPLECLAUSE(reads) {
    reads.reasons.add("TABLESAMPLE reads a part of the table that VACUUM may change");
  },

  SQLVALUEFUNCTION(reads, { op }) {
    if (USER_VALUES.has(String(op))) reads.isPersonal = true;
    else if (TIME_VALUES.has(String(op))) reads.reasons.add("it asks for the time (CURRENT_DATE and its kin)");
    else if (op !== CURRENT_CATALOG) reads.reasons.add(`it asks for a value that is not known: ${String(op)}`);
  },

  CONST(reads, { consttype, constisnull }) {
    if (constisnull !== "true") reads.constants.add(Number(consttype));
  },

  PARAM(reads, { paramtype }) {
    reads.parameters.add(Number(paramtype));
  },

  COERCEVIAIO(reads, { resulttype }) {
    reads.parsed.add(Number(resulttype));
  },

  JSONEXPR(reads, { returning }) {
    reads.hasJsonPath = true;
    if (isNode(returning)) reads.parsed.add(Number(returning["typid"]));
  },

  TABLEFUNC(reads, { coltypes }) {
    for (const oid of oidsOf(coltypes)) reads.parsed.add(oid);
  },

  // jsonb_populate_record and its kin take the type from their first argument, or from a list of columns.
  FUNCEXPR(reads, { funcid, funcresulttype, args }) {
    if (!JSON_TO_ROWS.has(Number(funcid))) return;
    const inside = new TreeReads();
    inside.add(nodes(args)[0]);
    for (const oid of [...oidsOf(funcresulttype), ...inside.types]) reads.parsed.add(oid);
  },

  RANGETBLFUNCTION(reads, { funcexpr, funccoltypes }) {
    if (!isNode(funcexpr) || !JSON_TO_ROWS.has(Number(funcexpr["funcid"]))) return;
    for (const oid of oidsOf(funccoltypes)) reads.parsed.add(oid);
  },
};

const SELECT = "1";
/** SQLValueFunctionOp: CURRENT_DATE to LOCALTIMESTAMP(n); CURRENT_ROLE to SESSION_USER, and CURRENT_SCHEMA. */
const TIME_VALUES: ReadonlySet<string> = new Set(["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
const USER_VALUES: ReadonlySet<string> = new Set(["9", "10", "11", "12", "14"]);
const CURRENT_CATALOG = "13";

const oidsOf = (value: Value): number[] =>
  (typeof value === "string" ? [value] : items(value)).map(Number).filter((oid) => oid > 0);

const isEmpty = (value: Value): boolean =>
  value === undefined || /^(false|0|-1)$/.test(String(value)) || (Array.isArray(value) && value.length === 0);

/** regconfig and regdictionary. */
const CONFIGURATIONS: ReadonlySet<string> = new Set(["3734", "3769"]);
/**
 * The arguments of to_tsvector('english', …) and its kin without the constant that names the configuration: it is an
 * OID, which the function does not turn into a name.
 */
const withoutConfiguration = (args: Value): readonly Value[] =>
  items(args).filter((arg) => !(isNode(arg) && arg.kind === "CONST" && CONFIGURATIONS.has(String(arg["consttype"]))));
