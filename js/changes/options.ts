// Options of `changes`: their rules, and the replication commands made from them.
//
// Knows names and the replication commands. Must not know connections.
import { UsageError } from "../index.ts";
import type { Query } from "../index.ts";
import { positionOf } from "../cluster/position.ts";

export interface ChangesOptions {
  /** The replication slot. The server keeps WAL until it has been acknowledged on this slot. */
  readonly slot: string;
  /**
   * Makes the slot. `"permanent"`: an existing slot of this name is used. `"temporary"`: the server drops the slot when
   * its connection ends. If the connection is lost, the stream ends with an error, because changes would be missing.
   * Default: the slot must exist.
   */
  readonly createSlot?: "permanent" | "temporary" | undefined;
  /**
   * Yields all rows of the publication's tables before their changes, as of the position at which the slot starts. A
   * snapshot needs a new slot: `createSlot` must be given, and an existing slot is an error. PostgreSQL 15 or later.
   * Default false.
   */
  readonly snapshot?: boolean | undefined;
  /**
   * Allows a snapshot of tables that are published with a row filter or with generated columns. They need a SELECT, and
   * that can run functions in the tables' indexes, statistics and constraints with the rights of this connection's
   * role. Their authors may be other users, who would get those rights. It trusts all tables of the publication, also
   * those that join it later, and the owners of their schemas and of the database. Default false.
   */
  readonly trustTables?: boolean | undefined;
  /** Makes the slot with `failover`: standbys keep it too, so that it survives a failover. PostgreSQL 17 or later. */
  readonly failover?: boolean | undefined;
  /**
   * The publication, or several. It defines which changes of which tables are yielded. Give either this or `tables`.
   */
  readonly publication?: string | readonly string[] | undefined;
  /**
   * Tables, each a name or `sql.identifier("schema", "table")`. A publication is made for them, and dropped at the end.
   * The role must own the tables, and be allowed to create publications. Needs `createSlot: "temporary"`.
   */
  readonly tables?: readonly (string | Query)[] | undefined;
  /**
   * Starts after this position, such as that of the last `commit` that was stored. Default: the last position that was
   * acknowledged on the slot. A position before that one has no effect. A position of `fullPosition`, or of a cluster,
   * also names the log: a server whose log does not have it is refused.
   */
  readonly from?: string | undefined;
  /** Yields messages of `pg_logical_emit_message` too. Default false. PostgreSQL 14 or later. */
  readonly messages?: boolean | undefined;
  /**
   * `"none"` leaves out changes that were replicated to this server from another one. Default `"any"`. PostgreSQL 16 or
   * later.
   */
  readonly origin?: "any" | "none" | undefined;
  /**
   * Yields parts of large transactions before they are over: kinds `stream`, `abort` and `commit`. Default false: a
   * transaction is yielded once it has committed. PostgreSQL 14 or later.
   */
  readonly streaming?: boolean | undefined;
  /**
   * Yields transactions of two-phase commit when they are prepared: kinds `beginPrepare`, `prepare`, `commitPrepared`
   * and `rollbackPrepared`. Default false: they are yielded when they commit. A new slot is made for two-phase commit,
   * and an existing one is changed to it. PostgreSQL 15 or later.
   */
  readonly twoPhase?: boolean | undefined;
  /**
   * `"manual"`: a commit is acknowledged by its `acknowledge()`. `"commit"`: a commit is acknowledged when the next
   * change, or the next bytes, are requested. Default `"manual"`, because only the program knows when it has stored the
   * changes.
   */
  readonly acknowledge?: "manual" | "commit" | undefined;
  /**
   * Milliseconds between two status updates. Default 10,000, because servers end a connection that is silent for a
   * minute.
   */
  readonly statusInterval?: number | undefined;
  /** When it aborts, the stream ends with an `AbortError`. */
  readonly signal?: AbortSignal | undefined;
  /** Form of int8 values, as in `rows()`. Default `"string"`. NDJSON has bare digits by default. */
  readonly int8?: "string" | "number" | "bigint" | undefined;
  /** Form of numeric values, as in `rows()`. Default: that of `int8`. */
  readonly numeric?: "string" | "number" | undefined;
  /** Form of dates and times, as in `rows()`. Default `"string"`. NDJSON always has text. */
  readonly dates?: "string" | "date" | "temporal" | undefined;
  /** Form of bytea values, as in `rows()`. Default `"uint8array"`. NDJSON always has `\x…`. */
  readonly bytea?: "uint8array" | "hex" | "base64" | undefined;
  /** `"camelCase"`: `created_at` becomes `createdAt`. Default `"keep"`. */
  readonly columnNames?: "keep" | "camelCase" | undefined;
}

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string" && value !== "" && !value.includes("\0");
/** The server cuts a longer name, and what is left is the name of another thing. */
const isName: Check = (value) => isText(value) && new TextEncoder().encode(value as string).length <= 63;
/** Whether the value is from `sql.identifier`: a text without values. */
const isFragment: Check = (value) => {
  const { text, values } = Object(value) as Partial<Query>;
  return isText(text) && values?.length === 0;
};
const isFlag: Check = (value) => typeof value === "boolean";
const oneOf =
  (...words: string[]): Check =>
  (value) =>
    words.includes(value as string);

