// Sets a setting, as SET and set_config() do.
//
// Knows which settings are more than a value: those of the transaction, and roles. Must not know the syntax.
import { PgError } from "../errors.ts";
import type { Session } from "../session.ts";

/** Sets a value; `null` acts as RESET. Returns the new value. */
export function setSetting(session: Session, name: string, value: string | null, isLocal: boolean): string {
  const key = name.toLowerCase();
  const { settings, transaction } = session;
  if (key.startsWith("transaction_") && key !== "transaction_timeout") return setOfTransaction(session, key, value);
  const checked = value === null ? undefined : settings.checked(name, value);
  if (checked === undefined && settings.firstValue(name) === undefined) settings.checked(name, "");
  if (isLocal && !session.isInBlock && session.state === "started" && value === null) return settings.get(name);
  settings.set(transaction, name, checked, isLocal);
  return settings.get(name);
}

function setOfTransaction(session: Session, key: string, value: string | null): string {
  const transaction = session.transaction!;
  const { isStandby } = session.world.standing;
  const given = value ?? session.settings.get(`default_${key}`);
  const checked = session.settings.checked(key, given);
  if (key === "transaction_isolation") {
    if (transaction.isolation !== checked && transaction.hasRun)
      throw new PgError("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query");
    if (checked === "serializable" && isStandby) throw noSerializable();
    transaction.isolation = checked;
  } else if (key === "transaction_read_only") {
    if (checked === "off" && transaction.isReadOnly && transaction.hasRun)
      throw new PgError("25001", "transaction read-write mode must be set before any query");
    if (checked === "off" && isStandby && transaction.isReadOnly)
      throw new PgError("0A000", "cannot set transaction read-write mode during recovery");
    const before = transaction.isReadOnly;
    transaction.isReadOnly = checked === "on";
    transaction.add({ undo: () => void (transaction.isReadOnly = before) });
  } else {
    if (transaction.hasRun)
      throw new PgError("25001", "SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
    transaction.isDeferrable = checked === "on";
  }
  return checked;
}

const noSerializable = () =>
  new PgError("0A000", "cannot use serializable mode in a hot standby", {
    hint: "You can use REPEATABLE READ instead.",
  });

/** Returns what SHOW shows, also for the settings of a transaction. */
export function shown(session: Session, name: string): string {
  const { transaction, settings } = session;
  const key = name.toLowerCase();
  if (key === "transaction_isolation") return transaction!.isolation;
  if (key === "transaction_read_only") return transaction!.isReadOnly ? "on" : "off";
  if (key === "transaction_deferrable") return transaction!.isDeferrable ? "on" : "off";
  return settings.get(name);
}

/**
 * Each role of the model is a member of all others. `name`: `role` or `session_authorization`. `null`, and `none` for a
 * role, restore the login's own.
 */
export function changeRole(session: Session, name: string, value: string | null, isLocal: boolean): string {
  const { settings, transaction, world } = session;
  const isRole = name === "role";
  if (value !== null && !(isRole && value.toLowerCase() === "none")) {
    if (!world.around.roles.includes(value)) throw new PgError("22023", `role "${value}" does not exist`);
    if (!isRole && value !== session.user)
      throw new PgError("42501", `permission denied to set session authorization "${value}"`);
    settings.set(transaction, name, value, isLocal);
    return value;
  }
  settings.set(transaction, name, isRole ? "none" : session.user, isLocal);
  return settings.get(name);
}
