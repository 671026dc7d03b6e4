// Decides whether a statement that has not been described may run at once, with values and rows as text, and builds the
// check that goes in front of it.
//
// The text of dates, intervals and floats depends on settings that any user may change (behind a pooler other clients
// too), and the server does not report all of them. What a parameter's text means depends on the parameter's type,
// which is not known yet. So the server itself looks, in the same flight and before anything runs: if a setting or a
// type is not as it must be, the check fails, the server skips the rest, and the statement is described first.
//
// The check looks at the types of the columns too. If the catalog must be asked for some of them, the check's failure
// names them. They are asked for in front of a second flight, so that its rows can be read as they arrive. If one is an
// anonymous record, the statement is described first. Before PostgreSQL 16 the check cannot see columns, so a statement
// that may write and may return a record is described first there: what has run must not be refused.
//
// The check sets nothing, because settings change what a statement means: `now()::text`, `'1 day'::text`. Knows
// settings, types and SQL. Must not know how a statement runs.
import { BoundedMap, BoundedSet } from "../util/bounded.ts";
import { LONGEST_KNOWN_TYPES, MOST_SERVERS } from "../util/limits.ts";
import { firstWord, readings, type Kind, type SqlReader } from "../util/sql-reader.ts";
import { TextCache } from "../util/text-cache.ts";
import { FIRST_OF_A_DATABASE, RECORD, RECORD_ARRAY } from "../values/oid.ts";
import { firstParameters, type TypeRule } from "../values/first-parameters.ts";
import { newShapeId } from "./shapes.ts";

/** Statements that can neither begin nor end a transaction, and that can also run after a snapshot was taken. */
const PLAIN = new Set(["select", "insert", "update", "delete", "merge", "with", "values", "table"]);
/** A parenthesis after one of these holds several values, which are a record, or a query. */
const BEFORE_VALUES = new Set(["select", "returning"]);
const QUERIES = new Set(["select", "with", "values", "table"]);

const WRITES = new Set(["insert", "update", "delete", "merge"]);
const wordsOf = (list: string): ReadonlySet<string> => new Set(list.split(" "));
/**
 * Words before a parenthesis that call no function of the user's: keywords that no function can be called, and the
 * functions of PostgreSQL that most statements call. A function that is missing here costs a flight before PostgreSQL
 * 16, and nothing else.
 */
const NO_CALL_OF_USERS = wordsOf(
  "count sum min max avg coalesce nullif greatest least now lower upper length concat round abs date_trunc extract " +
    "to_char json_agg jsonb_agg array_agg string_agg json_build_object jsonb_build_object row_number rank unnest " +
    "generate_series current_setting gen_random_uuid random substring trim replace ceil floor to_jsonb cast " +
    "as from select distinct lateral where on and or not in exists any all some when then else using having union " +
    "intersect except values with limit offset array",
);
/** Keywords before a parenthesis that a function may be called too, each with the words that make it the keyword. */
const KEYWORDS_AFTER: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ["by", wordsOf("order group partition")],
  ["filter", wordsOf(")")],
  ["over", wordsOf(")")],
  ["join", wordsOf("left right full outer inner cross")],
]);

/** With these a statement changes, while it runs, settings that the text of its own rows depends on. */
const SETTERS = new Set(["set_config", "pg_settings"]);

/**
 * The settings that the text of values depends on: `extra_float_digits`, DateStyle and IntervalStyle. Of IntervalStyle
 * `iso_8601` and `postgres` can be read, but not `sql_standard` or `postgres_verbose`. Timestamps with any zone can be
 * read, and bytea in either form.
 */
const SETTINGS = ["extra_float_digits", "DateStyle", "IntervalStyle"];
const GOOD_SETTINGS = "[1-3]ISO.*[s1]$";

/**
 * Before version 12 the text of floats had fewer digits than they need. The version is not checked if the server has
 * reported it, or has passed a check.
 */
const VERSION = "server_version_num";
const GOOD_VERSION = "(1[2-9]|[2-9].)....";

/**
 * The reasons in the message of a failed check. If the check failed for the types of one statement, it may pass for
 * another.
 */
const TYPES = "types";
const COLUMNS = "columns";

/** Maximum number of parameters whose types are checked. The check grows with their number. */
const MOST_RULES = 200;
/** Maximum number of characters of a statement that travels twice, so that its parameters' types can be looked up. */
const LONGEST_LOOKED_UP = 16 << 10;

