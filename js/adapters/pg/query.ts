// One query: the messages that it sends, and its results.
//
// Knows its connection's messages. Must not know the queue in which it waits.
import type { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import type { Connection, RowTaker } from "./connection.ts";
import { MalformedMessage, type FieldDef } from "./messages.ts";
import { readerOf, Result } from "./result.ts";
import type { Row, RowReader } from "./rows.ts";
import type { CustomTypes } from "./types/index.ts";
import { prepareValue } from "./values.ts";

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- several results come as an array, as in pg
export type QueryCallback = (error: Error | null | undefined, result?: any) => void;

/** A query as an object. */
export interface QueryConfig {
  text?: string | undefined;
  values?: unknown[] | undefined;
  /** Prepares the statement under this name, once per client. */
  name?: string | undefined;
  rowMode?: "array" | undefined;
  types?: CustomTypes | undefined;
  binary?: boolean | undefined;
  /** Uses the extended query protocol even without values. A text is then one statement. */
  queryMode?: "extended" | undefined;
  /** Maximum number of rows of one Execute. */
  rows?: number | undefined;
  portal?: string | undefined;
  callback?: QueryCallback | undefined;
  /** Milliseconds after which the call fails with `Query read timeout`. */
  query_timeout?: number | undefined;
}

/** A query whose rows are arrays. */
export type QueryArrayConfig = QueryConfig & { rowMode: "array" };

/**
 * Returns a copy of what a query reads, so that the caller's object does not change. Getters run on that object: those
 * of a class may read private members, as in the driver's `sql`.
 */
export function normalizeQueryConfig(config: string | QueryConfig, values?: unknown, callback?: unknown): QueryConfig {
  const copy: QueryConfig =
    typeof config === "string"
      ? { text: config }
      : Object.fromEntries(MEMBERS.filter((name) => name in config).map((name) => [name, config[name]]));
  if (typeof values === "function") copy.callback = values as QueryCallback;
  else if (values) copy.values = values as unknown[];
  if (callback) copy.callback = callback as QueryCallback;
  return copy;
}

/** What a query reads of its configuration. */
const MEMBERS = Object.keys({
  text: true,
  values: true,
  name: true,
  rowMode: true,
  types: true,
  binary: true,
  queryMode: true,
  rows: true,
  portal: true,
  callback: true,
  query_timeout: true,
} satisfies Record<keyof QueryConfig, true>) as (keyof QueryConfig)[];

export class Query extends EventEmitter implements RowTaker {
  static {
    Object.defineProperty(this, "name", { value: "Query" });
  }

  text: string | undefined;
  values: unknown[] | undefined;
  rows: number | undefined;
  types: CustomTypes | undefined;
  name: string | undefined;
  queryMode: "extended" | undefined;
  binary: boolean | undefined;
  portal: string;
  callback: QueryCallback | undefined;
  reader: RowReader | undefined;
  _result: Result;
  _results: Result | Result[];
  readonly _rowMode: "array" | undefined;
  /** An error that a parser threw. The remaining messages are read and dropped, and the query fails at its end. */
  _canceledDueToError: Error | undefined;
  #accumulates = true;
  #emits = false;

  constructor(config: string | QueryConfig, values?: unknown, callback?: unknown) {
    super();
    const {
      text,
      values: given,
      rows,
      types,
      name,
      queryMode,
      binary,
      portal,
      callback: called,
      rowMode,
    } = normalizeQueryConfig(config, values, callback);
    this.text = text;
    this.values = given;
    this.rows = rows;
    this.types = types;
    this.name = name;
    this.queryMode = queryMode;
    this.binary = binary;
    this.portal = portal ?? "";
    this.callback = called;
    this._rowMode = rowMode;
    this._result = new Result(rowMode, types);
    this._results = this._result;
  }

  /** Whether the query needs the extended query protocol. */
  requiresPreparation(): boolean {
    if (this.queryMode === "extended" || this.name || this.rows) return true;
    return Boolean(this.text && this.values?.length);
  }

  // -- what is sent ---------------------------------------------------------------------------------------------------

  /** Sends the query. Returns an error if it cannot be sent. */
  submit(connection: Connection): Error | null {
    const { text, name, values } = this;
    if (typeof text !== "string" && typeof name !== "string")
      return new Error("A query must have either text or a name. Supplying neither is unsupported.");
    const known = this.#knownText(connection);
    if (text && known && text !== known)
      return new Error(`Prepared statements must be unique - '${name}' was used for a different statement`);
    if (values && !Array.isArray(values)) return new Error("Query values must be an array");
    if (this.requiresPreparation()) this.#prepare(connection, known !== undefined);
    else connection.query(text!);
    return null;
  }

  #knownText({ parsedStatements, submittedNamedStatements }: Connection): string | undefined {
    if (!this.name) return undefined;
    return parsedStatements[this.name] ?? submittedNamedStatements[this.name];
  }

  #prepare(connection: Connection, isKnown: boolean): void {
    const { name, portal } = this;
    const text = this.text ?? "";
    if (!isKnown) {
      connection.parse({ text, name, types: this.types });
      if (name) connection.submittedNamedStatements[name] = text;
    }
    try {
      connection.bind({ portal, statement: name, values: this.values, binary: this.binary, valueMapper: prepareValue });
    } catch (error) {
      // Nothing runs. The query fails at ReadyForQuery, and the next query may use the name.
      this._canceledDueToError = error as Error;
      if (name) delete connection.submittedNamedStatements[name];
      connection.close({ type: "S", name });
      return connection.sync();
    }
    connection.describe({ type: "P", name: portal });
    this.#execute(connection);
  }

  #execute(connection: Connection): void {
    connection.execute({ portal: this.portal, rows: this.rows });
    if (this.rows) connection.flush();
    else connection.sync();
  }

  // -- what comes back ------------------------------------------------------------------------------------------------

  handleRowDescription({ fields }: { fields: FieldDef[] }): void {
    this.#nextResult();
    this._result.addFields(fields);
    this.reader = readerOf(this._result);
    this.#emits = this.listenerCount("row") > 0;
    this.#accumulates = this.callback !== undefined || !this.#emits;
  }

  /** Takes a row directly from the socket's bytes. */
  takeRow(bytes: Buffer, ascii: string, at: number, end: number): void {
    if (this._canceledDueToError) return;
    try {
      const row = this.reader!.read(bytes, ascii, at, end);
      if (this.#accumulates) this._result.rows.push(row);
      if (this.#emits) this.#emitRow(row);
    } catch (error) {
      if (error instanceof MalformedMessage) throw error;
      this._canceledDueToError = error as Error;
    }
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    if (this._canceledDueToError) return;
    let row: Row;
    try {
      row = this._result.parseRow(fields);
    } catch (error) {
      this._canceledDueToError = error as Error;
      return;
    }
    if (this.#emits) this.#emitRow(row);
    if (this.#accumulates) this._result.addRow(row);
  }

  /** Emits a row. An error that a listener throws is not the query's. */
  #emitRow(row: Row): void {
    try {
      this.emit("row", row, this._result);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  handleCommandComplete(message: { text: string }, connection: Connection): void {
    this.#nextResult();
    this._result.addCommandComplete(message);
    // For a portal that was read in parts, no Sync has been sent yet.
    if (this.rows) connection.sync();
  }

  /** Starts a new result when a statement of the same text is already complete. The results are then an array. */
  #nextResult(): void {
    if (!this._result.command) return;
    if (!Array.isArray(this._results)) this._results = [this._result];
    this._result = new Result(this._rowMode, this._result._types);
    this._results.push(this._result);
  }

  handlePortalSuspended(connection: Connection): void {
    this.#execute(connection);
  }

  handleEmptyQuery(connection: Connection): void {
    if (this.rows) connection.sync();
  }

  handleError(error: Error, _connection?: Connection): void {
    const first = this._canceledDueToError ?? error;
    this._canceledDueToError = undefined;
    if (this.callback) return this.callback(first);
    this.emit("error", first);
  }

  handleReadyForQuery(connection: Connection): void {
    if (this._canceledDueToError) return this.handleError(this._canceledDueToError, connection);
    if (this.callback) {
      try {
        this.callback(null, this._results);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    this.emit("end", this._results);
  }

  handleCopyInResponse(connection: Connection): void {
    connection.sendCopyFail("No source stream defined");
  }

  handleCopyData(): void {}
}
