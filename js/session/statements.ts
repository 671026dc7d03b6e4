// The descriptions and names of statements on one connection: the isolate has their shapes, the server their names, the
// core their columns.
//
// Knows how a shape is learned and how a known one is passed to the core. Must not know values, rows, or what a failure
// means.
//
// A statement's life here:
//
//   unknown ── learn ──> known, by the isolate ── execute ──> has run here: the server may have it under a name
//      ^                                                          │ forget: the name is closed with the next flight
//      └───────────────────────── forgetShape ────────────────────┘
import type { Connection } from "../connection/connection.ts";
import type { Handlers, Operation, RowSink } from "../connection/operation.ts";
import { shapeChanged } from "../connection/operation-events.ts";
import type { Form } from "../rows/form.ts";
import type { Catalog } from "../server/catalog.ts";
import type { KnownScope } from "../server/known-server.ts";
import {
  encodedStatement,
  newShape,
  newShapeId,
  newStatement,
  shapes,
  typesToRefuse,
  type LearnedShape,
  type Shape,
} from "../server/shapes.ts";
import { BoundedSet } from "../util/bounded.ts";
import { PgzError } from "../util/errors.ts";
import { BPCHAR, FIRST_OF_A_DATABASE, NAME, TEXT, VARCHAR } from "../values/oid.ts";
import {
  COLUMNS_KNOWN,
  PARSE_ANEW,
  ROWS_NONE,
  type Column,
  type CoreConnection,
  type Limits,
} from "../wasm/boundary.ts";
import type { Definition } from "../wasm/type-definitions.ts";
import { mayAskAgain } from "./again.ts";
import type { AnyCall } from "./call.ts";
import { learnTypes } from "./catalog-questions.ts";
import { failedByTypes, firstRunOf, noteCheck, type Check, type FirstRun } from "./first-run.ts";
import { isCitusError } from "./citus.ts";
import type { SchemaChanges } from "./schema-changes.ts";
import type { Learned } from "./learned.ts";
import { madeUnique } from "./sql-comment.ts";
import { putInFront, type TransactionBlock } from "./transaction-block.ts";

/** Maximum number of statements of a session that are remembered as not learned by their first run. */
const MOST_UNLEARNED = 100;

/** A flight names a statement that the server does not have. */
const NO_SUCH_STATEMENT = "26000";

/** How rows are requested. */
export interface RowRequest {
  /** The core's number for the form of rows. */
  readonly code: number;
  readonly limits: Limits;
}

/** The contents of Bind: a statement, and values for its parameters. */
export interface BoundStatement {
  readonly shape: Shape;
  /** As values/parameters.ts encodes them. */
  readonly parameters: Uint8Array;
}

/** The parts of a session that its statements need. */
interface Parts {
  readonly catalog: Catalog;
  readonly learned: Learned;
  readonly changes: SchemaChanges;
  readonly block: Pick<TransactionBlock, "preludes" | "carried" | "describes" | "prepareRepeat">;
}

/** Whether a description leaves the statement prepared, under the name of its shape. */
type Naming = "named" | "unnamed";

/** A pending Describe of a statement. */
interface Describing {
  readonly text: string;
  readonly id: number;
  readonly operation: Operation;
  readonly answer: { shape?: LearnedShape };
}

export class Statements {
  readonly #connection: Connection;
  readonly #scope: KnownScope;
  readonly #catalog: Catalog;
  readonly #learned: Learned;
  readonly #changes: SchemaChanges;
  readonly #block: Parts["block"];
  /** Whether settings of the session, or the server, rule out a first run as text. */
  #describesFirst = false;
  /** Statements whose first run here has not made them known, because the catalog must be asked: described next. */
  readonly #unlearned = new BoundedSet<string>(MOST_UNLEARNED);
  /** Handlers for every operation that runs statements. They store what its responses say about them. */
  readonly handlers: Handlers = {
    columns: ({ shape, columns }) => {
      if (!shape) return;
      // First, because the calls that follow on the wire are not told: the core's columns are these from now on.
      this.#learned.learnColumns(shape, columns);
      this.#refuseOtherForm(shape, columns);
    },
    shapeChanged: ({ typeOid }, texts) => {
      this.#catalog.forget(typeOid);
      for (const text of texts) this.forgetShape(text);
    },
  };