export interface Check {
  /** Unique in the isolate, like a shape's id. By this id a connection recognises the check and prepares it. */
  readonly id: number;
  /** Returns no rows. Fails if the statement must be described first. */
  readonly sql: string;
  /** Whether the check looks at parameters. It then has one parameter itself: the text of the statement. */
  readonly looksAtTypes: boolean;
}

/** What the check must know of the statement's columns. */
export interface ReadColumns {
  /** Types of the database whose text can be read. */
  readonly known: Iterable<number>;
  /** Types that the catalog has just been asked for. */
  readonly askedTypes: readonly number[];
  /**
   * Whether types of a fixed size are checked too. These are enums and the like, whose text is their value, so only a
   * parser that must be found makes it necessary.
   */
  readonly anySize: boolean;
}

/** A statement as it is sent the first time. */
export interface FirstRun {
  readonly text: string;
  readonly parameters: Uint8Array;
  readonly hasValues: boolean;
  readonly check: Check;
}

/**
 * Whether other calls may be on the wire together with this statement: it cannot change which transaction they are part
 * of.
 */
export function isPipelinable(text: string): boolean {
  return PLAIN.has(firstWord(text));
}

/**
 * Whether a server that reports this version is too old for first runs. Versions older than any maintained one come
 * mostly from servers that only speak the protocol. Some of those continue after an error, even an error of the check.
 */
export function isOld(version: string | undefined): boolean {
  return version !== undefined && !(parseInt(version) >= 12);
}

/**
 * Returns the statement's first run; `undefined`: it must be described first. `columns` is left out if no row is read.
 * `version`: what the server has reported, if it has.
 */
export function firstRunOf(
  server: string,
  text: string,
  values: readonly unknown[],
  columns?: ReadColumns,
  version?: string,
): FirstRun | undefined {
  if ((failures.get(server) ?? 0) >= ENOUGH || records.get(keyOf(server, text))) return undefined;
  if (!isPipelinable(text) || hidesTypes(text)) return undefined;
  const mayHide = columns !== undefined && !isAtLeast16(version) && mayWriteAndReturnRecord(text);
  if (mayHide && version !== undefined) return undefined;
  const first = firstParameters(values);
  if (first?.rules.length && (first.rules.length > MOST_RULES || text.length > LONGEST_LOOKED_UP)) return undefined;
  const hasValues = values.length > 0;
  if (!first) return undefined;
  const isNew = version === undefined && !passed.has(server);
  const seen = version === undefined || isAtLeast16(version) ? columns : undefined;
  return { text, parameters: first.parameters, hasValues, check: checkOf(isNew, first.rules, seen, mayHide) };
}

/** Whether the server's version is known, and it reports the types of columns. */
function isAtLeast16(version: string | undefined): boolean {
  return version !== undefined && parseInt(version) >= 16;
}

/**
 * Whether the text of the statement's rows may not be enough: the SQL shows an anonymous record, whose text does not
 * say which types it holds (`row(…)`, `record`, or a parenthesis around several values after SELECT or RETURNING), or
 * it changes settings.
 */
function hidesTypes(text: string): boolean {
  return readings(text).some(hides);
}

function hides(reader: SqlReader): boolean {
  let before = "";
  /** The depth within such a parenthesis. */
  let depth = 0;
  for (let kind = reader.next(); kind !== "end"; kind = reader.next()) {
    const name = kind === "word" || kind === "symbol" ? reader.name : "";
    if (SETTERS.has(kind === "name" ? reader.name : name)) return true;
    if (name === "record" || (name === "(" && before === "row")) return true;
    if (name === "(" && (depth || BEFORE_VALUES.has(before))) depth++;
    else if (name === ")" && depth) depth--;
    else if (depth === 1 && before === "(" && QUERIES.has(name)) depth = 0;
    else if (depth === 1 && name === ",") return true;
    before = name;
  }
  return false;
}

/**
 * Whether the statement may write and return an anonymous record that its SQL does not show: the row of a subquery
 * (`select i from (…) as i`), or what a function of the user's returns, which may write itself. INSERT, UPDATE, DELETE
 * and MERGE return what follows their RETURNING, where INSERT knows no row but its table's.
 *
 * Words cannot show everything. An operator, a cast, a view or `t.f` may call a function too, and a function of the
 * user's may have the name of one of PostgreSQL's. Where that writes and returns a record, the call is refused after it
 * has run.
 */
