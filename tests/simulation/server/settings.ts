// Settings of a session: their values, what RESET restores, what ends with a transaction, what is reported.
//
// Knows names, rules and values. Must not know SQL or messages. The transaction of a change can undo the change.
import { noSetting, PgError } from "./errors.ts";
import { isZone } from "./times.ts";
import type { Transaction } from "./transactions.ts";

interface Rule {
  readonly value: string;
  /** As SHOW names it. */
  readonly name: string;
  /** Returns the value in the form that SHOW gives. Throws if the value is wrong. */
  readonly check?: (value: string, name: string) => string;
  /** Why the setting cannot be set. */
  readonly fixed?: "internal" | "postmaster";
}

const invalid = (name: string, value: string, more = {}): PgError =>
  new PgError("22023", `invalid value for parameter "${name}": "${value}"`, more);

function isBool(value: string, name: string): string {
  const word = value.trim().toLowerCase();
  if (["on", "true", "yes", "1", "t", "y", "tr", "tru", "ye"].includes(word)) return "on";
  if (["off", "false", "no", "0", "f", "n", "of", "fa", "fal", "fals"].includes(word)) return "off";
  throw new PgError("22023", `parameter "${name}" requires a Boolean value`);
}

/** For values in milliseconds, which are shown in the largest unit that fits. */
const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;

function isTime(value: string, name: string): string {
  const found = /^\s*(-?\d+(?:\.\d+)?)\s*(ms|s|min|h|d|us)?\s*$/.exec(value);
  if (!found) throw invalid(name, value);
  const unit = found[2] === "us" ? 0.001 : (UNITS.find(([word]) => word === (found[2] ?? "ms"))?.[1] ?? 1);
  const milliseconds = Math.round(Number(found[1]) * unit);
  if (milliseconds < 0 || milliseconds > 0x7fffffff)
    throw new PgError(
      "22023",
      `${milliseconds} ms is outside the valid range for parameter "${name}" (0 ms .. 2147483647 ms)`,
    );
  if (milliseconds === 0) return "0";
  const [word, size] = UNITS.find(([, length]) => milliseconds % length === 0)!;
  return `${milliseconds / size}${word}`;
}

export function milliseconds(shown: string): number {
  const found = /^(\d+)(ms|s|min|h|d)?$/.exec(shown)!;
  return Number(found[1]) * (UNITS.find(([word]) => word === (found[2] ?? "ms"))?.[1] ?? 1);
}

const isWhole =
  (low: number, high: number) =>
  (value: string, name: string): string => {
    if (!/^\s*[+-]?\d+\s*$/.test(value)) throw invalid(name, value);
    const number = Number(value);
    if (number < low || number > high)
      throw new PgError("22023", `${number} is outside the valid range for parameter "${name}" (${low} .. ${high})`);
    return String(number);
  };

const oneOf =
  (...words: string[]) =>
  (value: string, name: string): string => {
    const word = words.find((it) => it === value.toLowerCase());
    if (word === undefined) throw invalid(name, value, { hint: `Available values: ${words.join(", ")}.` });
    return word;
  };

const ISOLATIONS = ["serializable", "repeatable read", "read committed", "read uncommitted"];

const STYLES: Readonly<Record<string, string>> = { iso: "ISO, MDY", "iso, mdy": "ISO, MDY", "iso, dmy": "ISO, DMY" };

/** The styles that scripts set: German, whose days come first, and ISO. */
function isDateStyle(value: string, name: string): string {
  if (/^german(, dmy)?$/i.test(value)) return "German, DMY";
  const style = STYLES[value.toLowerCase()];
  if (!style) throw invalid(name, value);
  return style;
}

function isTimeZone(value: string, name: string): string {
  if (/^utc$/i.test(value)) return "UTC";
  if (!isZone(value)) throw invalid(name, value);
  return value;
}

function isUtf8(value: string, name: string): string {
  if (/^(utf-?8|unicode)$/i.test(value)) return "UTF8";
  throw invalid(name, value);
}

const rules = new Map<string, Rule>();
function rule(name: string, value: string, more: Partial<Rule> = {}): void {
  rules.set(name.toLowerCase(), { name, value, ...more });
}

