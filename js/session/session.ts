// One session on a server: a connection together with what holds for as long as it lasts. What a call is given to run
// on.
//
// Each part owns its state (docs/decisions/0013); this file only holds them together.
import type { Config } from "../config/options.ts";
import type { Connection } from "../connection/connection.ts";
import { catalogOf, type Catalog } from "./catalog.ts";
import { serverKey } from "./shapes.ts";
import { Statements } from "./statements.ts";
import { TransactionBlock } from "./transaction-block.ts";

export class Session {
  readonly connection: Connection;
  /** What the isolate knows of the server's types. */
  readonly catalog: Catalog;
  readonly statements: Statements;
  readonly transaction: TransactionBlock;

  constructor(connection: Connection) {
    const server = serverKey(connection.config);
    this.connection = connection;
    this.catalog = catalogOf(server);
    this.statements = new Statements(connection, server, this.catalog);
    this.transaction = new TransactionBlock(connection);
  }

  get config(): Config {
    return this.connection.config;
  }
}
