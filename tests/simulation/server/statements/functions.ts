// The functions that the model knows: their arguments, their results, and which of them wait.
//
// Knows sessions and locks. Must not know the syntax of a call. To add a function, add a line to FUNCTIONS.
import { PgError, whileRecovering } from "../errors.ts";
import { EXCLUSIVE, SHARE } from "../locks.ts";
import { sleep, type Doing } from "../process.ts";
import { insertPosition, logFileName, positionOf, textOf } from "../replication/log.ts";
import type { Session } from "../session.ts";
import { fromUnix } from "../times.ts";
import * as types from "../values.ts";
import { typeNamed, type Type, type Value } from "../values.ts";
import type { Context } from "./expressions.ts";
import { changeRole, setSetting, shown } from "./set-setting.ts";

export interface FunctionDefinition {
  readonly takes: readonly (Type | undefined)[];
  /** The last type of `takes` applies to all further arguments. */
  readonly isVariadic?: boolean;
  readonly returns: Type;
  /** The number of the argument whose type the function returns. */
  readonly returnsLikeArgument?: number;
  readonly takesNull?: boolean;
  /** The result depends only on the arguments. */
  readonly isImmutable?: boolean;
  readonly run?: (args: Value[], context: Context) => Value;
  /** Used where the types of arguments matter. */
  readonly runTyped?: (args: Value[], types: readonly Type[]) => Value;
  readonly wait?: (args: Value[], context: Context) => Doing<Value>;
  readonly aggregate?: {
    add(state: Value | undefined, value: Value, type: Type | undefined, context: Context): Value | undefined;
    end(state: Value | undefined, type: Type | undefined): Value;
  };
  readonly since?: number;
}

const { bool, int2, int4, int8, text, name, float8, void_, timestamptz, numeric, uuid, bytea, json, jsonb, regtype } =
  types;
const { lsn } = types;

/** Functions that are written without parentheses. */
export const KEYWORD_FUNCTIONS = new Set([
  "current_user",
  "session_user",
  "user",
  "current_role",
  "current_catalog",
  "current_schema",
  "current_timestamp",
  "current_date",
]);

type Run = NonNullable<FunctionDefinition["run"]>;

const pure = (takes: (Type | undefined)[], returns: Type, run: Run): FunctionDefinition => ({
  takes,
  returns,
  run,
  isImmutable: true,
});
const plain = (takes: (Type | undefined)[], returns: Type, run: Run): FunctionDefinition => ({ takes, returns, run });
const waits = (takes: Type[], returns: Type, wait: NonNullable<FunctionDefinition["wait"]>): FunctionDefinition => ({
  takes,
  returns,
  wait,
});
const ofSession = (returns: Type, run: (session: Session) => Value): FunctionDefinition[] => [
  plain([], returns, (_, { session }) => run(session)),
];

/** A position of the log that only a primary has. */
const ofPrimary = (position: (session: Session) => number): FunctionDefinition[] =>
  ofSession(lsn, (session) => {
    if (session.world.standing.isStandby)
      throw whileRecovering("WAL control functions cannot be executed during recovery.");
    return textOf(position(session));
  });

/** The moment when virtual time begins. */
export const BEGINNING = Date.UTC(2026, 0);
const momentOf = (milliseconds: number): bigint => fromUnix(BEGINNING + milliseconds);
const started = (session: Session): bigint => momentOf(session.transaction!.startedAt);

export const advisoryKey = (args: readonly Value[]): string => `advisory ${args.join(",")}`;

function advisory(mode: number, isOfTransaction: boolean): FunctionDefinition[] {
  return [[int8], [int4, int4]].map((takes) =>
    waits(takes, void_, function* (args, { session }) {
      const key = advisoryKey(args);
      if (isOfTransaction) yield* session.lock(key, mode);
      else yield* session.lockForSession(key, mode);
      return "";
    }),
  );
}

