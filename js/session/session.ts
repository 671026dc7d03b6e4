// One session on a server: a connection together with the state that lasts as long as it does. Calls run on a session.
// The sessions of scopes exist beside the client's own, on the same connection.
//
// Each part owns its state (docs/architecture.md, "Owners of a session's state"); this file only holds them together.
import type { Config } from "../config/options.ts";
import type { Connection } from "../connection/connection.ts";
import type { Operation } from "../connection/operation.ts";
import type { Catalog } from "../server/catalog.ts";
import { knownServer } from "../server/known-server.ts";
import { SchemaChanges } from "./schema-changes.ts";
import type { ScopeSettings } from "./scope-settings.ts";
import type { Change } from "./setting-changes.ts";
import { Statements } from "./statements.ts";
import { Learned } from "./learned.ts";
import { TransactionBlock } from "./transaction-block.ts";

export class Session {
  readonly connection: Connection;
  /** What the isolate knows of the server's types. */
  readonly catalog: Catalog;
  readonly statements: Statements;
  readonly transaction: TransactionBlock;
  /** Whether settings of a scope hold for what the session runs. */
  readonly isScoped: boolean;
  /** Notes changes that may outlive a call, if the session will have other users. */
  sessionChanges: { note(text: string): void; add(change: Change): void } | undefined;
  /**
   * Called when COMMIT of a transaction on this session has been sent. It sends a question to the server in the same
   * flight.
   */
  onCommitSent: (() => Operation) | undefined;
  readonly #learned: Learned;
  readonly #changes: SchemaChanges;
  readonly #front: readonly string[];

  /** `front`: statements in front of each flight, before the scope's settings. */
  constructor(
    connection: Connection,
    scope?: ScopeSettings,
    learned = new Learned(connection.config.statementCacheSize),
    changes = new SchemaChanges(connection, knownServer(connection.config).database, learned),
    front: readonly string[] = [],
  ) {
    const server = knownServer(connection.config);
    this.connection = connection;
    this.catalog = server.catalog;
    this.transaction = new TransactionBlock(connection, scope, front);
    this.statements = new Statements(connection, server.scope(scope?.meaning ?? ""), {
      catalog: this.catalog,
      learned,
      changes,
      block: this.transaction,
    });
    this.isScoped = scope !== undefined;
    this.#learned = learned;
    this.#changes = changes;
    this.#front = front;
  }

  /** Returns the session of a scope, on the same connection. */
  scoped(scope: ScopeSettings): Session {
    return this.#beside(scope, this.#front);
  }

  /**
   * Returns a session on the same connection with a statement in front of each flight: if that fails, the server skips
   * the rest.
   */
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
