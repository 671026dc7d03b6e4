// Bad servers that begin and end transactions: BEGIN and SAVEPOINT in front of a first run, COMMIT behind the last
// statement.
import * as wire from "../../support/wire.mjs";
import { failing, on, onExecute, shutdown, thereupon } from "./parts.mjs";

const onCommit = (reply) => on("Query", reply, "transaction");
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
  "COMMIT fails": onCommit(() => [
    wire.errorResponse({ S: "ERROR", V: "ERROR", C: "23505", M: "duplicate key" }),
    wire.readyForQuery(),
  ]),
  "COMMIT rolls back": onCommit(() => [wire.commandComplete("ROLLBACK"), wire.readyForQuery()]),
  "COMMIT returns a row": onCommit(inFront(wire.dataRow([wire.int32(1)]))),
  "COMMIT is followed by ReadyForQuery alone": onCommit(() => [wire.readyForQuery()]),
  "FATAL in COMMIT": onCommit((_honest, io, _message, session) => thereupon(session, [shutdown()], () => io.close())),
  "FIN in COMMIT": commitEnds("close"),
  "RST in COMMIT": commitEnds("reset"),
  "FIN between COMMIT and ReadyForQuery": onCommit(([complete], io, _message, session) =>
    thereupon(session, [complete], () => io.close()),
  ),
};
