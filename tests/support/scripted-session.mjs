// The scripted server's side of a connection, from the first message to Terminate. `io` is the connection
// (scripted-server.mjs). A scenario may replace single steps, and the answers to messages by their role: `statement`,
// `check` (of that statement), `transaction` and `catalog` are the roles of scripted-statements.mjs.
import { authenticate, greet, trust } from "./scripted-login.mjs";
import { find } from "./scripted-statements.mjs";
import * as wire from "./wire.mjs";

/** The whole life of an honest connection, with the steps that a scenario may replace. */
export async function converse(io) {
  const first = await opening(io);
  if (!first) return;
  if (first.name === "CancelRequest") return cancelRequest(io, first);
  io.report.kind = "main";
  io.report.version = first.version;
  io.report.startup = wire.startupParameters(first.body);
  const login = io.scenario.authenticate ?? (io.plan.fault.trust ? trust : authenticate);
  if (!(await login(io))) return;
  await (io.scenario.greet ?? greet)(io);
  io.report.loginBytes = io.report.sent;
  io.report.loginRecords = io.report.records;
  await queries(io);
}

/** StartupMessage or CancelRequest, past any SSLRequest. */
async function opening(io) {
  for (let message = await io.next(); message; message = await io.next()) {
    if (message.name !== "SSLRequest" && message.name !== "GSSENCRequest") return message;
    const answer =
      io.scenario.sslRequest ??
      (io.plan.fault.tls ? (each) => each.acceptTls() : (each) => each.send(Buffer.from("N")));
    if (message.name === "GSSENCRequest") await io.send(Buffer.from("N"));
    else await answer(io);
  }
  return null;
}

async function cancelRequest(io, { body }) {
  io.report.kind = "cancel";
  io.report.cancelKey = body.toString("hex");
  io.plan.cancel(body);
  if (!io.plan.fault.holdCancel) io.close();
  else await io.hang();
}

/** Simple and extended queries until Terminate. Answers are sent at Sync, Flush and Query, as by a real server. */
async function queries(io) {
  const session = new Session(io.report.committed);
  let answers = [];
  for (let message = await io.next(), upcoming; message; message = upcoming ?? (await io.next())) {
    if (message.name === "Terminate") {
      io.report.sessionBytes = io.report.sent;
      io.report.sessionRecords = io.report.records;
      return io.close();
    }
    // A first run begins with Close of the previous one. That Close has the role of the message after it.
    upcoming = beginsFirstRun(message) ? await io.next() : undefined;
    if (session.failed && message.name !== "Sync") continue;
    const role = session.roleOf(upcoming ?? message);
    const honest = await answer(io, session, message);
    answers.push(...((await io.scenario[role]?.(io, message, honest, session)) || honest));
    const { thereupon } = session;
    if (!thereupon && message.name !== "Sync" && message.name !== "Flush" && message.name !== "Query") continue;
    await io.send(...answers);
    answers = [];
    session.thereupon = null;
    await thereupon?.();
  }
}

function beginsFirstRun({ name, body }) {
  return name === "Close" && new wire.BodyReader(body.subarray(1)).cstring() === "pgz_first_run";
}

/** The session's state between two messages. */
class Session {
  statements = new Map();
  portals = new Map();
  /** Set while messages are skipped until Sync. */
  failed = false;
  /** The transaction status, as in ReadyForQuery. */
  status = "I";
  /** The rows that INSERT has put into the ledger, and those of them that are committed. */
  #uncommitted = [];
  #committed;
  /** The function of a scenario that runs after the answers have been sent. */
  thereupon = null;
  /** The role of the last message's statement. Sync has the same role. */
  #role = "other";
  /** The role of the statement that was parsed last; a check after it belongs to it. */
  #parsed = "other";

  constructor(committed) {
    this.#committed = committed;
  }

  write(entry) {
    this.#uncommitted.push(entry);
  }
  commit() {
    this.#committed.push(...this.#uncommitted.splice(0));
  }
  rollBack() {
    this.#uncommitted = [];
  }
  /** Ends an implicit transaction. */
  sync() {
    this.failed = false;
    if (this.status === "I") this.commit();
  }

  /** Returns the message's role. Must be called before the message is answered, because Close forgets its statement. */
  roleOf({ name, body }) {
    const role = this.#statementOf(name, new wire.BodyReader(body))?.role ?? this.#role;
    if (name === "Parse" && role !== "check") this.#parsed = role;
    this.#role = role === "check" && this.#parsed !== "statement" ? "other" : role;
    return this.#role;
  }

