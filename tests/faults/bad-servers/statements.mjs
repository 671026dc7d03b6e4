// Servers that misbehave while a statement runs: its description, its rows, the order of its messages, the end of the
// connection. These scenarios do not depend on how the statement is asked: described first, in a first run as text, or
// beside others.
import * as wire from "../../support/wire.mjs";
import {
  after,
  letter,
  on,
  onExecute,
  parameterDescription,
  row,
  rowDescription,
  rows,
  shutdown,
  text,
  thereupon,
} from "./parts.mjs";

const GIGABYTES_1_9 = 1_900_000_000;

/** A huge DataRow: its header, and 300 MB of body as long as the driver reads. */
const oversized = () =>
  onExecute((_honest, io, _message, session) => {
    const header = Buffer.concat([wire.raw("D", GIGABYTES_1_9), wire.int16(1), wire.int32(GIGABYTES_1_9 - 10)]);
    return thereupon(session, [header], async () => {
      const block = Buffer.alloc(1 << 20, "x");
      for (let i = 0; i < 300 && io.report.closedByDriver === "open"; i++) await io.send(block);
      await io.hang();
    });
  });

export const statements = {
  // Frames
  "length 0 in a query": onExecute(() => [wire.raw("D", 0)]),
  "length 3 in a query": onExecute(() => [wire.raw("D", 3)]),
  "length -1 in a query": onExecute(() => [wire.raw("D", -1)]),
  "unknown message type": onExecute(() => [wire.message("~", text("what"))]),
  "oversized message": oversized(),
  "error and FIN in a query": onExecute((_honest, io, _message, session) =>
    thereupon(session, [shutdown()], () => io.close()),
  ),

  // Descriptions
  "ParameterDescription with count -1": parameterDescription(wire.message("t", wire.int16(-1))),
  "ParameterDescription cut short": parameterDescription(wire.message("t", wire.int16(2), wire.int32(23))),
  "ParameterDescription with trailing bytes": parameterDescription(
    wire.message("t", wire.int16(1), wire.int32(23), text("x")),
  ),
  "RowDescription with count -1": rowDescription(() => wire.message("T", wire.int16(-1))),
  "RowDescription cut short": rowDescription((honest) => wire.message("T", honest.subarray(5, -5))),
  "RowDescription without NUL": rowDescription(() => wire.message("T", wire.int16(1), text("name without end"))),
  "RowDescription with trailing bytes": rowDescription((honest) => wire.message("T", honest.subarray(5), text("x"))),
  "RowDescription with format code 9": rowDescription(() =>
    wire.rowDescription(
      [
        { name: "n", oid: 23, size: 4 },
        { name: "label", oid: 25 },
      ],
      [9, 9],
    ),
  ),
  "RowDescription of the portal has another column": { statement: another },
  "no RowDescription": on("Describe", (honest, _io, { body }) => (body[0] === 0x53 ? honest : [])),

  // Rows
  "row with a field of length -2": rows((_honest, { label }) => [row(wire.int16(2), wire.int32(-2), label)]),
  "row with a field of length -2147483648": rows((_honest, { label }) => [
    row(wire.int16(2), wire.int32(-2147483648), label),
  ]),
  "row with a field past its end": rows((_honest, { int4 }) => [
    row(wire.int16(2), int4, wire.int32(1000), text("short")),
  ]),
  "row with a huge field": rows((_honest, { int4 }) => [
    row(wire.int16(2), int4, wire.int32(0x7fffffff), text("short")),
  ]),
  "row with fewer fields": rows((_honest, { int4 }) => [row(wire.int16(1), int4)]),
  "row with more fields": rows((_honest, { int4, label }) => [row(wire.int16(3), int4, label, label)]),
  "row with trailing bytes": rows((_honest, { int4, label }) => [row(wire.int16(2), int4, label, text("tail"))]),
  "row with -1 fields": rows(() => [row(wire.int16(-1))]),
  "row with an empty body": rows(() => [row()]),
  "row with one byte": rows(() => [row(Buffer.of(0))]),
  "row cut in a length": rows((_honest, { int4 }) => [row(wire.int16(2), int4, Buffer.from([0, 0]))]),
  "row whose int4 has 3 bytes": rows((_honest, { label }) => [row(wire.int16(2), wire.cell(text("abc")), label)]),
  "row after good rows is bad": rows((honest, { int4 }) => [...honest, row(wire.int16(1), int4)]),

  // The order of messages
  "BindComplete missing": on("Bind", () => []),
  "BindComplete twice": on("Bind", (honest) => [...honest, ...honest]),
  "ParseComplete missing": on("Parse", () => []),
  "DataRow after CommandComplete": after(wire.dataRow([wire.int32(1), text("x")])),
  "CommandComplete twice": after(wire.commandComplete("SELECT 1")),
  "CommandComplete without NUL": onExecute((honest) => [...honest.slice(0, -1), wire.message("C", text("SELECT 3"))]),
  "CommandComplete missing": onExecute((honest) => honest.slice(0, -1)),
  "ReadyForQuery with status X": on("Sync", () => [wire.readyForQuery("X")]),
  "ReadyForQuery without status": on("Sync", () => [wire.message("Z")]),
  "ReadyForQuery with two bytes": on("Sync", () => [wire.message("Z", text("II"))]),
  "AuthenticationOk in a query": after(wire.authenticationOk()),
  "BackendKeyData in a query": after(wire.backendKeyData(1, text("0123"))),
  PortalSuspended: onExecute((honest) => [...honest.slice(0, -1), wire.message("s")]),
  CopyInResponse: { statement: copyIn },
  CopyOutResponse: { statement: copyOut },
  CopyBothResponse: onExecute(() => [wire.message("W", Buffer.of(0), wire.int16(0))]),
  "CopyData without CopyOutResponse": onExecute(() => [wire.message("d", text("1\n"))]),
  FunctionCallResponse: onExecute(() => [wire.message("V", wire.int32(-1))]),
  "NotificationResponse without NUL": after(wire.message("A", wire.int32(1), text("channel"))),
  "ParameterStatus without NUL": after(wire.message("S", text("name"))),
  "error in the middle of the rows": onExecute((honest, _io, _message, session) => {
    return [...honest.slice(0, 2), ...session.fail({ C: "22012", M: "division by zero" })];
  }),

  // The end of the connection
  "FIN in a row": onExecute((honest, io, _message, session) =>
    thereupon(session, [honest[0].subarray(0, 9)], () => io.close()),
  ),
  "RST in a row": onExecute((honest, io, _message, session) =>
    thereupon(session, [honest[0].subarray(0, 9)], () => io.reset()),
  ),
  "FIN between CommandComplete and ReadyForQuery": onExecute((honest, io, _message, session) =>
    thereupon(session, honest, () => io.close()),
  ),
};