function tryAdvisory(mode: number, isOfTransaction: boolean): FunctionDefinition[] {
  return [[int8], [int4, int4]].map((takes) =>
    plain(takes, bool, (args, { session }) => {
      const key = advisoryKey(args);
      return isOfTransaction ? session.tryLock(key, mode) : session.locks.try(session, session, key, mode);
    }),
  );
}

function unlock(mode: number, modeName: string): FunctionDefinition[] {
  return [[int8], [int4, int4]].map((takes) =>
    plain(takes, bool, (args, { session }) => {
      const isReleased = session.locks.release(session, session, advisoryKey(args), mode);
      if (!isReleased)
        session.notice(new PgError("01000", `you don't own a lock of type ${modeName}`, { severity: "WARNING" }));
      return isReleased;
    }),
  );
}

/** `json_agg` and `array_agg` collect their arguments. */
const collects = (end: (items: Value[], type: Type | undefined) => Value) => ({
  add: (state: Value | undefined, value: Value) => [...((state as Value[] | undefined) ?? []), value],
  end: (state: Value | undefined, type: Type | undefined) => (state === undefined ? null : end(state as Value[], type)),
});

const extreme = (isBetter: (value: Value, state: Value) => boolean) => ({
  add: (state: Value | undefined, value: Value) =>
    value !== null && (state === undefined || isBetter(value, state)) ? value : state,
  end: (state: Value | undefined) => state ?? null,
});

const sums = {
  add: (state: Value | undefined, value: Value) =>
    value === null ? state : BigInt((state as bigint | undefined) ?? 0) + BigInt(value as number),
  end: (state: Value | undefined, type: Type | undefined) =>
    state === undefined ? null : type === int8 ? String(state) : state,
};

const FORMS = { timeZone: "UTC", extraFloatDigits: 1, byteaOutput: "hex" };

function toJson(value: Value, type: Type): string {
  if (value === null) return "null";
  if (type === json || type === jsonb) return value as string;
  if (Array.isArray(value) && type.element) return `[${value.map((item) => toJson(item, type.element!)).join(",")}]`;
  if (Array.isArray(value) && type.attributes)
    return `{${type.attributes.map(({ name, type: of }, at) => `${JSON.stringify(name)}:${toJson(value[at]!, of)}`).join(",")}}`;
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean" || type === numeric)
    return Number.isFinite(Number(value)) ? String(value) : JSON.stringify(String(value));
  return JSON.stringify(type.print(value, FORMS).replace(/^(\d{4}-\d\d-\d\d) (?=\d\d:)/, "$1T"));
}

const ofJson: FunctionDefinition = {
  takes: [undefined],
  returns: json,
  runTyped: ([value], [type]) => toJson(value!, type!),
};

