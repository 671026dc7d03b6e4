// The functions that the model knows: their arguments, their results, and which of them wait.
//
// Knows sessions and locks. Must not know the syntax of a call. To add a function, add a line to FUNCTIONS.
import { EXCLUSIVE } from "../locks.ts";
import { sleep, type Doing } from "../process.ts";
import type { Session } from "../session.ts";
import { bool, float8, int4, int8, name, text, void_, type Type, type Value } from "../values.ts";
import { changeRole, setSetting, shown } from "./set-setting.ts";

interface FunctionDefinition {
  readonly takes: readonly Type[];
  readonly returns: Type;
  readonly takesNull?: boolean;
  readonly run?: (args: Value[], session: Session) => Value;
  readonly wait?: (args: Value[], session: Session) => Doing<Value>;
}

const FUNCTIONS: Readonly<Record<string, FunctionDefinition>> = {
  current_user: { takes: [], returns: name, run: (_, { role }) => role },
  current_database: { takes: [], returns: name, run: (_, { database }) => database },
  pg_backend_pid: { takes: [], returns: int4, run: (_, { processId }) => processId },
  "current_setting/1": { takes: [text], returns: text, run: ([key], session) => shown(session, key as string) },
  "current_setting/2": {
    takes: [text, bool],
    returns: text,
    run: ([key], session) =>
      session.settings.find(key as string) === undefined ? null : shown(session, key as string),
  },
  set_config: {
    takes: [text, text, bool],
    returns: text,
    run: ([key, value, isLocal], session) => setConfig(session, key as string, value as string, isLocal === true),
  },
  nullif: { takes: [text, text], returns: text, takesNull: true, run: ([a, b]) => (a === b ? null : a!) },
  repeat: { takes: [text, int4], returns: text, run: ([word, times]) => (word as string).repeat(times as number) },
  pg_sleep: {
    takes: [float8],
    returns: void_,
    *wait([seconds], { clock }) {
      yield* sleep(clock, (seconds as number) * 1000);
      return "";
    },
  },
  pg_notify: {
    takes: [text, text],
    returns: void_,
    run: ([channel, payload], session) => (session.notify(channel as string, payload as string), ""),
  },
  pg_advisory_lock: {
    takes: [int8],
    returns: void_,
    *wait([key], session) {
      yield* session.lockForSession(`advisory ${String(key)}`, EXCLUSIVE);
      return "";
    },
  },
  pg_advisory_unlock_all: {
    takes: [],
    returns: void_,
    run: (_, session) => (session.locks.releaseAll(session, "advisory "), ""),
  },
  pg_cancel_backend: { takes: [int4], returns: bool, run: ([pid], { world }) => world.around.cancel(pid as number) },
  pg_terminate_backend: {
    takes: [int4],
    returns: bool,
    run: ([pid], { world }) => world.around.terminate(pid as number),
  },
  pg_drop_replication_slot: {
    takes: [name],
    returns: void_,
    run: ([slot], { world, processId }) => (world.slots.drop(slot as string, processId), ""),
  },
};

/** As `set_config` does it, also for roles. */
export function setConfig(session: Session, key: string, value: string, isLocal: boolean): string {
  if (/^(role|session_authorization)$/i.test(key)) return changeRole(session, key.toLowerCase(), value, isLocal);
  return setSetting(session, key, value, isLocal);
}

export function functionNamed(called: string, count: number): FunctionDefinition | undefined {
  const found = FUNCTIONS[`${called}/${count}`] ?? FUNCTIONS[called];
  return found?.takes.length === count ? found : undefined;
}