/** The statement has changed since it was described: its portal has one more column. */
function another(_io, { name, body }, honest) {
  if (name === "Describe" && body[0] === 0x50) {
    return [
      wire.rowDescription(
        [
          { name: "n", oid: 23, size: 4 },
          { name: "label", oid: 25 },
          { name: "more", oid: 25 },
        ],
        [1, 0, 0],
      ),
    ];
  }
  return name === "Execute"
    ? [wire.dataRow([wire.int32(7), text("seven"), text("newly there")]), wire.commandComplete("SELECT 1")]
    : honest;
}

/** A server for which the statement is COPY TO STDOUT. */
function copyOut(_io, { name }, honest) {
  if (name === "Describe") return honest.map((each) => (letter(each) === "T" ? wire.noData() : each));
  if (name !== "Execute") return honest;
  const response = wire.message("H", Buffer.of(0), wire.int16(1), wire.int16(0));
  return [
    response,
    wire.message("d", text("1\n")),
    wire.message("d", text("2\n")),
    wire.message("c"),
    wire.commandComplete("COPY 2"),
  ];
}

/**
 * A server for which the statement is COPY FROM STDIN. It ignores Sync until CopyFail, then skips to the next Sync, as
 * PostgreSQL does.
 */
function copyIn(_io, { name }, honest, session) {
  if (name === "Describe") return honest.map((each) => (letter(each) === "T" ? wire.noData() : each));
  if (name === "Execute") {
    session.copying = true;
    return thereupon(session, [wire.message("G", Buffer.of(0), wire.int16(1), wire.int16(0))], () => {});
  }
  if (!session.copying) return honest;
  if (name !== "CopyFail") return [];
  session.copying = false;
  return session.fail({ C: "57014", M: "COPY from stdin failed" });
}
