// The settings of a scope: the statement that applies them, and which of them decide what SQL means.
//
// set_config(name, value, true) holds until the transaction ends, and everything up to a Sync is one transaction. So
// the settings travel in front of a statement in its flight, and none of them remains after its Sync, whatever happens
// in between.
//
// Knows settings of PostgreSQL and how text is written in SQL. Must not know what runs after them.
import { checkOptions, invalid, namesOf, rule } from "../config/rules.ts";
import { UsageError } from "../util/errors.ts";
import { isNoRole } from "../util/no-role.ts";
import { isText, isWholeName } from "../util/text.ts";
import { CITUS_CHECK } from "./citus.ts";
import { changeOfSetting, worstOf, type Change } from "./setting-changes.ts";

/** The context in which a scope's calls run. At least one of the two options is required. */
export interface ScopeOptions {
  /**
   * Settings for each of its calls, such as `{ "app.tenant": 7 }` or `{ search_path: "tenant_7" }`. A name with a dot
   * is a setting of your own, which policies read with `current_setting('app.tenant')`.
   */
  readonly settings?: Readonly<Record<string, string | number | bigint | boolean>> | undefined;
  /** The role that its calls run as. The login's role must be a member of it. It is set after the settings. */
  readonly role?: string;
}

export interface ScopeSettings {
  /**
   * Applies all settings and the role until the transaction ends. Takes no parameters and returns no rows. Fails on
   * Citus (citus.ts).
   */
  readonly statement: string;
  /** The same for Citus: its nodes get the settings too. */
  readonly citusStatement: string;
  /**
   * A key of the settings that decide what a statement means: equal if the same text takes and returns the same types.
   */
  readonly meaning: string;
  /** What the settings leave in a session, for its next borrower. */
  readonly change: Change;
}

const SCOPE_OPTIONS = namesOf<ScopeOptions>({ settings: true, role: true });
const roleName = rule<string>(
  "a role's name of at most 63 bytes, not empty and without NUL",
  (value) => value && isText(value) && isWholeName(value),
);
/** The setting that option `role` sets, the one that the core relies on, and one that outlives its transaction. */
const RESERVED = /^(role|client_encoding|seed)$/i;

export function scopeSettings(options: ScopeOptions): ScopeSettings {
  if (typeof options !== "object" || options === null)
    return invalid("settings", "given, or role: scope({ settings })");
  checkOptions(options, SCOPE_OPTIONS);
  const { settings = {} } = options;
  if (typeof settings !== "object" || settings === null) return invalid("settings", "an object of names and values");
  const entries = Object.entries(settings).map(([name, value]) => [checkName(name), textOf(name, value)] as const);
  // A role that is undefined would leave the login's own, which may see every tenant's rows.
  if ("role" in options) entries.push(["role", checkRole(options.role)]);
  if (!entries.length) return invalid("settings", "given, or role: a scope without both would be the client itself");
  return {
    statement: statementOf(entries),
    citusStatement: citusStatementOf(entries),
    meaning: meaningOf(entries),
    change: worstOf(entries.map(([name, value]) => changeOfSetting(name, value))),
  };
}

/** Refuses `none`, which would mean the login's own role. */
function checkRole(given: string | undefined): string {
  const role = roleName(given, "role");
  if (!isNoRole(role)) return role;
  throw new UsageError(
    "INVALID_OPTION",
    'Option "role" must be a role\'s name: "none" would be the login\'s own role.',
  );
}

function checkName(name: string): string {
  if (name && isText(name) && isWholeName(name) && !RESERVED.test(name)) return name;
  throw new UsageError("INVALID_OPTION", `Option "settings" has a name that cannot be set: ${reasonAgainst(name)}.`);
}

function reasonAgainst(name: string): string {
  if (/^role$/i.test(name)) return 'use option "role"';
  if (/^seed$/i.test(name)) return "the random numbers of later calls would follow from it";
  return RESERVED.test(name)
    ? "client_encoding is always UTF8"
    : "a name is text without NUL, not empty, of at most 63 bytes";
}

/** Refuses an undefined value, because a tenant that is undefined by mistake must not mean no tenant. */
function textOf(name: string, value: unknown): string {
  const isScalar = isText(value) || Number.isFinite(value) || ["bigint", "boolean"].includes(typeof value);
  if (isScalar) return String(value);
  throw new UsageError(
    "INVALID_OPTION",
    `Option "settings" must give "${name}" as text without NUL, a finite number or a boolean.`,
  );
}

/** Every condition is evaluated, in this order, because each is false: no value is null. */
function statementOf(entries: readonly (readonly [string, string])[]): string {
  const set = entries.map(([name, value]) => `pg_catalog.set_config(${literal(name)},${literal(value)},true) is null`);
  return `select where ${set.join(" or ")} or ${CITUS_CHECK}`;
}

/**
 * Settings that are lists of names, which SET would take for one name. They mean nothing on a node of Citus, because
 * statements there have qualified names.
 */
const OF_NAMES = /^(search_path|temp_tablespaces)$/i;

/**
 * Citus passes on SET LOCAL but not set_config, and only inside a block, such as DO. It sends the settings to a node
 * together with BEGIN. Without a BEGIN of ours, it begins a transaction there only for what needs a distributed
 * transaction, such as a stored intermediate result.
 */
function citusStatementOf(entries: readonly (readonly [string, string])[]): string {
  const set = entries.map(([name, value]) =>
    OF_NAMES.test(name)
      ? `perform pg_catalog.set_config(${literal(name)},${literal(value)},true)`
      : `set local "${name.replaceAll('"', '""')}" = ${literal(value)}`,
  );
  const all = [
    "set local citus.propagate_set_commands = 'local'",
    ...set,
    "perform pg_catalog.create_intermediate_result('pgz_scope','select')",
  ];
  return `do ${literal(`begin ${all.join("; ")}; end`)}`;
}

/** Returns a literal that is right for any value of standard_conforming_strings. */
function literal(text: string): string {
  return `E'${text.replace(/['\\]/g, "$&$&")}'`;
}

/**
 * The server resolves a name by search_path and role, a literal such as '1/2/2026'::date by DateStyle, one of
 * timestamptz by TimeZone, and keeps the result in a prepared statement. A setting with a dot in its name means nothing
 * to the server.
 */
function meaningOf(entries: readonly (readonly [string, string])[]): string {
  const own = entries.filter(([name]) => !name.includes("."));
  return own.length ? JSON.stringify(own.map(([name, value]) => [name.toLowerCase(), value]).sort()) : "";
}
