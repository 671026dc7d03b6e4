// The errors and notices of the server: SQLSTATE, text and fields as in PostgreSQL.
//
// Knows texts. Must not know when they are sent. `file`, `line` and `routine` are the model's own, because no check
// compares them.

export type Severity = "DEBUG1" | "LOG" | "INFO" | "NOTICE" | "WARNING" | "ERROR" | "FATAL" | "PANIC";

export interface ErrorFields {
  severity: Severity;
  code: string;
  message: string;
  detail?: string;
  hint?: string;
  position?: string;
  internalPosition?: string;
  internalQuery?: string;
  where?: string;
  schema?: string;
  table?: string;
  column?: string;
  dataType?: string;
  constraint?: string;
  file: string;
  line: string;
  routine: string;
}

/** More fields of an error. `at` is the position in the statement's text, from 0. */
type More = Partial<ErrorFields> & { at?: number | undefined };

/** PgError is thrown, but is not an Error: its place in the model tells nothing, and a stack takes time to collect. */
export class PgError {
  readonly fields: ErrorFields;

  constructor(code: string, message: string, { at, ...more }: More = {}) {
    this.fields = { severity: "ERROR", code, message, file: "model.c", line: "1", routine: "model", ...more };
    if (at !== undefined) this.fields.position = String(at + 1);
  }

  get message(): string {
    return this.fields.message;
  }

  get code(): string {
    return this.fields.code;
  }

  get isFatal(): boolean {
    return this.fields.severity === "FATAL";
  }
}

export const notice = (severity: Severity, code: string, message: string, more: More = {}): PgError =>
  new PgError(code, message, { severity, ...more });
export const warning = (code: string, message: string, more: More = {}): PgError =>
  notice("WARNING", code, message, more);
export const fatal = (code: string, message: string, more: More = {}): PgError =>
  new PgError(code, message, { severity: "FATAL", ...more });

// -- ends of a session ------------------------------------------------------------------------------------------------

export const terminated = (): PgError => fatal("57P01", "terminating connection due to administrator command");
export const crashed = (): PgError =>
  notice("WARNING", "57P02", "terminating connection because of crash of another server process", {
    detail:
      "The postmaster has commanded this server process to roll back the current transaction and exit, because " +
      "another server process exited abnormally and possibly corrupted shared memory.",
    hint: "In a moment you should be able to reconnect to the database and repeat your command.",
  });
export const idleInTransaction = (): PgError =>
  fatal("25P03", "terminating connection due to idle-in-transaction timeout");
export const transactionTimeout = (): PgError => fatal("25P04", "terminating connection due to transaction timeout");
export const idleSession = (): PgError => fatal("57P05", "terminating connection due to idle-session timeout");
export const startingUp = (): PgError => fatal("57P03", "the database system is starting up");
export const shuttingDown = (): PgError => fatal("57P03", "the database system is shutting down");
export const inRecovery = (): PgError => fatal("57P03", "the database system is in recovery mode");
export const tooManyClients = (): PgError => fatal("53300", "sorry, too many clients already");
export const tooManyOfRole = (role: string): PgError => fatal("53300", `too many connections for role "${role}"`);
export const noDatabase = (name: string): PgError => fatal("3D000", `database "${name}" does not exist`);
export const noRole = (role: string): PgError => fatal("28000", `role "${role}" does not exist`);
export const wrongPassword = (role: string): PgError =>
  fatal("28P01", `password authentication failed for user "${role}"`);

/** What a standby replays conflicts with a session. `isFatal`: no statement of the session runs. */
export const recoveryConflict = (code: "40001" | "40P01" | "57P04", isFatal: boolean): PgError =>
  isFatal
    ? fatal(code, "terminating connection due to conflict with recovery")
    : new PgError(code, "canceling statement due to conflict with recovery");

// -- of the protocol --------------------------------------------------------------------------------------------------

export const protocolViolation = (message: string): PgError => new PgError("08P01", message);
export const fatalViolation = (message: string): PgError => fatal("08P01", message);

export const noPreparedStatement = (name: string): PgError =>
  name === ""
    ? new PgError("26000", "unnamed prepared statement does not exist")
    : new PgError("26000", `prepared statement "${name}" does not exist`);
export const preparedStatementExists = (name: string): PgError =>
  new PgError("42P05", `prepared statement "${name}" already exists`);
export const noPortal = (name: string): PgError => new PgError("34000", `portal "${name}" does not exist`);
export const portalExists = (name: string): PgError => new PgError("42P03", `cursor "${name}" already exists`);
export const resultChanged = (): PgError => new PgError("0A000", "cached plan must not change result type");

// -- of running -------------------------------------------------------------------------------------------------------

export const queryCanceled = (): PgError => new PgError("57014", "canceling statement due to user request");
export const statementTimeout = (): PgError => new PgError("57014", "canceling statement due to statement timeout");
export const inFailedTransaction = (): PgError =>
  new PgError("25P02", "current transaction is aborted, commands ignored until end of transaction block");
export const onlyInBlocks = (what: string): PgError =>
  new PgError("25P01", `${what} can only be used in transaction blocks`);
export const notInBlocks = (what: string): PgError =>
  new PgError("25001", `${what} cannot run inside a transaction block`);
export const noTransaction = (): PgError => warning("25P01", "there is no transaction in progress");
export const alreadyInTransaction = (): PgError => warning("25001", "there is already a transaction in progress");
export const noSavepoint = (name: string): PgError => new PgError("3B001", `savepoint "${name}" does not exist`);
export const whileRecovering = (hint: string): PgError => new PgError("55000", "recovery is in progress", { hint });
export const readOnly = (what: string): PgError =>
  new PgError("25006", `cannot execute ${what} in a read-only transaction`);
export const serializationFailure = (): PgError =>
  new PgError("40001", "could not serialize access due to concurrent update");

// -- of names and types -----------------------------------------------------------------------------------------------

export const noTable = (name: string, at?: number): PgError =>
  new PgError("42P01", `relation "${name}" does not exist`, { at });
export const noColumn = (name: string, at?: number): PgError =>
  new PgError("42703", `column ${name.includes(".") ? name : `"${name}"`} does not exist`, { at });
export const noType = (name: string, at?: number): PgError =>
  new PgError("42704", `type "${name}" does not exist`, { at });
export const unknownParameter = (index: number): PgError =>
  new PgError("42P18", `could not determine data type of parameter $${index}`);
export const syntaxError = (near: string | undefined, at: number): PgError =>
  new PgError("42601", near === undefined ? "syntax error at end of input" : `syntax error at or near "${near}"`, {
    at,
  });
export const noSetting = (name: string): PgError =>
  new PgError("42704", `unrecognized configuration parameter "${name}"`);

// -- of values --------------------------------------------------------------------------------------------------------

export const invalidText = (type: string, text: string): PgError =>
  new PgError("22P02", `invalid input syntax for type ${type}: "${text}"`);
export const outOfRange = (type: string, text?: string): PgError =>
  text === undefined
    ? new PgError("22003", `${type} out of range`)
    : new PgError("22003", `value "${text}" is out of range for type ${type}`);
export const divisionByZero = (): PgError => new PgError("22012", "division by zero");