function mayWriteAndReturnRecord(text: string): boolean {
  const first = firstWord(text);
  return readings(text).some((reader) => {
    let mayWrite = false;
    let mayReturn = !WRITES.has(first);
    let isReturning = false;
    let before: readonly Token[] = [NO_TOKEN, NO_TOKEN, NO_TOKEN];
    for (let kind = reader.next(); kind !== "end"; kind = reader.next()) {
      const name = kind === "word" || kind === "symbol" ? reader.name : "";
      if (kind === "word" && WRITES.has(name)) mayWrite = true;
      else if (kind === "word" && name === "returning")
        [isReturning, mayReturn] = [true, mayReturn || first !== "insert"];
      else if (name === "(" || name === ".") mayReturn ||= isReturning;
      if (name === "(") mayWrite ||= callsFunction(before);
      before = [...before.slice(1), { kind, name }];
    }
    return mayWrite && mayReturn;
  });
}

interface Token {
  readonly kind: Kind;
  readonly name: string;
}
const NO_TOKEN: Token = { kind: "symbol", name: "" };

/**
 * Whether the parenthesis after these tokens may begin the arguments of a function of the user's. A name after `as` or
 * `::` is an alias or a type.
 */
function callsFunction([early, before, last]: readonly Token[]): boolean {
  if (last!.kind === "name") return true;
  if (last!.kind !== "word") return false;
  if (before!.name === ".") return true;
  if (before!.name === "as" || (before!.name === ":" && early!.name === ":")) return false;
  return !NO_CALL_OF_USERS.has(last!.name) && !KEYWORDS_AFTER.get(last!.name)?.has(before!.name);
}

/** Whether a check failed for types of the statement, which says nothing about other statements. */
export function isOfTypes(message: string): boolean {
  return message.includes(`pgz-edge: ${TYPES}`) || isOfColumns(message);
}

/** Whether a check failed for the types of the statement's columns. It looks at settings first, so they have passed. */
export function isOfColumns(message: string): boolean {
  return COLUMN_TYPES.test(message);
}

/**
 * Returns the types of the database that must be asked for in front of the statement, if its check failed for them
 * alone: the text of an anonymous record does not say what is in it, whatever has been asked.
 */
export function columnTypes(message: string): number[] | undefined {
  const oids = (COLUMN_TYPES.exec(message)?.[1] ?? "").split(",").map(Number);
  const own = oids.filter((oid) => oid >= FIRST_OF_A_DATABASE);
  return own.length === 0 || oids.includes(RECORD) || oids.includes(RECORD_ARRAY) ? undefined : own;
}

const COLUMN_TYPES = new RegExp(`pgz-edge: ${COLUMNS} \\{([0-9,]+)\\}`);

/**
 * Notes that the check failed in one more session: its settings are not as they must be, or the server does not know
 * what the check asks.
 */
export function checkFailed(server: string): void {
  failures.set(server, (failures.get(server) ?? 0) + 1);
}

/** Notes that a check has passed. */
export function checkPassed(server: string): void {
  failures.delete(server);
  passed.add(server);
}

/** Notes that what this statement returns cannot be read as text. */
export function describeFirst(server: string, text: string): void {
  records.put(keyOf(server, text), true);
}

function keyOf(server: string, text: string): string {
  return `${server}\0${text}`;
}

/**
 * By server: the number of sessions whose check failed since one last passed. One session may have settings of its own.
 * After two, the cause is the server or affects all its users, and no further session tries.
 */
const failures = new BoundedMap<string, number>(MOST_SERVERS);
const ENOUGH = 2;
/** Servers where a check has passed, so that their version is known to be new enough. */
const passed = new BoundedSet<string>(MOST_SERVERS);
/** Statements that return anonymous records, or more rows than could be held. */
const records = new TextCache<true>(1_000, 1 << 20);

/**
 * Builds the check. Each row that is left has a reason why the statement cannot run like this. A reason is not a
 * number, so the cast fails, and the server's log has the reason. `isNew`: the check looks at the server's version too.
 */