const POSITION = /^[0-9A-F]{1,8}\/[0-9A-F]{1,8}$/i;

/** A position of the server's, or one that names its log. A cluster that could not ask names none. */
export function isPosition(value: unknown): boolean {
  return POSITION.test(String(value)) || positionOf(value).timeline > 0;
}

/** The rule of each option, in words and as a check. */
const RULES: { readonly [Name in keyof ChangesOptions]-?: readonly [must: string, holds: Check] } = {
  slot: [
    "a name of 1 to 63 lower-case letters, digits and underscores",
    (value) => /^[a-z0-9_]{1,63}$/.test(String(value)),
  ],
  createSlot: ['"permanent" or "temporary"', oneOf("permanent", "temporary")],
  snapshot: ["a boolean", isFlag],
  trustTables: ["a boolean", isFlag],
  failover: ["a boolean", isFlag],
  publication: [
    "a name or a list of names, each of at most 63 bytes",
    (value) => isName(value) || (Array.isArray(value) && value.length > 0 && value.every(isName)),
  ],
  tables: [
    "a list of names of at most 63 bytes, or of sql.identifier(…)",
    (value) => Array.isArray(value) && value.length > 0 && value.every((one) => isName(one) || isFragment(one)),
  ],
  from: ["a position such as 0/16B3748, or one of fullPosition", isPosition],
  messages: ["a boolean", isFlag],
  origin: ['"any" or "none"', oneOf("any", "none")],
  streaming: ["a boolean", isFlag],
  twoPhase: ["a boolean", isFlag],
  acknowledge: ['"manual" or "commit"', oneOf("manual", "commit")],
  statusInterval: [
    "a whole number of milliseconds from 10 to 3,600,000",
    (value) => Number.isInteger(value) && Number(value) >= 10 && Number(value) <= 3_600_000,
  ],
  signal: ["an AbortSignal", (value) => value instanceof AbortSignal],
  int8: ['"string", "number" or "bigint"', oneOf("string", "number", "bigint")],
  numeric: ['"string" or "number"', oneOf("string", "number")],
  dates: ['"string", "date" or "temporal"', oneOf("string", "date", "temporal")],
  bytea: ['"uint8array", "hex" or "base64"', oneOf("uint8array", "hex", "base64")],
  columnNames: ['"keep" or "camelCase"', oneOf("keep", "camelCase")],
};

