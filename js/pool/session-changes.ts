// What a borrower's statements may leave in a session: settings, a role, temporary tables, advisory locks, LISTEN …
//
//   none     the words of the statement show that it can leave nothing
//   resets   anything else: the session is reset before it is lent again
//   ends     no reset undoes it, or only one that would cost the driver its prepared statements: the session ends
//
// A session is reset after a statement that this file does not know. Functions and views that are not PostgreSQL's own
// are trusted, because the statement does not show what they do. Programs that cannot trust them use `reset: "always"`.
//
// Knows PostgreSQL's statements and functions. Must not know connections, or how a session is reset (cleaning.ts).
// docs/pool.md has a table of this, which tests/unit/session-changes.test.ts writes.
import { changeOfSetting, mayMakeTemporary, worstOf, type Change } from "../session/setting-changes.ts";
import { readings, type SqlReader } from "../util/sql-reader.ts";
import { TextCache } from "../util/text-cache.ts";

/** Statements that leave nothing by themselves, only by the functions and tables that they name. */
const CLEAN = `
  select insert update delete merge values table with show copy
  begin start commit end rollback abort savepoint release
  close fetch move notify lock truncate analyze analyse vacuum cluster reindex refresh checkpoint
  create alter drop comment grant revoke reassign security import
`;
/** DISCARD and DEALLOCATE would remove the driver's prepared statements. */
const ENDING = "prepare deallocate discard load";

/** PostgreSQL's functions whose effects a reset undoes, or that run SQL that they are given as text. */
const RESET_FUNCTIONS = `
  set_config pg_advisory_lock pg_advisory_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared
  query_to_xml query_to_xmlschema query_to_xml_and_xmlschema ts_stat ts_rewrite
`;
/** Functions whose effects no reset undoes. dblink's connections belong to the session. */
const ENDING_FUNCTIONS = `
  setseed pg_backup_start pg_start_backup pg_replication_origin_session_setup
  pg_create_logical_replication_slot pg_create_physical_replication_slot
  pg_copy_logical_replication_slot pg_copy_physical_replication_slot
  dblink_connect dblink_connect_u
`;
/** Words that may come between EXPLAIN and its statement. */
const EXPLAIN_OPTIONS = "analyze analyse verbose";
/** Words that may come between the INTO of a SELECT and the table's name. */
const AFTER_INTO = "local global unlogged table";
/** Settings of `set local`, `set transaction` and `set constraints` end with the transaction. */
const OF_A_TRANSACTION = "local transaction constraints";

/**
 * The sets by their list. They are made on demand: a call at the top of a module stays in the bundle of a program that
 * has no pool.
 */
const sets = new Map<string, ReadonlySet<string>>();

function isOneOf(list: string, word: string): boolean {
  let set = sets.get(list);
  if (!set) sets.set(list, (set = new Set(list.trim().split(/\s+/))));
  return set.has(word);
}

/** What a text may leave. If a text has several statements (`simple`), the most severe change counts. */
export function changeOf(text: string): Change {
  seen ??= new TextCache(1_000, 1 << 20);
  return seen.get(text) ?? seen.put(text, worstOf(readings(text).map(changeOfAll)));
}

/** Cached, since a program has few texts. */
let seen: TextCache<Change> | undefined;

/** In a loop: a dump may have any number of statements. */
function changeOfAll(reader: SqlReader): Change {
  let worst: Change = "none";
  do worst = worstOf([worst, new Statement(reader).change()]);
  while (reader.kind !== "end");
  return worst;
}

/** One statement of a text. `change` leaves the reader at the statement's end. */
class Statement {
  readonly #reader: SqlReader;
  /** What the functions that the statement names may leave. */
  #named: Change = "none";

  constructor(reader: SqlReader) {
    this.#reader = reader;
  }

