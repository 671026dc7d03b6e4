// What a session's own commands have done to statements that are known: DDL changes what they return, DISCARD and
// DEALLOCATE take their names.
//
// The server refuses a statement that it has prepared and that would return something else by now (0A000 "cached plan
// must not change result type", 08P01). Outside a transaction it is described again and nobody notices; inside one the
// error would end the transaction. So nothing is used that was learned before DDL:
//
//   outside a transaction, or committed ── all of the isolate learns statements of this server anew
//   in a transaction, until its end ────── this connection does, and keeps what it learns for itself, since others do
//                                          not see it and a rollback takes it back
//
// What others do to the schema is not known. Knows command tags, and by what statements are looked up. Must not know
// how a statement is learned or run.
import type { Connection } from "../connection/connection.ts";
import { epochOf, schemaChanged } from "./shapes.ts";
import type { Learned } from "./learned.ts";

/**
 * Commands after which a known statement may return something else. DO may run any of them. CREATE of anything but a
 * view and what replaces it adds only, and temporary tables are made often.
 */
const CHANGES_SCHEMA = /^(?:(?:ALTER|DROP) (?!INDEX)|CREATE VIEW$|DO$|IMPORT)/;
const TAKES_NAMES = /^(?:DISCARD|DEALLOCATE)/;

export class SchemaChanges {
  readonly #connection: Pick<Connection, "transactionStatus" | "tell">;
  readonly #server: string;
  readonly #learned: Learned;
  /** Something has changed since the last look. */
  #hasChanged = false;
  /** Of the transaction that has changed the schema: the number of its last change, which no other has. */
  #uncommitted: string | undefined;

  constructor(connection: Connection, server: string, told: Learned) {
    this.#connection = connection;
    this.#server = server;
    this.#learned = told;
    const hears = (command: string) => this.#hear(command);
    connection.hears = hears;
  }

  /** Part of what statements are looked up by. */
  get key(): string {
    const isInside = this.#connection.transactionStatus !== "I";
    if (isInside && this.#hasChanged) this.#uncommitted = `uncommitted ${++lastChange}`;
    if (!isInside && this.#uncommitted !== undefined) this.#publish();
    this.#hasChanged = false;
    if (this.#uncommitted !== undefined) return this.#uncommitted;
    const epoch = epochOf(this.#server);
    return epoch ? String(epoch) : "";
  }

  #hear(command: string): void {
    if (CHANGES_SCHEMA.test(command)) {
      this.#hasChanged = true;
      // Others see it from now on, unless a transaction is open: that is known only behind the next ReadyForQuery.
      schemaChanged(this.#server);
    } else if (command === "COMMIT") {
      if (this.#hasChanged || this.#uncommitted !== undefined) this.#publish();
    } else if (command === "ROLLBACK") {
      // To a savepoint perhaps: what was learned behind it is gone.
      this.#hasChanged ||= this.#uncommitted !== undefined;
    } else if (TAKES_NAMES.test(command)) {
      for (const id of this.#learned.forgetAll()) this.#connection.tell((handle) => handle.forget(id));
    }
  }

  /** What has changed holds for all. */
  #publish(): void {
    this.#hasChanged = false;
    this.#uncommitted = undefined;
    schemaChanged(this.#server);
  }
}

let lastChange = 0;