/** @throws UsageError `UNKNOWN_OPTION`, `INVALID_OPTION` */
export function checkOptions(options: ChangesOptions): void {
  for (const name of Object.keys(Object(options)))
    if (!Object.hasOwn(RULES, name))
      throw new UsageError(
        "UNKNOWN_OPTION",
        `Unknown option "${name}": changes takes ${Object.keys(RULES).join(", ")}.`,
      );
  for (const [name, [must, holds]] of Object.entries(RULES)) {
    const value = Object(options)[name] as unknown;
    const isMissing = value === undefined && (name === "slot" || (name === "publication" && !options.tables));
    if (isMissing || (value !== undefined && !holds(value)))
      throw new UsageError("INVALID_OPTION", `Option "${name}" must be ${must}.`);
  }
  const { createSlot, snapshot, trustTables, failover, from, tables, publication } = options;
  for (const [name, isGiven] of Object.entries({ snapshot, failover }))
    if (isGiven && !createSlot)
      throw new UsageError("INVALID_OPTION", `Option "${name}" needs a new slot: give "createSlot" too.`);
  if (trustTables && !snapshot)
    throw new UsageError("INVALID_OPTION", 'Option "trustTables" is for a snapshot: give "snapshot" too.');
  if (tables && publication !== undefined)
    throw new UsageError("INVALID_OPTION", 'Option "tables" takes the place of "publication": leave one of them out.');
  if (tables && createSlot !== "temporary")
    throw new UsageError(
      "INVALID_OPTION",
      'Option "tables" needs createSlot: "temporary". For a slot that stays, make a publication.',
    );
  if (snapshot && from !== undefined)
    throw new UsageError("INVALID_OPTION", 'Option "snapshot" says where the changes begin: leave "from" out.');
}

/** The oldest major version of PostgreSQL with what these options ask for. */
const OLDEST_SERVERS: Partial<Record<keyof ChangesOptions, number>> = {
  messages: 14,
  streaming: 14,
  twoPhase: 15,
  // Column lists, row filters, and the view that has both.
  snapshot: 15,
  origin: 16,
  failover: 17,
};

/** @throws UsageError if this server is too old for one of the options */
export function checkVersion(options: ChangesOptions, version: number): void {
  for (const [name, oldest] of Object.entries(OLDEST_SERVERS))
    if (version < oldest && options[name as keyof ChangesOptions])
      throw new UsageError("INVALID_OPTION", `Option "${name}" needs PostgreSQL ${oldest} or newer, not ${version}.`);
}

export const identifier = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/**
 * Quotes a string literal for replication commands, and for SQL while `standard_conforming_strings` is on, which
 * replication.ts sets.
 */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Reads a position as `pg_lsn` writes it: `0/16B3748` is 0x16b3748. */
export function lsnOf(text: string): bigint {
  const [high = "", low = ""] = text.split("/");
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

export function lsnText(position: bigint): string {
  return `${(position >> 32n).toString(16)}/${(position & 0xffffffffn).toString(16)}`.toUpperCase();
}

/** Returns CREATE_REPLICATION_SLOT in the form of this server's version: options are in parentheses since 15. */
export function createSlotCommand(
  { slot, createSlot, snapshot, failover, twoPhase }: ChangesOptions,
  version: number,
): string {
  const temporary = createSlot === "temporary" ? " TEMPORARY" : "";
  const snapshotAction = snapshot ? "use" : "nothing";
  const options = [
    `SNAPSHOT '${snapshotAction}'`,
    ...(twoPhase ? ["TWO_PHASE true"] : []),
    ...(failover ? ["FAILOVER true"] : []),
  ];
  const optionList = version >= 15 ? `(${options.join(", ")})` : "NOEXPORT_SNAPSHOT";
  return `CREATE_REPLICATION_SLOT ${identifier(slot)}${temporary} LOGICAL pgoutput ${optionList}`;
}

/**
 * Returns START_REPLICATION after `position`, with the oldest version of pgoutput's protocol that has the requested
 * features.
 */
export function startCommand(
  { slot, messages, origin, streaming, twoPhase }: ChangesOptions,
  publications: readonly string[],
  position: string,
): string {
  const names = publications.map(identifier).join(",");
  const options = [
    `proto_version '${twoPhase ? 3 : streaming ? 2 : 1}'`,
    `publication_names ${literal(names)}`,
    ...(messages ? ["messages 'true'"] : []),
    ...(origin ? [`origin ${literal(origin)}`] : []),
    ...(streaming ? ["streaming 'on'"] : []),
    ...(twoPhase ? ["two_phase 'on'"] : []),
  ];
  return `START_REPLICATION SLOT ${identifier(slot)} LOGICAL ${position} (${options.join(", ")})`;
}