  constructor(connection: Connection, scope: KnownScope, parts: Parts) {
    this.#connection = connection;
    this.#scope = scope;
    this.#catalog = parts.catalog;
    this.#learned = parts.learned;
    this.#changes = parts.changes;
    this.#block = parts.block;
  }

  /**
   * The key of what the isolate learns here. It holds where times have the same binary form, and until the schema
   * changes.
   */
  get #learnedOf(): string {
    const change = this.#changes.key;
    const { integerDatetimes } = this.#connection;
    if (integerDatetimes && !change) return this.#scope.key;
    return `${this.#scope.key} ${change}${integerDatetimes ? "" : " float times"}`;
  }

  /** Returns the statement's cached shape, unless a type that it returns has changed since. */
  known(text: string): Shape | undefined {
    const shape = shapes.get(this.#learnedOf, text);
    return shape?.types.length && !this.#catalog.knows(shape.types) ? undefined : shape;
  }

  /** Whether the statement has run here, so that the server may have it under a name. */
  hasRun(shape: Shape): boolean {
    return this.#learned.hasRun(shape);
  }

  /** Puts an execution on the wire, after a waiting BEGIN and after settings. */
  execute(call: AnyCall, { shape, parameters }: BoundStatement, request: RowRequest, rows: RowSink): Operation {
    const known = this.#passColumns(shape, rows);
    this.#learned.remember(shape);
    const { preludes } = this.#block;
    const { limits } = request;
    const code = request.code | (known ? COLUMNS_KNOWN : 0) | (call.parsesAnew ? PARSE_ANEW : 0);
    const command = (handle: CoreConnection) => {
      putInFront(handle, preludes);
      this.define(handle, shape.types);
      return handle.execute(shape.id, this.#encoded(shape, call), parameters, code, limits);
    };
    // An earlier operation may have received other columns since.
    const isNext = () => {
      if (request.code === ROWS_NONE) return;
      const columns = this.#learned.columns(shape);
      if (!known || !columns || known === columns) return;
      this.#refuseOtherForm(shape.id, columns);
      rows.columns?.(columns);
    };
    // Where no row is read the core makes no plan, so it would not tell a later run that the columns are others again.
    const on = request.code === ROWS_NONE ? undefined : this.handlers;
    return this.#block.carried(call.operate(this.#connection, command, { rows, on, isNext }));
  }

  /** Adds a statement to a batch, so that its items can refer to it. */
  addToBatch(handle: CoreConnection, shape: Shape, call: AnyCall): void {
    this.#learned.remember(shape);
    handle.batch_statement(shape.id, this.#encoded(shape, call));
  }

  /**
   * Adds the call's comment only where statements have no names: a named statement would keep the comment of its first
   * run.
   */
  #encoded(shape: Shape, { comment, parsesAnew }: AnyCall): Uint8Array {
    if (parsesAnew) return newStatement(shape, madeUnique(shape.sql + comment));
    const { config } = this.#connection;
    const hasNames = config.prepare !== "unnamed" && config.statementCacheSize > 0;
    return comment && !hasNames ? newStatement(shape, shape.sql + comment) : encodedStatement(shape);
  }

  /** Passes definitions to the core of types that it does not know yet. */
  define(handle: CoreConnection, types: readonly Definition[]): void {
    this.#learned.define(handle, types);
  }

  /** Stops the use of the shape's prepared statement. */
  forget({ id }: Shape): void {
    this.#connection.callCore((handle) => handle.forget(id));
  }

  /** Drops the cached shape, because it is out of date: the next call describes the statement again. */
  forgetShape(text: string): void {
    shapes.forget(this.#learnedOf, text);
  }

  /**
   * Notes that the server has no binary form of something that it returns. Returns whether text is requested for it
   * from now on.
   */
  refuseBinary(shape: Shape): boolean {
    const refused = typesToRefuse(shape);
    for (const typeOid of refused) this.#scope.server.refusedTypes.add(typeOid);
    const { sql, parameterTypes, resultFormats } = shape;
    if (refused.length)
      this.#put(
        sql,
        { ...shape, parameterTypes: [...parameterTypes], resultFormats: [...resultFormats] },
        newShapeId(),
      );
    return refused.length > 0;
  }

  /**
   * Throws if a column was requested as text because of the type that it had, and has another one now, or is new. The
   * core would take the text for the value: it cannot see that another form was meant. The text of an enum is its
   * value; but a parser is found by the type, so the statement is learned anew.
   */
  #refuseOtherForm(id: number, columns: readonly Column[]): void {
    const shape = this.#learned.shape(id);
    if (!shape) return;
    const { resultFormats: formats } = shape;
    // In Bind one format holds for all columns, however many there are by now, and no format means text.
    const formatOf = (at: number) => (formats.length > 1 ? formats[at] : (formats[0] ?? 0));
    const changed = columns.filter(({ typeOid }, at) => formatOf(at) === 0 && shape.columns[at]?.typeOid !== typeOid);
    const isValue = (column: Column) => isTextual(column) || this.#catalog.isText(column.typeOid);
    const other = changed.find((column) => !isValue(column));
    if (other || (changed.length && this.#catalog.hasNames)) this.forgetShape(shape.sql);
    if (other) throw shapeChanged(other);
  }

  // -- first runs -----------------------------------------------------------------------------------------------------

  /** Returns how the statement may run without a description; `undefined` if it must be described first. */
  firstRun(
    text: string,
    values: readonly unknown[],
    { code, policy }: Pick<Form, "code" | "policy">,
  ): FirstRun | undefined {
    if (this.#describesFirst || this.#unlearned.has(text)) return undefined;
    const version = this.#connection.parameters.get("server_version");
    if (code === ROWS_NONE) return firstRunOf(this.#scope, text, values, undefined, version);
    const columns = { known: this.#catalog.readable(), anySize: policy?.parsers !== undefined };
    return firstRunOf(this.#scope, text, values, columns, version);
  }

  /** Notes that a first run's check has failed. */
  noteFailedCheck(error: PgzError): void {
    const { isPooled, parameters } = this.#connection;
    // The check's name is gone, so the check has not run. Behind a pooler the check has no name.
    if (error.code === NO_SUCH_STATEMENT && !isPooled) return;
    noteCheck(this.#scope.server, parameters.get("server_version"), error.code);
    if (failedByTypes(error) || this.#describesFirst) return;
    this.#describesFirst = true;
    this.#scope.failedChecks++;
  }

  /**
   * Returns the id by which the connection recognises the check and prepares it; 0: it never prepares the check,
   * because a pooler may route the next flight to another server connection.
   */
  checkIdFor({ id }: Check, mayBePooled: boolean): number {
    if (mayBePooled) return 0;
    this.#learned.remember({ id });
    return id;
  }

  checkPassed(): void {
    noteCheck(this.#scope.server, this.#connection.parameters.get("server_version"));
    this.#scope.failedChecks = 0;
  }

  /**
   * Stores the server's description of the statement for all sessions and returns its shape; `undefined` if the catalog
   * must be asked first.
   */
  learnedNow(text: string, learned: LearnedShape, id: number): Shape | undefined {
    const others = learned.columns.filter((column) => !hasFixedSize(column));
    const isUnknown = this.#catalog.question(others) !== undefined || this.#catalog.gone(others).length > 0;
    if (isUnknown) return void this.#unlearned.add(text);
    return this.#put(text, learned, id);
  }

  #put(text: string, learned: LearnedShape, id: number): Shape {
    const { resultFormats, columns, ...known } = this.#withDefinitions(learned);
    const { refusedTypes } = this.#scope.server;
    const formats = resultFormats.map((format, at) => (refusedTypes.has(columns[at]!.typeOid) ? 0 : format));
    return shapes.put(this.#learnedOf, text, { ...known, columns, resultFormats: formats }, id);
  }

  // -- learning -------------------------------------------------------------------------------------------------------

  /** Returns the cached shape, or else asks the server; `undefined` if the call ended meanwhile. */
  async shape(call: AnyCall, text: string): Promise<Shape | undefined> {
    return this.known(text) ?? this.learn(call, text);
  }

  /**
   * Asks the server for the statement's types; `undefined` if the call ended meanwhile. `described`: what the server
   * has described a moment ago.
   */
  async learn(call: AnyCall, text: string, described?: LearnedShape): Promise<Shape | undefined> {
    if (described) {
      if (!(await this.#learnTypes(call, [described]))) return undefined;
      if (!this.#catalog.gone(described.columns).length)
        return this.#put(text, described, this.known(text)?.id ?? newShapeId());
    }
    const [shape] = (await this.#learn(call, [text], "unnamed")) ?? [];
    if (shape instanceof PgzError) throw shape;
    return shape;
  }

  /**
   * Describes these statements in one flight (and one more for the database's own types), and leaves them prepared
   * under names. Returns a shape for each, or the error that its description failed with; `undefined` if the call ended
   * meanwhile.
   */
  prepare(call: AnyCall, texts: readonly string[]): Promise<(Shape | PgzError)[] | undefined> {
    return this.#learn(call, texts, "named");
  }

  async #learn(call: AnyCall, texts: readonly string[], naming: Naming): Promise<(Shape | PgzError)[] | undefined> {
    const learning = texts.map((text) => this.#describe(call, text, naming));
    for (const { operation } of learning) await operation.done;
    if (call.finished) return undefined;
    const failed = learning[0]?.operation;
    if (failed?.carriesBegin && failed.error) {
      // The others have failed with it, or were described outside the transaction, without its settings.
      if (!isCitusError(failed.error) && !failed.wasHitByOtherCancel) return texts.map(() => failed.error!);
      if (isCitusError(failed.error)) this.#scope.server.database.isCitus = true;
      await this.#block.prepareRepeat(failed);
      await this.#connection.stopping;
      return call.finished ? undefined : this.#learn(call, texts, naming);
    }
    const answers: (LearnedShape | PgzError)[] = [];
    for (const describing of learning) {
      const found = await this.#found(call, describing, naming);
      if (!found) return undefined;
      answers.push(found);
    }
    if (!(await this.#learnTypes(call, answers))) return undefined;
    const learned: (Shape | PgzError)[] = [];
    for (const [at, { text, id }] of learning.entries()) {
      const found = await this.#lasting(call, { text, id }, naming, answers[at]!);
      if (!found) return undefined;
      const shape = found instanceof PgzError ? found : this.#completed(text, found, id);
      // The statement has been prepared under a name that is not this shape's.
      if (naming === "named" && !(shape instanceof PgzError) && shape.id !== id)
        this.#connection.callCore((handle) => handle.forget(id));
      learned.push(shape);
    }
    return learned;
  }

  /**
   * Describes the statement again if it has types that were dropped, and perhaps created again, before the catalog was
   * asked. The same types twice are types that this server's catalog does not have.
   */
  async #lasting(
    call: AnyCall,
    { text, id }: Pick<Describing, "text" | "id">,
    naming: Naming,
    found: LearnedShape | PgzError,
  ): Promise<LearnedShape | PgzError | undefined> {
    for (let before = ""; !(found instanceof PgzError);) {
      const gone = this.#catalog.gone(found.columns).join();
      if (gone === "" || gone === before || this.#hasFailed) return found;
      before = gone;
      const again = await this.#found(call, this.#describe(call, text, naming, id), naming);
      if (!again || !(await this.#learnTypes(call, [again]))) return undefined;
      found = again;
    }
    return found;
  }

  /** In a failed transaction types cannot be asked for: such a shape is not cached, and the server will not run it. */
  #completed(text: string, found: LearnedShape, id: number): Shape {
    const isUnknown = this.#hasFailed && this.#catalog.question(found.columns) !== undefined;
    return isUnknown ? newShape(text, found, id) : this.#put(text, found, id);
  }

  get #hasFailed(): boolean {
    return this.#connection.transactionStatus === "E";
  }

  /**
   * Returns the answer, and repeats the question as long as a CancelRequest for another call ends it. `undefined`: the
   * call is over.
   */
  async #found(call: AnyCall, describing: Describing, naming: Naming): Promise<LearnedShape | PgzError | undefined> {
    const { text, id, operation, answer } = describing;
    await operation.done;
    if (call.finished) return undefined;
    if (isCitusError(operation.error)) {
      this.#scope.server.database.isCitus = true;
      return this.#found(call, this.#describe(call, text, naming, id), naming);
    }
    if (!operation.wasHitByOtherCancel || !mayAskAgain(this.#connection.transactionStatus))
      return operation.error ?? answer.shape;
    await this.#connection.stopping;
    return call.finished ? undefined : this.#found(call, this.#describe(call, text, naming, id), naming);
  }

  #describe(call: AnyCall, text: string, naming: Naming, id = this.known(text)?.id ?? newShapeId()): Describing {
    // A statement that is already prepared would report what held then, not what holds now.
    if (naming === "named") {
      this.#connection.callCore((handle) => handle.forget(id));
      this.#learned.remember({ id });
    }
    const answer: { shape?: LearnedShape } = {};
    // Duplex, because many questions leave at once: their answers may fill the buffers between client and server before
    // all questions have left.
    const { preludes } = this.#block;
    const command = (handle: CoreConnection) => {
      putInFront(handle, preludes);
      return handle.describe(text, naming === "named" ? id : 0);
    };
    // It carries a waiting BEGIN: what it fails with fails the transaction, as every statement's error does.
    const operation = this.#block.describes(
      call.operate(this.#connection, command, {
        duplex: true,
        on: { shape: (event) => void (answer.shape = event) },
      }),
    );
    return { text, id, operation, answer };
  }

  /** Asks the catalog for types of these shapes' columns, in one flight; `false` if the call ended meanwhile. */
  async #learnTypes(call: AnyCall, found: readonly (LearnedShape | PgzError)[]): Promise<boolean> {
    if (this.#hasFailed) return true;
    const columns = found.flatMap((one) => (one instanceof PgzError ? [] : one.columns));
    return learnTypes(call, this.#connection, this.#catalog, columns);
  }

  /**
   * Returns the shape with the definitions of its columns' types, and with binary formats wherever the core can then
   * read them. Not for an enum: where the same statement returns another one, its text can be read, too.
   */
  #withDefinitions(shape: LearnedShape): LearnedShape {
    const { columns } = shape;
    const types = this.#catalog.definitions(columns);
    if (!types.length) return shape;
    const resultFormats = this.#connection.core.call((handle) => {
      this.define(handle, types);
      return columns.map((column) => (hasFixedSize(column) ? 0 : handle.result_format(column.typeOid)));
    });
    return { ...shape, resultFormats, types };
  }

  /** Whether the server writes the column in binary, and the core reads that. */
  hasBinaryForm({ typeOid }: Column): boolean {
    const { refusedTypes } = this.#scope.server;
    return !refusedTypes.has(typeOid) && this.#connection.core.call((handle) => handle.result_format(typeOid)) === 1;
  }

  // -- what has run here ----------------------------------------------------------------------------------------------

  /**
   * Passes the columns that are known to the sink and returns them; `undefined` if none are known, or if the sink
   * refuses them: they may have changed since.
   */
  #passColumns(shape: Shape, rows: RowSink): readonly Column[] | undefined {
    const columns = this.#learned.columns(shape);
    try {
      if (columns) rows.columns?.(columns);
      return columns;
    } catch {
      return undefined;
    }
  }
}

/** Whether the text of the column's type is its value. */
function isTextual(column: Column): boolean {
  return hasFixedSize(column) || [TEXT, VARCHAR, BPCHAR, NAME].includes(column.typeOid);
}

/**
 * Whether the column's type is one of the database's that has a fixed size, as all enums have. The core has no decoder
 * for any other such type, so its text is its value, too.
 */
function hasFixedSize({ typeOid, typeSize }: Column): boolean {
  return typeOid >= FIRST_OF_A_DATABASE && typeSize >= 0;
}
