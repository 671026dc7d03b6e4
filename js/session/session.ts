// One session on a server: a connection together with what holds for as long as it lasts. What a call is given to run
// on. Those of scopes stand beside the client's own, on the same connection.
//
// Each part owns its state (docs/decisions/0013); this file only holds them together.
import type { Config } from "../config/options.ts";
import type { Connection } from "../connection/connection.ts";
import type { Operation } from "../connection/operation.ts";
import { catalogOf, type Catalog } from "./catalog.ts";
import { SchemaChanges } from "./schema-changes.ts";
import type { ScopeSettings } from "./scope-settings.ts";
import { scopedKey, serverKey } from "./shapes.ts";
import { Statements } from "./statements.ts";
import { Learned } from "./learned.ts";
import { TransactionBlock } from "./transaction-block.ts";

export class Session {
  readonly connection: Connection;
  /** What the isolate knows of the server's types. */
  readonly catalog: Catalog;
  readonly statements: Statements;
  readonly transaction: TransactionBlock;
  /** Settings of a scope hold for what it runs. */
  readonly isScoped: boolean;
  /** Notes what may outlive a call, where the session has other users later. */
  sessionChanges: { note(text: string): void } | undefined;
  /** Called when COMMIT of a transaction on it has left: what it asks the server travels in the same flight. */
  committing: (() => Operation) | undefined;
  readonly #learned: Learned;
  readonly #changes: SchemaChanges;
  readonly #front: readonly string[];

  /** `front`: statements in front of each flight, before the scope's. */
  constructor(
    connection: Connection,
    scope?: ScopeSettings,
    told = new Learned(),
    changes = new SchemaChanges(connection, serverKey(connection.config), told),
    front: readonly string[] = [],
  ) {
    const server = serverKey(connection.config);
    this.connection = connection;
    this.catalog = catalogOf(server);
    this.transaction = new TransactionBlock(connection, scope, front);
    this.statements = new Statements(connection, scopedKey(server, scope?.meaning ?? ""), {
      catalog: this.catalog,
      told,
      changes,
      block: this.transaction,
    });
    this.isScoped = scope !== undefined;
    this.#learned = told;
    this.#changes = changes;
    this.#front = front;
  }

  /** The session of a scope, on the same connection. */
  scoped(scope: ScopeSettings): Session {
    return this.#beside(scope, this.#front);
  }

  /** One on the same connection with a statement in front of each flight: where it fails the server skips the rest. */
  guarded(statement: string): Session {
    return this.#beside(undefined, [statement]);
  }

  #beside(scope: ScopeSettings | undefined, front: readonly string[]): Session {
    const session = new Session(this.connection, scope, this.#learned, this.#changes, front);
    session.sessionChanges = this.sessionChanges;
    return session;
  }

  get config(): Config {
    return this.connection.config;
  }
}
