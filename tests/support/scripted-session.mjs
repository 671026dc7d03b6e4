// What the scripted server says on a connection, from the first message to Terminate. `io` is the connection that it
// speaks on (scripted-server.mjs); a scenario may replace single steps.
import { authenticate, greet } from "./scripted-login.mjs";
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
  if (!(await (io.scenario.authenticate ?? authenticate)(io))) return;
  await (io.scenario.greet ?? greet)(io);
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

/** Simple and extended query until Terminate. Answers leave at Sync, Flush and Query, as a server's do. */
async function queries(io) {
  const session = { statements: new Map(), portals: new Map(), failed: false, honest: false, thereupon: null };
  let answers = [];
  for (let message = await io.next(); message; message = await io.next()) {
    if (message.name === "Terminate") {
      io.report.sessionBytes = io.report.sent;
      io.report.sessionRecords = io.report.records;
      return io.close();
    }
    if (session.failed && message.name !== "Sync") continue;
    const honest = await answer(io, session, message);
    // The scenario is for one statement: the one that is asked afterwards finds an honest server.
    if (message.name === "Parse" && message.body.includes("select 42 as answer")) session.honest = true;
    const changed = (!session.honest && (await io.scenario.answer?.(io, message, honest, session))) || honest;
    answers.push(...changed);
    const { thereupon } = session;
    if (!thereupon && message.name !== "Sync" && message.name !== "Flush" && message.name !== "Query") continue;
    await io.send(...answers);
    answers = [];
    session.thereupon = null;
    await thereupon?.();
  }
}

/** What an honest server replies to one message. */
async function answer(io, session, { name, body }) {
  const reader = new wire.BodyReader(body);
  const { statements, portals } = session;
  const fail = (code, text) => {
    session.failed = true;
    return [wire.errorResponse({ S: "ERROR", V: "ERROR", C: code, M: text })];
  };
  switch (name) {
    case "Parse": {
      const [statementName, sql] = [reader.cstring(), reader.cstring()];
      const statement = find(sql);
      if (!statement) return fail("42601", `the scripted server does not know this statement: ${sql}`);
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
      const statement = find(reader.cstring());
      if (!statement) session.failed = true;
      const replies = statement
        ? [
            wire.rowDescription(statement.columns),
            ...(await execute(io, session, { statement, formats: [], values: [] })),
          ]
        : fail("42601", "the scripted server does not know this statement");
      session.failed = false;
      return [...replies, wire.readyForQuery()];
    }
    case "Sync":
      session.failed = false;
      return [wire.readyForQuery()];
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

async function execute(io, session, { statement, formats, values }) {
  const { rows, error, hangs, tag } = statement.run(values);
  const replies = rows.map((row) => wire.dataRow(row.map((value, i) => statement.encode(i, formats[i] ?? 0, value))));
  if (hangs) {
    await io.cancellation();
    session.failed = true;
    return [wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceling statement due to user request" })];
  }
  if (error) session.failed = true;
  return [
    ...replies,
    error
      ? wire.errorResponse({ S: "ERROR", V: "ERROR", ...error })
      : wire.commandComplete(tag ?? `SELECT ${rows.length}`),
  ];
}