const FUNCTIONS: Readonly<Record<string, readonly FunctionDefinition[]>> = {
  // The session.
  pg_backend_pid: ofSession(int4, ({ processId }) => processId),
  current_user: ofSession(name, ({ role }) => role),
  current_role: ofSession(name, ({ role }) => role),
  user: ofSession(name, ({ role }) => role),
  session_user: ofSession(name, ({ settings }) => settings.get("session_authorization")),
  current_database: ofSession(name, ({ database }) => database),
  current_catalog: ofSession(name, ({ database }) => database),
  current_schema: ofSession(name, () => "public"),
  version: ofSession(text, ({ settings }) => `PostgreSQL ${settings.get("server_version")} (model)`),
  pg_is_in_recovery: ofSession(bool, ({ world }) => world.standing.isStandby),
  pg_current_wal_lsn: ofPrimary(({ world }) => world.log.end),
  pg_current_wal_insert_lsn: ofPrimary(({ world }) => insertPosition(world.log.end)),
  pg_last_wal_replay_lsn: ofSession(lsn, ({ world: { standing, log } }) => {
    if (standing.isStandby) return textOf(log.end);
    return standing.replayed === undefined ? null : textOf(standing.replayed);
  }),
  pg_walfile_name: [
    plain([lsn], text, ([position], { session: { world } }) => {
      if (world.standing.isStandby) throw whileRecovering("pg_walfile_name() cannot be executed during recovery.");
      return logFileName(world.standing.timeline, positionOf(position as string));
    }),
  ],
  pg_drop_replication_slot: [
    plain([name], void_, ([slot], { session: { world, processId } }) => {
      world.slots.drop(slot as string, processId);
      return "";
    }),
  ],
  txid_current: ofSession(int8, (session) => (session.write(), BigInt(session.transaction!.id))),
  current_setting: [
    plain([text], text, ([key], { session }) => shown(session, key as string)),
    plain([text, bool], text, ([key, isOptional], { session }) => {
      const isNone = isOptional && session.settings.find(key as string) === undefined;
      return isNone ? null : shown(session, key as string);
    }),
  ],
  set_config: [
    {
      takes: [text, text, bool],
      returns: text,
      takesNull: true,
      run: ([key, value, isLocal], { session }) => {
        if (key === null) throw new PgError("22004", "SET requires parameter name");
        if (/^(role|session_authorization)$/i.test(key as string))
          return changeRole(session, (key as string).toLowerCase(), value as string | null, isLocal === true);
        return setSetting(session, key as string, value as string | null, isLocal === true);
      },
    },
  ],
  pg_listening_channels: [],
  pg_cancel_backend: [plain([int4], bool, ([pid], { session }) => session.world.around.cancel(pid as number))],
  pg_terminate_backend: [plain([int4], bool, ([pid], { session }) => session.world.around.terminate(pid as number))],
  pg_notify: [
    {
      takes: [text, text],
      returns: void_,
      takesNull: true,
      run: ([channel, payload], { session }) => {
        session.notify((channel as string | null) ?? "", (payload as string | null) ?? "");
        return "";
      },
    },
  ],

  // Time.
  now: ofSession(timestamptz, started),
  current_timestamp: ofSession(timestamptz, started),
  transaction_timestamp: ofSession(timestamptz, started),
  clock_timestamp: ofSession(timestamptz, ({ clock }) => momentOf(clock.now)),
  statement_timestamp: ofSession(timestamptz, ({ clock }) => momentOf(clock.now)),
  pg_sleep: [
    waits([float8], void_, function* ([seconds], { session }) {
      yield* sleep(session.clock, (seconds as number) * 1000);
      return "";
    }),
  ],

  // Locks.
  pg_advisory_lock: advisory(EXCLUSIVE, false),
  pg_advisory_lock_shared: advisory(SHARE, false),
  pg_advisory_xact_lock: advisory(EXCLUSIVE, true),
  pg_advisory_xact_lock_shared: advisory(SHARE, true),
  pg_try_advisory_lock: tryAdvisory(EXCLUSIVE, false),
  pg_try_advisory_lock_shared: tryAdvisory(SHARE, false),
  pg_try_advisory_xact_lock: tryAdvisory(EXCLUSIVE, true),
  pg_try_advisory_xact_lock_shared: tryAdvisory(SHARE, true),
  pg_advisory_unlock: unlock(EXCLUSIVE, "ExclusiveLock"),
  pg_advisory_unlock_shared: unlock(SHARE, "ShareLock"),
  pg_advisory_unlock_all: ofSession(void_, (session) => {
    session.locks.releaseAll(session, "advisory ");
    return "";
  }),

  // Values.
  repeat: [pure([text, int4], text, ([word, times]) => (word as string).repeat(Math.max(0, times as number)))],
  textcat: [pure([text, text], text, ([a, b]) => `${a as string}${b as string}`)],
  left: [pure([text, int4], text, ([word, count]) => [...(word as string)].slice(0, count as number).join(""))],
  length: [
    pure([text], int4, ([word]) => [...(word as string)].length),
    pure([bytea], int4, ([bytes]) => (bytes as Uint8Array).length),
  ],
  octet_length: [
    pure([text], int4, ([word]) => new TextEncoder().encode(word as string).length),
    pure([bytea], int4, ([bytes]) => (bytes as Uint8Array).length),
  ],
  upper: [pure([text], text, ([word]) => (word as string).toUpperCase())],
  lower: [pure([text], text, ([word]) => (word as string).toLowerCase())],
  coalesce: [
    {
      takes: [undefined],
      isVariadic: true,
      returns: text,
      returnsLikeArgument: 0,
      takesNull: true,
      run: (args) => args.find((arg) => arg !== null) ?? null,
    },
  ],
  greatest: [
    {
      takes: [undefined],
      isVariadic: true,
      returns: text,
      returnsLikeArgument: 0,
      takesNull: true,
      run: (args) => args.reduce((most, arg) => (most === null || (arg !== null && arg > most) ? arg : most), null),
    },
  ],
  nullif: [
    {
      takes: [undefined, undefined],
      returns: text,
      returnsLikeArgument: 0,
      takesNull: true,
      run: ([a, b]) => (a !== null && a === b ? null : a!),
    },
  ],
  row_to_json: [ofJson],
  to_json: [ofJson],
  abs: [pure([int4], int4, ([n]) => Math.abs(n as number))],
  array_length: [pure([undefined, int4], int4, ([items]) => (items as Value[]).length || null)],
  cardinality: [pure([undefined], int4, ([items]) => (items as Value[]).length)],
  gen_random_uuid: ofSession(uuid, ({ world }) => {
    const digits = Array.from({ length: 32 }, () => world.around.dice.below(16).toString(16));
    digits[12] = "4";
    digits[16] = "89ab"[world.around.dice.below(4)]!;
    return uuid.parse(digits.join(""), FORMS);
  }),
  random: ofSession(float8, ({ world }) => world.around.dice.below(2 ** 30) / 2 ** 30),
  pg_typeof: [{ takes: [undefined], returns: regtype, takesNull: true, runTyped: (_, [type]) => type!.fullName }],
  to_regtype: [pure([text], regtype, ([word]) => typeNamed((word as string).trim())?.fullName ?? null)],

  // Aggregates.
  count: [
    {
      takes: [],
      returns: int8,
      aggregate: { add: (n) => ((n as bigint | undefined) ?? 0n) + 1n, end: (n) => n ?? 0n },
    },
    {
      takes: [undefined],
      returns: int8,
      aggregate: {
        add: (n, value) => ((n as bigint | undefined) ?? 0n) + (value === null ? 0n : 1n),
        end: (n) => n ?? 0n,
      },
    },
  ],
  sum: [
    { takes: [int4], returns: int8, aggregate: sums },
    { takes: [int2], returns: int8, aggregate: sums },
    { takes: [int8], returns: numeric, aggregate: sums },
  ],
  max: [{ takes: [undefined], returns: text, returnsLikeArgument: 0, aggregate: extreme((a, b) => a! > b!) }],
  min: [{ takes: [undefined], returns: text, returnsLikeArgument: 0, aggregate: extreme((a, b) => a! < b!) }],
  array_agg: [
    { takes: [int4], returns: typeNamed("int4[]")!, aggregate: collects((items) => items) },
    { takes: [text], returns: typeNamed("text[]")!, aggregate: collects((items) => items) },
  ],
  json_agg: [
    {
      takes: [undefined],
      returns: json,
      aggregate: collects((items, type) => `[${items.map((item) => toJson(item, type!)).join(", ")}]`),
    },
  ],
  string_agg: [],
};

export function functionNamed(called: string, version: number): readonly FunctionDefinition[] {
  const found = Object.hasOwn(FUNCTIONS, called) ? FUNCTIONS[called]! : [];
  return found.filter(({ since = 0 }) => version >= since);
}