rule("application_name", "");
rule("bytea_output", "hex", { check: oneOf("hex") });
rule("client_encoding", "UTF8", { check: isUtf8 });
rule("client_min_messages", "notice", { check: oneOf("notice") });
rule("cluster_name", "", { fixed: "postmaster" });
rule("DateStyle", "ISO, MDY", { check: isDateStyle });
rule("default_transaction_deferrable", "off", { check: isBool });
rule("default_transaction_isolation", "read committed", { check: oneOf(...ISOLATIONS) });
rule("default_transaction_read_only", "off", { check: isBool });
rule("extra_float_digits", "1", { check: isWhole(-15, 3) });
rule("idle_in_transaction_session_timeout", "0", { check: isTime });
rule("idle_session_timeout", "0", { check: isTime });
rule("in_hot_standby", "off", { fixed: "internal" });
rule("integer_datetimes", "on", { fixed: "internal" });
rule("IntervalStyle", "postgres", { check: oneOf("postgres", "postgres_verbose", "sql_standard", "iso_8601") });
rule("is_superuser", "off", { fixed: "internal" });
rule("role", "none");
rule("scram_iterations", "4096", { check: isWhole(1, 0x7fffffff) });
rule("search_path", '"$user", public');
rule("server_encoding", "UTF8", { fixed: "internal" });
rule("server_version", "", { fixed: "internal" });
rule("server_version_num", "", { fixed: "internal" });
rule("session_authorization", "");
rule("standard_conforming_strings", "on", { check: isBool });
rule("statement_timeout", "0", { check: isTime });
rule("TimeZone", "UTC", { check: isTimeZone });
rule("transaction_deferrable", "off", { check: isBool });
rule("transaction_isolation", "read committed", { check: oneOf(...ISOLATIONS) });
rule("transaction_read_only", "off", { check: isBool });
rule("transaction_timeout", "0", { check: isTime });
rule("wal_block_size", "8192", { fixed: "internal" });
rule("wal_sender_timeout", "1min", { check: isTime });

const OF_18 = new Set(["scram_iterations", "transaction_timeout"]);

/** In the order in which the version reports them at the start. */
const REPORTED = {
  15: [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
  ],
  18: [
    "in_hot_standby",
    "integer_datetimes",
    "TimeZone",
    "IntervalStyle",
    "search_path",
    "is_superuser",
    "application_name",
    "default_transaction_read_only",
    "scram_iterations",
    "DateStyle",
    "standard_conforming_strings",
    "session_authorization",
    "client_encoding",
    "server_version",
    "server_encoding",
  ],
} as const;

interface State {
  readonly value: string;
  /** The value until the transaction ends. */
  readonly local?: string | undefined;
}

export class Settings {
  readonly version: 15 | 18;
  /** The values that RESET restores. */
  readonly #first = new Map<string, string>();
  readonly #states = new Map<string, State>();
  readonly #locals = new Set<string>();
  /** The values that were reported to the client. */
  readonly #told = new Map<string, string>();
  /** The number of changes of values. */
  changes = 0;
  /** Settings that have changed since they were reported, the last one first. */
  #changed: string[] = [];

  constructor(version: 15 | 18, first: Readonly<Record<string, string>>) {
    this.version = version;
    for (const [name, value] of Object.entries(first)) this.#first.set(keyOf(name), value);
  }

  /** Sets a value that comes from StartupMessage or from the role. */
  begin(name: string, value: string): void {
    this.changes++;
    this.#first.set(keyOf(name), this.checked(name, value));
  }

  /** Returns the value, or `undefined` if there is no such setting. */
  find(name: string): string | undefined {
    const key = keyOf(name);
    const state = this.#states.get(key);
    if (state) return state.local ?? state.value;
    return this.#first.get(key) ?? (this.#isKnown(key) ? rules.get(key)!.value : undefined);
  }

  get(name: string): string {
    const value = this.find(name);
    if (value === undefined) throw noSetting(name);
    return value;
  }

  /** Returns the value that RESET would restore. */
  firstValue(name: string): string | undefined {
    const key = keyOf(name);
    return this.#first.get(key) ?? (this.#isKnown(key) ? rules.get(key)!.value : name.includes(".") ? "" : undefined);
  }

