// Prisma's contract for a driver adapter: the part of @prisma/driver-adapter-utils 7 that this adapter implements.
//
// Types, and the numbers of column kinds. They are here so that an application needs no package of Prisma's besides its
// client. In tests/adapters/prisma.test.ts the compiler compares them with Prisma's own.

/** The kinds of columns, with Prisma's numbers. */
export const ColumnKind = {
  Int32: 0,
  Int64: 1,
  Float: 2,
  Double: 3,
  Numeric: 4,
  Boolean: 5,
  Text: 7,
  Date: 8,
  Time: 9,
  DateTime: 10,
  Json: 11,
  Bytes: 13,
  Uuid: 15,
  Int32Array: 64,
  Int64Array: 65,
  FloatArray: 66,
  DoubleArray: 67,
  NumericArray: 68,
  BooleanArray: 69,
  CharacterArray: 70,
  TextArray: 71,
  DateArray: 72,
  TimeArray: 73,
  DateTimeArray: 74,
  JsonArray: 75,
  BytesArray: 77,
  UuidArray: 78,
} as const;

export type ColumnType = (typeof ColumnKind)[keyof typeof ColumnKind];

/** The type of a parameter, as far as Prisma knows it. */
export interface ArgType {
  readonly scalarType: string;
  readonly dbType?: string;
  readonly arity: "scalar" | "list";
}

export interface SqlQuery {
  readonly sql: string;
  readonly args: readonly unknown[];
  readonly argTypes: readonly ArgType[];
}

export interface SqlResultSet {
  columnTypes: ColumnType[];
  columnNames: string[];
  rows: unknown[][];
}

export interface SqlQueryable {
  readonly provider: "postgres";
  readonly adapterName: string;
  queryRaw(query: SqlQuery): Promise<SqlResultSet>;
  executeRaw(query: SqlQuery): Promise<number>;
}

export type IsolationLevel = "READ UNCOMMITTED" | "READ COMMITTED" | "REPEATABLE READ" | "SNAPSHOT" | "SERIALIZABLE";

export interface SqlTransaction extends SqlQueryable {
  readonly options: { readonly usePhantomQuery: boolean };
  commit(): Promise<void>;
  rollback(): Promise<void>;
  createSavepoint(name: string): Promise<void>;
  rollbackToSavepoint(name: string): Promise<void>;
  releaseSavepoint(name: string): Promise<void>;
}

export interface ConnectionInfo {
  schemaName?: string;
  supportsRelationJoins: boolean;
}

/** The object to which Prisma's client sends its statements. */
export interface SqlDriverAdapter extends SqlQueryable {
  executeScript(script: string): Promise<void>;
  startTransaction(isolationLevel?: IsolationLevel): Promise<SqlTransaction>;
  getConnectionInfo(): ConnectionInfo;
  dispose(): Promise<void>;
}

/** The violated constraint, as far as the server names it. */
export type Constraint = { fields: string[] } | { index: string };

/** The errors that Prisma has codes for, and `postgres` for all other errors of the server. */
export type MappedError = { originalCode?: string; originalMessage?: string } & (
  | { kind: "LengthMismatch"; column?: string }
  | { kind: "ValueOutOfRange"; cause: string }
  | { kind: "InvalidInputValue"; message: string }
  | { kind: "UniqueConstraintViolation"; constraint?: Constraint; table?: string }
  | { kind: "NullConstraintViolation"; constraint?: Constraint }
  | { kind: "ForeignKeyConstraintViolation"; constraint?: Constraint }
  | { kind: "RestrictViolation"; constraint?: Constraint }
  | { kind: "InvalidIsolationLevel"; level: string }
  | { kind: "DatabaseNotReachable"; host?: string; port?: number }
  | { kind: "DatabaseDoesNotExist"; db?: string }
  | { kind: "DatabaseAlreadyExists"; db?: string }
  | { kind: "DatabaseAccessDenied"; db?: string }
  | { kind: "AuthenticationFailed"; user?: string }
  | { kind: "ConnectionClosed" }
  | { kind: "TlsConnectionError"; reason: string }
  | { kind: "SocketTimeout" }
  | { kind: "TooManyConnections"; cause: string }
  | { kind: "TransactionWriteConflict" }
  | { kind: "TransactionAlreadyClosed"; cause: string }
  | { kind: "TableDoesNotExist"; table?: string }
  | { kind: "ColumnNotFound"; column?: string }
  | {
      kind: "postgres";
      code: string;
      severity: string;
      message: string;
      detail: string | undefined;
      column: string | undefined;
      hint: string | undefined;
    }
);