  #statementOf(name, reader) {
    if (name === "Query") return find(reader.cstring());
    if (name === "Parse") return (reader.cstring(), find(reader.cstring()));
    if (name === "Bind") return (reader.cstring(), this.statements.get(reader.cstring()));
    if (name === "Execute") return this.portals.get(reader.cstring())?.statement;
    if (name !== "Describe" && name !== "Close") return undefined;
    const isStatement = String.fromCharCode(reader.byte()) === "S";
    const target = reader.cstring();
    return isStatement ? this.statements.get(target) : this.portals.get(target)?.statement;
  }

  /** Returns an ErrorResponse, and changes the session as an error does. */
  fail(fields) {
    this.failed = true;
    this.rollBack();
    if (this.status === "T") this.status = "E";
    return [wire.errorResponse({ S: "ERROR", V: "ERROR", ...fields })];
  }
}

/** Returns an honest server's reply to one message. */
async function answer(io, session, { name, body }) {
  const reader = new wire.BodyReader(body);
  const { statements, portals } = session;
  const fail = (C, M) => session.fail({ C, M });
  switch (name) {
    case "Parse": {
      const [statementName, sql] = [reader.cstring(), reader.cstring()];
      const statement = find(sql);
      if (!statement) return fail("42601", `the scripted server does not know this statement: ${sql}`);
      if (session.status === "E" && !statement.ends) return fail("25P02", "current transaction is aborted");
      if (statementName !== "" && statements.has(statementName))
        return fail("42P05", `prepared statement "${statementName}" already exists`);
      statements.set(statementName, statement);
      return [wire.parseComplete()];
    }
    case "Describe": {
      const [kind, target] = [String.fromCharCode(reader.byte()), reader.cstring()];
      const portal = kind === "P" ? portals.get(target) : { statement: statements.get(target), formats: [] };
      if (!portal?.statement) return fail(kind === "P" ? "34000" : "26000", `"${target}" does not exist`);
      const { columns, parameterTypes } = portal.statement;
      const rows = columns.length > 0 ? wire.rowDescription(columns, portal.formats) : wire.noData();
      return kind === "S" ? [wire.parameterDescription(parameterTypes), rows] : [rows];
    }
    case "Bind": {
      const given = wire.bind(body);
      const statement = statements.get(given.preparedStatement);
      if (!statement) return fail("26000", `prepared statement "${given.preparedStatement}" does not exist`);
      if (given.values.length !== statement.parameterTypes.length) return fail("08P01", "wrong number of parameters");
      const code = (codes, i) => (codes.length === 1 ? codes[0] : (codes[i] ?? 0));
      const formats = statement.columns.map((_, i) => code(given.resultFormatCodes, i));
      const values = given.values.map((value, i) => ({
        value,
        oid: statement.parameterTypes[i],
        format: code(given.parameterFormatCodes, i),
      }));
      portals.set(given.destinationPortal, { statement, formats, values });
      return [wire.bindComplete()];
    }
    case "Execute": {
      const portal = portals.get(reader.cstring());
      if (!portal) return fail("34000", "portal does not exist");
      return execute(io, session, portal);
    }
    case "Close": {
      const kind = String.fromCharCode(reader.byte());
      (kind === "S" ? statements : portals).delete(reader.cstring());
      return [wire.closeComplete()];
    }
    case "Query": {
      const replies = await simpleQuery(io, session, find(reader.cstring()));
      session.sync();
      return [...replies, wire.readyForQuery(session.status)];
    }
    case "Sync":
      session.sync();
      return [wire.readyForQuery(session.status)];
    case "Flush":
      return [];
    case "PasswordMessage":
    case "FunctionCall":
    case "CopyData":
    case "CopyDone":
    case "CopyFail":
      return [];
    default:
      throw new Error(`the driver sent ${name} here`);
  }
}

async function simpleQuery(io, session, statement) {
  if (!statement) return session.fail({ C: "42601", M: "the scripted server does not know this statement" });
  if (session.status === "E" && !statement.ends)
    return session.fail({ C: "25P02", M: "current transaction is aborted" });
  const description = statement.columns.length > 0 ? [wire.rowDescription(statement.columns)] : [];
  return [...description, ...(await execute(io, session, { statement, formats: [], values: [] }))];
}

async function execute(io, session, { statement, formats, values }) {
  const { rows, error, hangs, tag } = statement.run(values, session);
  const replies = rows.map((row) => wire.dataRow(row.map((value, i) => statement.encode(i, formats[i] ?? 0, value))));
  if (hangs) {
    await io.cancellation();
    return session.fail({ C: "57014", M: "canceling statement due to user request" });
  }
  return [...replies, ...(error ? session.fail(error) : [wire.commandComplete(tag ?? `SELECT ${rows.length}`)])];
}
