// Option `tables`: the publication that is made for one stream, and dropped at its end.
//
//   lock of its name ── drop what a crash has left ── CREATE PUBLICATION ──> slot, changes ──> lock ── DROP PUBLICATION
//
// The publication belongs to a temporary slot, whose name only one connection has at a time. A connection that makes or
// drops the publication holds a lock of that name, so no stream drops the publication of another.
//
// Knows the publication's name and tables. Must not know slots, or when a stream ends.
import { PostgresError, UsageError } from "../index.ts";
import type { Query } from "../index.ts";
import { withAdvice } from "./advice.ts";
import { identifier, literal } from "./options.ts";
import type { Replication } from "./replication.ts";

/**
 * Number of attempts to take the lock, and milliseconds between them. A connection that is ending releases its lock
 * within milliseconds.
 */
const TRIES = 10;
const PAUSE = 50;

const DOT = 'A dot is part of a name in "tables": for a table of a schema give sql.identifier("schema", "table").';

export class OwnPublication {
  readonly name: string;
  readonly #tables: string;
  /** Whether a table was given as a text with a dot, which is part of the table's own name then. */
  readonly #hasDot: boolean;

  constructor(slot: string, tables: readonly (string | Query)[]) {
    this.name = `pgz_edge_${slot}`.slice(0, 63);
    this.#tables = tables.map((table) => (typeof table === "string" ? identifier(table) : table.text)).join(", ");
    this.#hasDot = tables.some((table) => typeof table === "string" && table.includes("."));
  }

  /** Makes the publication. The connection holds its lock from now on. */
  async make(connection: Replication): Promise<void> {
    if (!(await this.#lock(connection)))
      throw new UsageError("INVALID_OPTION", `Another stream has publication ${this.name}: choose another "slot".`);
    const name = identifier(this.name);
    await connection.run(`DROP PUBLICATION IF EXISTS ${name}`);
    await connection.run(`CREATE PUBLICATION ${name} FOR TABLE ${this.#tables}`).catch((error: unknown) => {
      const isMissing = error instanceof PostgresError && error.code === "42P01";
      throw isMissing && this.#hasDot ? withAdvice(error, DOT) : error;
    });
  }

  /** Drops the publication, unless another stream has made it again. */
  async drop(connection: Replication): Promise<void> {
    for (let left = TRIES; !(await this.#lock(connection)); left--) {
      if (left === 0) return;
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    await connection.run(`DROP PUBLICATION IF EXISTS ${identifier(this.name)}`);
  }

  async #lock(connection: Replication): Promise<boolean> {
    const key = `pg_catalog.hashtextextended(${literal(this.name)}, 0)`;
    const [row] = await connection.run(`select pg_catalog.pg_try_advisory_lock(${key})`);
    return row![0] === "t";
  }
}