  change(): Change {
    const first = this.#firstWord();
    if (first === "") return "none";
    const own = this.#changeBy(first);
    while (!this.#isOver) this.#next();
    return worstOf([own, this.#named]);
  }

  /** The first word of the statement, or of the statement that EXPLAIN runs. `""` if there is no statement. */
  #firstWord(): string {
    let first = this.#next();
    while (first === "(") first = this.#next();
    if (first !== "explain") return first;
    first = this.#next();
    if (first === "(") while (first !== ")" && first !== "") first = this.#next();
    while (first === ")" || first === "(" || isOneOf(EXPLAIN_OPTIONS, first)) first = this.#next();
    return first;
  }

  #changeBy(first: string): Change {
    if (first === "set") return this.#changeBySet();
    if (first === "prepare") return this.#changeByPrepare();
    if (isOneOf(ENDING, first)) return "ends";
    if (first === "declare") return this.#has((name, before) => name === "hold" && before === "with");
    if (first === "create") return this.#has(isTemporary);
    if (!isOneOf(CLEAN, first)) return "resets";
    return this.#changeByTables(first);
  }

  /** Finds SELECT … INTO, and an UPDATE of pg_settings. */
  #changeByTables(first: string): Change {
    let updates = first === "update";
    /** After an INTO that may belong to INSERT, or that may follow a column named `insert`. */
    let isDoubtful = false;
    return this.#has((name, before, second) => {
      updates ||= name === "update";
      // The view's rule calls set_config for each updated row.
      if (name === "pg_settings" && updates) return true;
      if (isDoubtful && (isTemporary(name) || isOneOf(AFTER_INTO, name))) return true;
      isDoubtful = false;
      if (name !== "into") return false;
      if (before !== "insert" && before !== "merge") return true;
      // INSERT and MERGE are keywords at the beginning of a statement and next to the parenthesis of a WITH.
      isDoubtful = second === "(" || second === ")";
      return second !== "" && !isDoubtful;
    }, first);
  }

  /**
   * `prepare transaction 'a'` leaves nothing; `prepare transaction as select 1` makes a prepared statement of that
   * name.
   */
  #changeByPrepare(): Change {
    const isOfTransaction = this.#next() === "transaction" && this.#next() !== "" && this.#reader.kind === "text";
    return isOfTransaction ? "none" : "ends";
  }

  #changeBySet(): Change {
    const second = this.#next();
    let value = "";
    let isPlain = true;
    let seeds = second === "seed";
    let name = this.#next();
    // `set local.tenant = …` sets `local.tenant` for the session.
    const isOfTransaction = isOneOf(OF_A_TRANSACTION, second) && name !== ".";
    for (; name !== ""; name = this.#next()) {
      seeds ||= name === "seed";
      if (this.#reader.kind === "text") {
        isPlain &&= !/^[^']|\\/.test(this.#reader.text);
        value += this.#reader.content;
      } else if (isTemporary(name)) isPlain = false;
    }
    // The next borrower's random numbers would be predictable.
    if (seeds) return "ends";
    // A search_path that begins with pg_temp makes each later CREATE TABLE a temporary one.
    const isSure = isPlain && !mayMakeTemporary(value);
    return isSure && isOfTransaction ? "none" : "resets";
  }

  /** `resets` if `leaves` holds for a token, given with the two tokens before it. */
  #has(leaves: (name: string, before: string, second: string) => boolean, first = ""): Change {
    let second = "";
    let before = first;
    for (let name = this.#next(); name !== ""; second = before, before = name, name = this.#next())
      if (this.#reader.kind !== "text" && leaves(name, before, second)) return "resets";
    return "none";
  }

  /** Reads the next token. Returns `""` at the statement's end. */
  #next(): string {
    this.#reader.next();
    if (this.#isOver) return "";
    const { kind, name } = this.#reader;
    if (kind === "word" || kind === "name") this.#note(name);
    return name;
  }

  get #isOver(): boolean {
    const { kind } = this.#reader;
    return kind === "semicolon" || kind === "end";
  }

  #note(name: string): void {
    if (isOneOf(ENDING_FUNCTIONS, name)) this.#named = "ends";
    else if (isOneOf(RESET_FUNCTIONS, name)) this.#named = worstOf([this.#named, "resets"]);
  }
}

function isTemporary(name: string): boolean {
  return name === "temp" || name === "temporary" || name.startsWith("pg_temp");
}

/**
 * Whether a statement of a hook may put pg_temp on the session's search_path: its words or its texts name it, or a text
 * has escapes.
 */
function mayNameTemporary(text: string): boolean {
  return readings(text).some((reader) => {
    while (reader.next() !== "end") {
      const isText = reader.kind === "text";
      if (isText && /^[^']|\\/.test(reader.text)) return true;
      if (mayMakeTemporary(isText ? reader.content : reader.name)) return true;
    }
    return false;
  });
}

/** The parts of a connection that decide where its CREATE TABLE makes a table. */
interface Found {
  readonly config: { readonly options: string | undefined; readonly startup: readonly (readonly [string, string])[] };
  /** PostgreSQL 18 and newer report search_path. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** What the statements of one session may have left since the session was clean. */
export class SessionChanges {
  readonly #found: Found;
  #change: Change = "none";
  /** Whether a statement was noted since the session was clean. */
  #isUsed = false;
  /** Whether every borrower finds a search_path with pg_temp, as far as the program's own words tell. */
  #isTemporary: boolean;
  #isPreparing = false;

  constructor(connection: Found) {
    const { options = "", startup } = connection.config;
    this.#found = connection;
    // In `options`, a backslash escapes the next character.
    this.#isTemporary = [["search_path", options.replaceAll("\\", "")] as const, ...startup].some(
      ([name, value]) => changeOfSetting(name, value) === "resets",
    );
  }

  get change(): Change {
    return this.#isUsed && this.makesTemporary ? worstOf([this.#change, "resets"]) : this.#change;
  }

  set change(change: Change) {
    this.#change = change;
    if (change === "none") this.#isUsed = false;
  }

  /**
   * Whether any CREATE TABLE may make a temporary table here, though its words do not show it. No calls share such a
   * session.
   */
  get makesTemporary(): boolean {
    return this.#isTemporary || mayMakeTemporary(this.#found.parameters.get("search_path") ?? "");
  }

  note(text: string): void {
    this.#isUsed = true;
    this.add(changeOf(text));
    if (this.#isPreparing) this.#isTemporary ||= mayNameTemporary(text);
  }

  /** Notes what settings leave that the driver sends in front of a statement. */
  add(change: Change): void {
    this.#change = worstOf([this.#change, change]);
  }

  /** Called around `afterConnect`: every borrower finds what its statements set. */
  preparing(isPreparing: boolean): void {
    this.#isPreparing = isPreparing;
    this.change = "none";
  }
}
