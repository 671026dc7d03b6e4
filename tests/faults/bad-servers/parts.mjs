// The parts of scenarios. A scenario replaces steps of the scripted server's honest conversation: `accept` (all of it),
// `sslRequest`, `authenticate`, `greet`, and the responses to single messages by their subject: `statement` (the
// statement under test), `check` (before its first run), `transaction` (BEGIN, COMMIT), `catalog` (the query
// for types).
//
// Runs in Node, on the first connection of a plan only; malformed messages are written with `raw`, which accepts any
// length. Must not know how the driver reacts.
import { authenticate, greet } from "../../support/scripted-login.mjs";
import * as wire from "../../support/wire.mjs";

export const text = (...parts) => Buffer.from(parts.join(""), "latin1");
export const letter = (bytes) => String.fromCharCode(bytes[0]);
export const fatal = (C, M) => wire.errorResponse({ S: "FATAL", V: "FATAL", C, M });
export const shutdown = () => fatal("57P01", "terminating connection due to administrator command");
export const notice = () => wire.noticeResponse({ S: "NOTICE", V: "NOTICE", C: "00000", M: "everywhere" });

// -- connecting ------------------------------------------------------------------------------------------------------

/** After the driver's first bytes, the server sends only these bytes, and then nothing (or ends the connection). */
export const instead = (bytes, end = false) => ({
  accept: async (io) => {
    io.report.kind = "main";
    await io.anyBytes();
    await io.send(bytes);
    if (end) io.close();
    await io.hang();
  },
});

export const afterStartup = (...messages) => ({
  authenticate: async (io) => {
    await io.send(...messages);
    await io.hang();
    return false;
  },
});

export const scram = (change) => ({ authenticate: (io) => authenticate(io, change) });

/** An event after the greeting, late enough that even a busy client has read the greeting. */
export function whileIdle(happens) {
  return {
    greet: async (io) => {
      await greet(io);
      await io.seconds(0.2);
      await happens(io);
    },
  };
}

// -- one message -----------------------------------------------------------------------------------------------------

/** Replaces the response to each message of this name whose subject is `role`. */
export const on = (name, reply, role = "statement") => ({
  [role]: (io, message, honest, session) => (message.name === name ? reply(honest, io, message, session) : honest),
});
export const onExecute = (reply, role) => on("Execute", reply, role);
export const after = (...extra) => onExecute((honest) => [...honest, ...extra]);

/** Sends the responses so far and then `replies` at once, and then calls `next`. */
export const thereupon = (session, replies, next) => {
  session.thereupon = next;
  return replies;
};

export const divisionByZero = { C: "22012", M: "division by zero" };

/** The server fails at this message, once, and skips to Sync. */
export const failing = (name, role, fields = divisionByZero) =>
  on(
    name,
    (honest, _io, _message, session) => {
      if (session.hasFailed) return honest;
      session.hasFailed = true;
      return session.fail(fields);
    },
    role,
  );

/** The check before the statement's first run fails, as PostgreSQL's cast of its reason does. */
export const checkFails = (reason) =>
  failing("Execute", "check", { C: "22P02", M: `invalid input syntax for type integer: "${reason}"` });

/** The statement fails after its rows. */
export const failingAtTheEnd = onExecute((honest, _io, _message, session) => [
  ...honest.slice(0, -1),
  ...session.fail(divisionByZero),
]);

// -- descriptions and rows -------------------------------------------------------------------------------------------

/** Replaces RowDescription, of the statement and of the portal alike. */
export const rowDescription = (reply) =>
  on("Describe", (honest) => honest.map((each) => (letter(each) === "T" ? reply(each) : each)));

/** Replaces ParameterDescription. */
export const parameterDescription = (reply) =>
  on("Describe", (honest) => honest.map((each) => (letter(each) === "t" ? reply : each)));

/**
 * Replaces the rows of a response: `reply(rows, cells)` returns the messages between RowDescription and
 * CommandComplete; `cells` are an int4 and a text, in the requested format.
 */
export const rows = (reply) =>
  onExecute((honest, _io, _message, session) => {
    const { statement, formats } = session.portals.get("");
    const cell = (i, value) => wire.cell(statement.encode(i, formats[i] ?? 0, value));
    return [...reply(honest.slice(0, -1), { int4: cell(0, 7), label: cell(1, "seven") }), ...honest.slice(-1)];
  });

export const row = (...parts) => wire.message("D", ...parts);

/** Combines several scenarios, each with responses of its own. */
export const together = (...scenarios) => {
  const roles = new Set(scenarios.flatMap((scenario) => Object.keys(scenario)));
  const chain = (role) => (io, message, honest, session) =>
    scenarios.reduce((answers, scenario) => scenario[role]?.(io, message, answers, session) ?? answers, honest);
  return Object.fromEntries([...roles].map((role) => [role, chain(role)]));
};
