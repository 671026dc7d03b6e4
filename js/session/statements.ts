// What is known of statements on one connection: their shapes by the isolate, their names by the server, their columns
// by the core.
//
// Knows how a shape is learned and how a known one is told to the core. Must not know values, rows, or what a failure
// means.
//
// A statement's life here:
//
//   unknown ── learn ──> known, by the isolate ── execute ──> has run here: the server may have it under a name
//      ^                                                          │ forget: the name is closed with the next flight
//      └───────────────────────── forgetShape ────────────────────┘
import type { Connection } from "../connection/connection.ts";
import type { Handlers, Operation, Reached, RowSink } from "../connection/operation.ts";
import type { Form } from "../rows/form.ts";
import { PgzError } from "../util/errors.ts";
import { COLUMNS_KNOWN, ROWS_NONE, type Column, type CoreConnection, type Limits } from "../wasm/boundary.ts";
import type { Definition } from "../wasm/type-definitions.ts";
import { mayAskAgain } from "./again.ts";
import type { AnyCall } from "./call.ts";
import type { Catalog } from "./catalog.ts";
import { learnTypes } from "./catalog-questions.ts";
import {
  checkFailed,
  checkPassed,
  columnTypes,
  describeFirst,
  firstRunOf,
  isOfTypes,
  isOld,
  tellsColumns,
  type Check,
  type FirstRun,
} from "./first-run.ts";
import { noteNodes, tellsOfNodes } from "./nodes.ts";
import { asksForText, heedLoss, heedOddness, heedSuccess, isOdd } from "./odd-servers.ts";
import type { SchemaChanges } from "./schema-changes.ts";
import { encodedStatement, newShapeId, newStatement, shapes, type LearnedShape, type Shape } from "./shapes.ts";
import type { Learned } from "./learned.ts";
import { putInFront, type TransactionBlock } from "./transaction-block.ts";

/** A flight names a statement that the server does not have. */
const NO_SUCH_STATEMENT = "26000";

/** How rows are asked for. */
export interface RowRequest {
  /** The core's number for the form of rows. */
  readonly form: number;
  readonly limits: Limits;
}

/** What Bind names: a statement, and values for its parameters. */
export interface BoundStatement {
  readonly shape: Shape;
  /** As values/parameters.ts encodes them. */
  readonly parameters: Uint8Array;
}

/** What statements need of their session. */
interface Parts {
  readonly catalog: Catalog;
  readonly told: Learned;
  readonly changes: SchemaChanges;
  readonly block: Pick<TransactionBlock, "settings">;
}

/** A question about a statement that is on its way. */
interface Describing {
  readonly text: string;
  readonly id: number;
  readonly operation: Operation;
  readonly answer: { shape?: LearnedShape };
}

export class Statements {
  readonly #connection: Connection;
  readonly #server: string;
  readonly #catalog: Catalog;
  readonly #learned: Learned;
  readonly #changes: SchemaChanges;
  readonly #block: Pick<TransactionBlock, "settings">;
  /** Settings of the session, or the server, do not allow a first run as text. */
  #describesFirst = false;
  /** For every operation that runs statements: what its answers teach. */
  readonly handlers: Handlers = {
    columns: ({ shape, columns }) => {
      if (shape) this.#learned.learnColumns(shape, columns);
    },
    shapeChanged: ({ typeOid }) => this.#catalog.forget(typeOid),
  };

  /** `server`: everything that decides what a text means. */
  constructor(connection: Connection, server: string, parts: Parts) {
    this.#connection = connection;
    this.#server = server;
    this.#catalog = parts.catalog;
    this.#learned = parts.told;
    this.#changes = parts.changes;
    this.#block = parts.block;
  }