function checkOf(
  isNew: boolean,
  rules: readonly TypeRule[],
  columns: ReadColumns | undefined,
  mayHide: boolean,
): Check {
  const settings = (isNew ? [VERSION, ...SETTINGS] : SETTINGS).map((name) => `pg_catalog.current_setting('${name}')`);
  const good = ` ${isNew ? GOOD_VERSION : ""}${GOOD_SETTINGS}`;
  const reasons = [`select pg_catalog.concat('settings ',${settings.join()}) why`];
  if (columns) reasons.push(columnsToAskFor(columns, isNew ? 0 : LONGEST_KNOWN_TYPES));
  if (rules.length) reasons.push(otherTypes(rules));
  if (mayHide) reasons.push(BEFORE_16);
  const bad = `(${reasons.join(" union all ")})b where why operator(pg_catalog.!~)'${good}'`;
  const sql = `select pg_catalog.concat('pgz-edge: ',why)::int from${bad}`;
  return { id: idOf(sql), sql, looksAtTypes: rules.length > 0 };
}

/** Returns the same id for the same text, as long as the text is remembered. */
function idOf(sql: string): number {
  return ids.get(sql) ?? ids.put(sql, newShapeId());
}

const ids = new TextCache<number>(100, 64 << 10);

/** The reason of a server that does not report the types of columns, for a statement that may return a record. */
const BEFORE_16 =
  `select '${TYPES}' where pg_catalog.current_setting('${VERSION}')::pg_catalog.int4 ` + "operator(pg_catalog.<)160000";

/**
 * A server before PostgreSQL 16 does not report the types of columns: the name `result_types` then means the null of
 * the subquery around it, and there is nothing to ask for. The statement is found as the one that this transaction has
 * prepared, because a pooler may change its name. A domain's column has the type below the domain.
 */
function columnsToAskFor({ known, askedTypes, anySize }: ReadColumns, longest: number): string {
  const list = listed(known, askedTypes, longest);
  return (
    `select pg_catalog.concat('${COLUMNS} ',t::pg_catalog.oid[])from(select null::pg_catalog.oid[] result_types)o,` +
    "lateral(select result_types t from pg_catalog.pg_prepared_statements " +
    "where prepare_time operator(pg_catalog.>=)current_timestamp)s," +
    `pg_catalog.pg_type where oid operator(pg_catalog.=)any(t)${anySize ? "" : "and typlen operator(pg_catalog.<)0"}` +
    " and(case when typtype operator(pg_catalog.=)'d'then typbasetype else oid end " +
    `operator(pg_catalog.>=)${FIRST_OF_A_DATABASE} or oid operator(pg_catalog.=)any('{${RECORD},${RECORD_ARRAY}}'))` +
    (list && `and oid operator(pg_catalog.<>)all('{${list}}')`)
  );
}

/** Lists all types that were asked for, and as many of the known ones as fit. */
function listed(known: Iterable<number>, askedTypes: readonly number[], longest: number): string {
  let list = askedTypes.join();
  for (const oid of known) {
    const longer = list ? `${list},${oid}` : `${oid}`;
    if (longer.length > longest) break;
    list = longer;
  }
  return list;
}

/** The statement is found by its text and not by its name, which a pooler may change. */
function otherTypes(rules: readonly TypeRule[]): string {
  const all = alike(rules).map(hold).join(" and ");
  return `select '${TYPES}' where not coalesce((select pg_catalog.bool_and(${all})
 from pg_catalog.pg_prepared_statements where statement operator(pg_catalog.=)$1), false)`;
}

/** Groups equal rules: in most statements all parameters have the same rule. */
function alike(rules: readonly TypeRule[]): TypeRule[][] {
  const groups = new Map<string, TypeRule[]>();
  for (const rule of rules) {
    const key = `${rule.isOneOf} ${rule.types.join()}`;
    const group = groups.get(key);
    if (group) group.push(rule);
    else groups.set(key, [rule]);
  }
  return [...groups.values()];
}

function hold(group: readonly TypeRule[]): string {
  const [{ isOneOf, types }] = group as [TypeRule];
  const numbers = group.map(({ parameter }) => parameter).join();
  const among = isOneOf ? "operator(pg_catalog.=)any" : "operator(pg_catalog.<>)all";
  const each = `pg_catalog.bool_and(parameter_types[p]::pg_catalog.oid ${among}('{${types.join()}}'::pg_catalog.oid[]))`;
  return `(select ${each} from pg_catalog.unnest(array[${numbers}]) as p)`;
}
