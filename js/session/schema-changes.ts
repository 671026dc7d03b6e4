// What a session's own commands have done to known statements: DDL changes what they return, and DISCARD and DEALLOCATE
// remove their names.
//
// The server refuses a prepared statement that would now return something else (0A000 "cached plan must not change
// result type", 08P01). Outside a transaction the statement is described again, and the caller does not notice. Inside
// a transaction the error would end the transaction. So nothing that was learned before DDL is used:
//
//   outside a transaction, or committed ── the whole isolate learns statements of this database anew
//   in a transaction, until its end ────── this connection does, and keeps what it learns for itself, because other
//                                          sessions do not see the change and a rollback takes it back
//
// Schema changes by other sessions are not known. Knows command tags, and the key by which statements are looked up.
// Must not know how a statement is learned or run.
import type { Connection } from "../connection/connection.ts";
import type { KnownDatabase } from "../server/known-server.ts";
import type { Learned } from "./learned.ts";

/**
 * Commands after which a known statement may return something else. DO may run any of them. CREATE is not among them,
 * except for a view, which it may replace: otherwise it only adds, and temporary tables are created often.
 */
const CHANGES_SCHEMA = /^(?:(?:ALTER|DROP) (?!INDEX)|CREATE VIEW$|DO$|IMPORT)/;
const TAKES_NAMES = /^(?:DISCARD|DEALLOCATE)/;

export class SchemaChanges {
  readonly #connection: Pick<Connection, "transactionStatus" | "callCore">;
  readonly #database: Pick<KnownDatabase, "epoch">;
  readonly #learned: Learned;
  /** Whether something has changed since `key` was last read. */
  #hasChanged = false;
  /**
   * Set while a transaction that has changed the schema is open: the number of its last change, which no other change
   * has.
   */
  #uncommitted: string | undefined;

  constructor(connection: Connection, database: Pick<KnownDatabase, "epoch">, learned: Learned) {
    this.#connection = connection;
    this.#database = database;
    this.#learned = learned;
    const onCommand = (command: string) => this.#onCommand(command);
    connection.onCommand = onCommand;
  }

  /** A part of the key by which statements are looked up. */
  get key(): string {
    const isInside = this.#connection.transactionStatus !== "I";
    if (isInside && this.#hasChanged) this.#uncommitted = `uncommitted ${++lastChange}`;
    if (!isInside && this.#uncommitted !== undefined) this.#publish();
    this.#hasChanged = false;
    if (this.#uncommitted !== undefined) return this.#uncommitted;
    const { epoch } = this.#database;
    return epoch ? String(epoch) : "";
  }

  #onCommand(command: string): void {
    if (CHANGES_SCHEMA.test(command)) {
      this.#hasChanged = true;
      // Other sessions see the change from now on, unless a transaction is open. That is known only after the next
      // ReadyForQuery.
      this.#database.epoch++;
    } else if (command === "COMMIT") {
      if (this.#hasChanged || this.#uncommitted !== undefined) this.#publish();
    } else if (command === "ROLLBACK") {
      // Perhaps to a savepoint: what was learned after that savepoint does not hold any more.
      this.#hasChanged ||= this.#uncommitted !== undefined;
    } else if (TAKES_NAMES.test(command)) {
      for (const id of this.#learned.forgetAll()) this.#connection.callCore((handle) => handle.forget(id));
    }
  }

  /** The changes hold for all sessions from now on. */
  #publish(): void {
    this.#hasChanged = false;
    this.#uncommitted = undefined;
    this.#database.epoch++;
  }
}

let lastChange = 0;