  /** What the isolate learns here holds where times are alike in binary, and until the schema changes. */
  get #learnedOf(): string {
    const change = this.#changes.key;
    const { integerDatetimes } = this.#connection;
    if (integerDatetimes && !change) return this.#server;
    return `${this.#server} ${change}${integerDatetimes ? "" : " float times"}`;
  }

  /** What the isolate knows of the statement, unless a type that it returns has turned out to be another by now. */
  known(text: string): Shape | undefined {
    const shape = shapes.get(this.#learnedOf, text);
    return shape?.types.length && !this.#catalog.knows(shape.types) ? undefined : shape;
  }

  /** Whether it has run here, so that the server may have it under a name. */
  hasRun(shape: Shape): boolean {
    return this.#learned.hasRun(shape);
  }

  /** Puts an execution on the wire, behind BEGIN where that waits, and behind settings. */
  execute(
    call: AnyCall,
    transaction: Pick<TransactionBlock, "flight">,
    { shape, parameters }: BoundStatement,
    { form, limits }: RowRequest,
    rows: RowSink,
  ): Operation {
    const told = this.#tellColumns(shape, rows);
    this.#learned.remember(shape);
    return transaction.flight((preludes) => {
      const command = (handle: CoreConnection) => {
        putInFront(handle, preludes);
        this.define(handle, shape.types);
        return handle.execute(
          shape.id,
          this.#encoded(shape, call),
          parameters,
          told ? form | COLUMNS_KNOWN : form,
          limits,
        );
      };
      return call.operate(this.#connection, command, {
        rows,
        on: this.handlers,
        // An operation before this one may have been told of others.
        comesFirst: () => {
          const columns = this.#learned.columns(shape);
          if (told && columns && told !== columns) rows.columns?.(columns);
        },
      });
    });
  }

  /** Puts a statement of a batch where its items find it. */
  addToBatch(handle: CoreConnection, shape: Shape, call: AnyCall): void {
    this.#learned.remember(shape);
    handle.batch_statement(shape.id, this.#encoded(shape, call));
  }

  /** A name would keep the comment of its first run. */
  #encoded(shape: Shape, { comment }: AnyCall): Uint8Array {
    const { config } = this.#connection;
    const hasNames = config.prepare !== "unnamed" && config.statementCacheSize > 0;
    return comment && !hasNames ? newStatement(shape, shape.sql + comment) : encodedStatement(shape);
  }

  /** Tells the core of types that it does not know yet. */
  define(handle: CoreConnection, types: readonly Definition[]): void {
    this.#learned.define(handle, types);
  }

  /** The shape's prepared statement is not to be used again. */
  forget({ id }: Shape): void {
    this.#connection.tell((handle) => handle.forget(id));
  }

  /** What the isolate knows of the statement is out of date: the next call learns it anew. */
  forgetShape(text: string): void {
    shapes.forget(this.#learnedOf, text);
  }

  /** The server has no binary form of something that it returns. Whether it is asked for otherwise from now on. */
  refuseBinary(shape: Shape): boolean {
    return shapes.refuseBinary(this.#learnedOf, shape);
  }

  // -- first runs -----------------------------------------------------------------------------------------------------

  /**
   * How the statement may run though nobody has described it; `undefined`: it is to be described first. `asked`: types
   * of its columns that are asked for in front of it.
   */
  firstRun(
    text: string,
    values: readonly unknown[],
    { form, policy }: Pick<Form, "form" | "policy">,
    asked: readonly number[] = [],
  ): FirstRun | undefined {
    const { config, parameters } = this.#connection;
    const version = parameters.get("server_version");
    if (this.#describesFirst || isOld(version) || isOdd(config, "statement")) return undefined;
    const known = this.#catalog.readable();
    const columns =
      form === ROWS_NONE || !tellsColumns(version)
        ? undefined
        : { known, asked, anySize: policy?.parsers !== undefined };
    return firstRunOf(this.#server, text, values, columns, version !== undefined);
  }

  /** What stands in front of the statement of a first run failed: Close of the name, or the check. */
  failedInFront(part: Reached["before"], { code, message }: PgzError): void {
    if (part === "close") this.oddServer();
    // Its name is gone, so the check has not run. Behind a pooler it has none.
    else if (part === "check" && (code !== NO_SUCH_STATEMENT || this.#connection.isPooled)) this.#checkFailed(message);
  }

  /**
   * By which the connection knows the check again and prepares it; 0: never, where a pooler may lead the next flight to
   * another server connection.
   */
  checkIdFor({ id }: Check, mayBePooled: boolean): number {
    if (mayBePooled) return 0;
    this.#learned.remember({ id });
    return id;
  }

  #checkFailed(message: string): void {
    // It looks at settings first.
    if (columnTypes(message)) this.checkPassed();
    if (isOfTypes(message) || this.#describesFirst) return;
    this.#describesFirst = true;
    checkFailed(this.#server);
  }

  checkPassed(): void {
    checkPassed(this.#server);
    heedSuccess(this.#connection.config, "statement");
  }

  /** The server has answered a first run as no PostgreSQL does. */
  oddServer(): void {
    heedOddness(this.#connection.config, "statement");
  }

  /** The connection has ended under a first run. `isDescribed`: what came in front of its rows was in order. */
  firstRunLost(error: unknown, isDescribed: boolean): void {
    heedLoss(this.#connection.config, "statement", error, isDescribed);
  }

  /** The statement is never to run before it is described. */
  describeFirst(text: string): void {
    describeFirst(this.#server, text);
  }

  /** What the server has said of the statement, for all who run it; `undefined` while the catalog has to be asked. */
  learnedNow(text: string, learned: LearnedShape, id: number): Shape | undefined {
    if (this.#catalog.question(learned.columns) !== undefined) return undefined;
    return shapes.put(this.#learnedOf, text, this.#withDefinitions(learned), id);
  }

  // -- learning -------------------------------------------------------------------------------------------------------

  /** What the isolate knows, or what the server says now; `undefined` when the call was over before. */
  async shape(call: AnyCall, text: string): Promise<Shape | undefined> {
    return this.known(text) ?? this.learn(call, text);
  }

  /** Asks the server for the statement's types; `undefined` when the call was over before. */
  async learn(call: AnyCall, text: string): Promise<Shape | undefined> {
    const [shape] = (await this.#learn(call, [text], false)) ?? [];
    if (shape instanceof PgzError) throw shape;
    return shape;
  }

  /**
   * Asks for these in one flight (and one more for types of the database's own), and leaves them prepared under names:
   * a shape for each, or what was wrong with it. `undefined` when the call was over before.
   */
  prepare(call: AnyCall, texts: readonly string[]): Promise<(Shape | PgzError)[] | undefined> {
    return this.#learn(call, texts, true);
  }

  async #learn(call: AnyCall, texts: readonly string[], named: boolean): Promise<(Shape | PgzError)[] | undefined> {
    const learning = texts.map((text) => this.#describe(call, text, named));
    for (const { operation } of learning) await operation.done;
    const learned: (Shape | PgzError)[] = [];
    for (const describing of learning) {
      const { text, id } = describing;
      let found = await this.#found(call, describing, named);
      // Dropped, and perhaps made again, since the server has told of it.
      if (found && !(found instanceof PgzError) && this.#catalog.isGone(found.columns))
        found = await this.#found(call, this.#describe(call, text, named, id), named);
      if (!found) return undefined;
      const shape = found instanceof PgzError ? found : shapes.put(this.#learnedOf, text, found, id);
      // It is prepared under the name of another shape.
      if (named && !(shape instanceof PgzError) && shape.id !== id)
        this.#connection.tell((handle) => handle.forget(id));
      learned.push(shape);
    }
    return learned;
  }

  /** Its answer; once more while a CancelRequest for another call has ended it. `undefined`: the call is over. */
  async #found(call: AnyCall, asked: Describing, named: boolean): Promise<LearnedShape | PgzError | undefined> {
    const { text, id, operation, answer } = asked;
    await operation.done;
    if (call.finished) return undefined;
    if (tellsOfNodes(operation.error)) {
      noteNodes(this.#connection.config);
      return this.#found(call, this.#describe(call, text, named, id), named);
    }
    if (!operation.wasHitBesides || !mayAskAgain(this.#connection.transactionStatus))
      return operation.error ?? this.#withTypes(call, answer.shape!);
    await this.#connection.stopping;
    return call.finished ? undefined : this.#found(call, this.#describe(call, text, named, id), named);
  }

  #describe(call: AnyCall, text: string, named: boolean, id = this.known(text)?.id ?? newShapeId()): Describing {
    // A statement that is there already would tell of what was, not of what is.
    if (named) {
      this.#connection.tell((handle) => handle.forget(id));
      this.#learned.remember({ id });
    }
    const answer: { shape?: LearnedShape } = {};
    // Many at once: their answers may fill what lies between us before all of them have left, hence duplex.
    const command = (handle: CoreConnection) => {
      putInFront(handle, this.#block.settings);
      return handle.describe(text, named ? id : 0);
    };
    const operation = call.operate(this.#connection, command, {
      duplex: true,
      on: { shape: (event) => void (answer.shape = event) },
    });
    return { text, id, operation, answer };
  }

  /**
   * The shape with what its columns' own types are made of, and binary wherever they can be read then; one more flight
   * when nobody has asked.
   */
  async #withTypes(call: AnyCall, shape: LearnedShape): Promise<LearnedShape | undefined> {
    const { columns } = shape;
    if (!(await learnTypes(call, this.#connection, this.#catalog, columns))) return undefined;
    return this.#withDefinitions(shape);
  }

  #withDefinitions(shape: LearnedShape): LearnedShape {
    const { columns } = shape;
    const types = this.#catalog.definitions(columns);
    if (asksForText(this.#connection.config)) return { ...shape, resultFormats: columns.map(() => 0), types };
    if (!types.length) return shape;
    const resultFormats = this.#connection.core.call((handle) => {
      this.define(handle, types);
      return columns.map(({ typeOid }) => handle.result_format(typeOid));
    });
    return { ...shape, resultFormats, types };
  }

  // -- what has run here ----------------------------------------------------------------------------------------------

  /**
   * Tells the sink the columns that the core has; `undefined` where there are none, or where the sink refuses them:
   * they may have changed since.
   */
  #tellColumns(shape: Shape, rows: RowSink): readonly Column[] | undefined {
    const columns = this.#learned.columns(shape);
    try {
      if (columns) rows.columns?.(columns);
      return columns;
    } catch {
      return undefined;
    }
  }
}
