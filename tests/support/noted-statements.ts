// Statements on a connection that only records the commands to its core, for tests that answer each request by hand.
//
// Knows what js/session/statements.ts needs of a connection, a call and a session. Must not know sockets or bytes.
import type { Connection } from "../../js/connection/connection.ts";
import { Operation, type Conversation } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import { Catalog } from "../../js/server/catalog.ts";
import { KnownServer } from "../../js/server/known-server.ts";
import type { SchemaChanges } from "../../js/session/schema-changes.ts";
import type { LearnedShape } from "../../js/server/shapes.ts";
import { Statements } from "../../js/session/statements.ts";
import { Learned } from "../../js/session/learned.ts";
import type { PgzError } from "../../js/util/errors.ts";
import type { Column, CoreConnection, EventOf } from "../../js/wasm/boundary.ts";

/** A command to the core with its arguments. */
export type Command = readonly [name: string, ...given: unknown[]];

/** An operation that a call has sent, with the commands that the core got for it. */
export class Asked {
  readonly operation: Operation;
  constructor(
    readonly commands: readonly Command[],
    conversation: Conversation,
  ) {
    this.operation = new Operation(conversation);
  }

  /** ReadyForQuery, after this shape if one is given. */
  answer(shape?: LearnedShape): void {
    if (shape) this.operation.conversation.on!.shape!(shape as EventOf<"shape">);
    this.operation.end();
  }

  /** Answers as the catalog does. */
  tellTypes(...rows: unknown[]): void {
    const { rows: sink, on } = this.operation.conversation;
    sink!.rows(new TextEncoder().encode(JSON.stringify([rows])));
    on!.complete!("SELECT", 1);
    this.operation.end();
  }

  fail(error: PgzError): void {
    this.operation.fail(error);
    this.operation.end();
  }
}

export class NotedSession {
  /** The commands to the core outside of operations. */
  readonly log: Command[] = [];
  readonly asked: Asked[] = [];
  readonly catalog: Catalog;
  readonly told = new Learned();
  readonly changes = { key: "" };
  readonly block = {
    preludes: [] as string[],
    carried: (operation: Operation) => operation,
    describes: (operation: Operation) => operation,
    prepareRepeat: () => Promise.resolve(),
  };
  /** The types that the core cannot read in binary. */
  readonly textTypes = new Set<number>();
  readonly connection;
  readonly statements: Statements;
  readonly call = { finished: false, comment: "", operate: this.#operate.bind(this) };

  constructor(
    readonly server = new KnownServer(),
    catalog = new Catalog(),
  ) {
    this.catalog = catalog;
    this.connection = {
      config: { host: "h", port: 1, database: "d", prepare: "auto", statementCacheSize: 100 },
      parameters: new Map<string, string>(),
      integerDatetimes: true,
      isPooled: false,
      transactionStatus: "I",
      stopping: undefined as Promise<unknown> | undefined,
      callCore: (command: (handle: CoreConnection) => void) => command(this.#handle(this.log)),
      core: { call: <T>(command: (handle: CoreConnection) => T) => command(this.#handle(this.log)) },
    };
    this.statements = new Statements(this.connection as unknown as Connection, server.unscoped, {
      catalog,
      learned: this.told,
      changes: this.changes as SchemaChanges,
      block: this.block,
    });
  }

  get owner(): AnyCall {
    return this.call as unknown as AnyCall;
  }

  #operate(_: unknown, command: (handle: CoreConnection) => number, conversation: Conversation = {}): Operation {
    const commands: Command[] = [];
    command(this.#handle(commands));
    const asked = new Asked(commands, conversation);
    this.asked.push(asked);
    return asked.operation;
  }

  #handle(log: Command[]): CoreConnection {
    const handle = new Proxy({} as Record<string, unknown>, {
      get: (_, name: string) =>
        name === "result_format"
          ? (oid: number) => (this.textTypes.has(oid) ? 0 : 1)
          : (...given: unknown[]) => void log.push([name, ...given]),
    });
    return handle as unknown as CoreConnection;
  }
}

export const columnOf = (typeOid: number, name = "n"): Column => ({
  name,
  tableOid: 0,
  columnAttributeNumber: 0,
  typeOid,
  typeSize: 4,
  typeModifier: -1,
  formatCode: 0,
});

/** The server's description of a statement with columns of these types. */
export const shapeOf = (typeOids: readonly number[], parameterTypes: readonly number[] = []): LearnedShape => ({
  parameterTypes,
  resultFormats: typeOids.map(() => 1),
  columns: typeOids.map((typeOid) => columnOf(typeOid)),
});

/** Resolves when all promises that can run have run. */
export const settled = () => new Promise<void>((resolve) => setImmediate(resolve));