  /** As SHOW names its column. */
  nameOf(name: string): string {
    return rules.get(keyOf(name))?.name ?? name;
  }

  #isKnown(key: string): boolean {
    return rules.has(key) && (this.version === 18 || !OF_18.has(key));
  }

  /** Returns the value in the setting's own form. Throws the reason if it cannot be set. */
  checked(name: string, value: string): string {
    const key = keyOf(name);
    const found = this.#isKnown(key) ? rules.get(key) : undefined;
    if (!found) {
      if (!name.includes(".")) throw noSetting(name);
      if (!name.split(".").every((part) => /^[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*$/.test(part)))
        throw new PgError("42602", `invalid configuration parameter name "${name}"`, {
          detail: "Custom parameter names must be two or more simple identifiers separated by dots.",
        });
      return value;
    }
    if (found.fixed === "internal") throw new PgError("55P02", `parameter "${found.name}" cannot be changed`);
    if (found.fixed === "postmaster")
      throw new PgError("55P02", `parameter "${found.name}" cannot be changed without restarting the server`);
    return found.check ? found.check(value, found.name) : value;
  }

  /** `value` is already checked. `undefined` forgets the value, so that the first value applies again. */
  set(transaction: Transaction | undefined, name: string, value: string | undefined, isLocal = false): void {
    const key = keyOf(name);
    const before = this.#states.get(key);
    const first = value ?? this.firstValue(name) ?? "";
    const next = isLocal ? { value: before?.value ?? this.firstValue(name) ?? "", local: first } : { value: first };
    this.#put(key, next);
    if (isLocal) this.#locals.add(key);
    transaction?.add({
      undo: () => this.#put(key, before),
      keep: () => this.#endLocal(key),
    });
  }

  #endLocal(key: string): void {
    const state = this.#states.get(key);
    if (state?.local !== undefined) this.#put(key, { value: state.value });
    this.#locals.delete(key);
  }

  #put(key: string, state: State | undefined): void {
    this.changes++;
    if (state) this.#states.set(key, state);
    else this.#states.delete(key);
    const name = this.nameOf(key);
    this.#changed = [name, ...this.#changed.filter((it) => it !== name)];
  }

  resetAll(transaction: Transaction | undefined): void {
    for (const key of [...this.#states.keys()]) if (!KEPT_BY_RESET.has(key)) this.set(transaction, key, undefined);
  }

  /** The session's settings that differ from their values at its start. */
  get leftovers(): string[] {
    return [...this.#states].filter(([key]) => this.find(key) !== (this.firstValue(key) ?? "")).map(([key]) => key);
  }

  // -- ParameterStatus ------------------------------------------------------------------------------------------------

  /** Returns all reported settings, for the start of the session. */
  firstReport(): [name: string, value: string][] {
    this.#changed = [];
    return REPORTED[this.version].map((name) => this.#tell(name));
  }

  /** The server has been promoted. */
  promoted(): void {
    this.#first.set("in_hot_standby", "off");
    this.#changed = ["in_hot_standby", ...this.#changed];
  }

  /** Returns the changes that have not been reported to the client yet. */
  report(): [name: string, value: string][] {
    if (!this.#changed.length) return [];
    const names: readonly string[] = REPORTED[this.version];
    const changed = this.version === 15 ? names.filter((name) => this.#changed.includes(name)) : this.#changed;
    this.#changed = [];
    return changed
      .filter((name) => names.includes(name) && this.#told.get(name) !== this.get(name))
      .map((name) => this.#tell(name));
  }

  #tell(name: string): [name: string, value: string] {
    const value = this.get(name);
    this.#told.set(name, value);
    return [name, value];
  }
}

/** RESET ALL leaves these. */
const KEPT_BY_RESET = new Set([
  "role",
  "session_authorization",
  "transaction_isolation",
  "transaction_read_only",
  "transaction_deferrable",
  "is_superuser",
]);

const keys = new Map<string, string>();

/** Returns the name in lower case. Cached, because most names are looked up again and again. */
function keyOf(name: string): string {
  let key = keys.get(name);
  if (key === undefined) {
    key = name.toLowerCase();
    if (keys.size < 1_000) keys.set(name, key);
  }
  return key;
}
