// Servers that misbehave at the begin and the end of transactions: BEGIN before a first run, COMMIT after the last
// statement.
import * as wire from "../../support/wire.mjs";
import { failing, onExecute, shutdown, thereupon } from "./parts.mjs";

/** COMMIT, as a Query or after a statement, without the ReadyForQuery that follows. */
const onCommit = (reply) => ({
  transaction: (io, message, honest, session) => {
    if (message.name === "Execute" && session.portals.get("").statement.sql === "COMMIT")
      return reply(honest, io, message, session);
    if (message.name !== "Query") return honest;
    const replies = reply(honest.slice(0, -1), io, message, session);
    session.failed = false;
    return session.thereupon ? replies : [...replies, wire.readyForQuery(session.status)];
  },
});
const commitEnds = (end) => onCommit((_honest, io, _message, session) => thereupon(session, [], () => io[end]()));
const inFront = (message) => (honest) => [message, ...honest];

export const transactions = {
  "BEGIN fails": failing("Execute", "transaction", { C: "25006", M: "no transaction here" }),
  "BEGIN returns a row": onExecute(inFront(wire.dataRow([wire.int32(1)])), "transaction"),
  "BEGIN is not answered": onExecute(() => [], "transaction"),
  "BEGIN begins nothing": onExecute((honest, _io, _message, session) => {
    session.status = "I";
    return honest;
  }, "transaction"),
  "COMMIT fails": onCommit((_honest, _io, _message, session) => session.fail({ C: "23505", M: "duplicate key" })),
  "COMMIT rolls back": onCommit(() => [wire.commandComplete("ROLLBACK")]),
  "COMMIT returns a row": onCommit(inFront(wire.dataRow([wire.int32(1)]))),
  "COMMIT is followed by ReadyForQuery alone": onCommit(() => []),
  "FATAL in COMMIT": onCommit((_honest, io, _message, session) => thereupon(session, [shutdown()], () => io.close())),
  "FIN in COMMIT": commitEnds("close"),
  "RST in COMMIT": commitEnds("reset"),
  "FIN between COMMIT and ReadyForQuery": onCommit((honest, io, _message, session) =>
    thereupon(session, honest, () => io.close()),
  ),
};
