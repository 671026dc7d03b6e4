// Servers that misbehave in ways that only a first run can meet: its check, text that is not a valid value, and types
// that are looked up.
//
// The messages of a first run are Close n, Parse n, Describe n, check: Parse Bind Execute, Bind, Execute, Sync.
import * as wire from "../../support/wire.mjs";
import {
  checkFails,
  divisionByZero,
  failing,
  failingAtTheEnd,
  on,
  onExecute,
  parameterDescription,
  rowDescription,
  shutdown,
  text,
  thereupon,
  together,
} from "./parts.mjs";

const INT4 = 23;
const nothing = () => [];
const twice = (honest) => [...honest, ...honest];
const ready = () => [wire.readyForQuery()];
const inFront = (message) => (honest) => [message, ...honest];

/** The steps of a first run in order, at which errors and ReadyForQuery may arrive. */
const STEPS = {
  CloseComplete: ["Close", "statement"],
  ParseComplete: ["Parse", "statement"],
  ParameterDescription: ["Describe", "statement"],
  "the check's ParseComplete": ["Parse", "check"],
  "the check's BindComplete": ["Bind", "check"],
  "the check's CommandComplete": ["Execute", "check"],
  BindComplete: ["Bind", "statement"],
  "the first row": ["Execute", "statement"],
};
const atEachStep = (what, make) =>
  Object.fromEntries(Object.entries(STEPS).map(([step, [name, role]]) => [`${what} ${step}`, make(name, role)]));

/** The first column has another type, and its only value is this text. */
const valueOf = (oid, value) =>
  together(
    rowDescription(() =>
      wire.rowDescription([
        { name: "n", oid },
        { name: "label", oid: 25 },
      ]),
    ),
    onExecute(() => [wire.dataRow([text(value), text("seven")]), wire.commandComplete("SELECT 1")]),
  );

const badValues = Object.fromEntries(
  Object.entries({
    "int4 abc": [INT4, "abc"],
    "timestamptz with a zone's name": [1184, "2024-01-01 00:00:00 Mars"],
    "int4[] that does not end": [1007, "{1,2"],
    "text that is no UTF-8": [25, "\xff\xfe"],
    "json cut short": [114, '{"a":'],
    "jsonb cut short": [3802, '{"a":'],
  }).map(([name, [oid, value]]) => [`a text that is no value: ${name}`, valueOf(oid, value)]),
);

const catalogAnswers = (json) =>
  on(
    "Query",
    () => [
      wire.rowDescription([{ name: "json_agg", oid: 114 }]),
      wire.dataRow([text(json)]),
      wire.commandComplete("SELECT 1"),
      wire.readyForQuery(),
    ],
    "catalog",
  );
const catalogFails = (C) =>
  on(
    "Query",
    () => [wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no such catalog" }), wire.readyForQuery()],
    "catalog",
  );
const catalogEnds = (end) =>
  on(
    "Query",
    (honest, io, _message, session) => thereupon(session, [honest[0], honest[1].subarray(0, 20)], () => io[end]()),
    "catalog",
  );

export const firstRuns = {
  // The check
  "the check fails for settings": checkFails("pgz-edge: settings 0ISO, MDYpostgres"),
  "the check fails for types": checkFails("pgz-edge: types"),
  "the check fails, and the words are another's": failing("Execute", "check", {
    C: "XX000",
    M: "no such setting",
  }),
  "the check fails without SQLSTATE": on(
    "Execute",
    (_honest, _io, _message, session) => {
      session.fail({});
      return [wire.errorResponse({ S: "ERROR", M: "no code" })];
    },
    "check",
  ),
  "the check lacks memory": failing("Execute", "check", { C: "53200", M: "out of memory" }),
  "the check is cancelled": failing("Execute", "check", { C: "57014", M: "canceling statement due to user request" }),
  "the check meets a conflict": failing("Execute", "check", { C: "40001", M: "could not serialize access" }),
  "Close fails, and the server runs on": on("Close", () => [
    wire.errorResponse({ S: "ERROR", C: "08P01", M: "found an unknown message type on the wire" }),
  ]),
  "the check fails, and the server runs on": {
    check: () => [wire.errorResponse({ S: "ERROR", C: "42883", M: "no such function" })],
  },
  "the check returns a row": onExecute(inFront(wire.dataRow([wire.int32(1)])), "check"),
  "the check has a RowDescription": onExecute(
    inFront(wire.rowDescription([{ name: "int4", oid: INT4, size: 4 }])),
    "check",
  ),
  "the check has NoData": onExecute(inFront(wire.noData()), "check"),
  "the check is empty": onExecute(() => [wire.emptyQueryResponse()], "check"),
  "the check is suspended": onExecute(() => [wire.message("s")], "check"),
  "the check's ParseComplete missing": on("Parse", nothing, "check"),
  "the check's BindComplete missing": on("Bind", nothing, "check"),
  "the check's CommandComplete missing": onExecute(nothing, "check"),
  "the check's CommandComplete twice": onExecute(twice, "check"),

  // The order of messages
  ...atEachStep("an error in place of", (name, role) => failing(name, role)),
  ...atEachStep("FATAL in place of", (name, role) =>
    on(name, (_honest, io, _message, session) => thereupon(session, [shutdown()], () => io.close()), role),
  ),
  ...atEachStep("ReadyForQuery in place of", (name, role) => on(name, ready, role)),
  "an error behind ParameterDescription": on("Describe", ([first], _io, _message, session) => [
    first,
    ...session.fail(divisionByZero),
  ]),
  "an error behind the rows": failingAtTheEnd,
  "an error behind CloseComplete": on("Close", (honest, _io, _message, session) => [
    ...honest,
    ...session.fail(divisionByZero),
  ]),
  "DataRow before BindComplete": on("Bind", inFront(wire.dataRow([text("7"), text("seven")]))),
  "RowDescription twice": on("Describe", ([parameters, columns]) => [parameters, columns, columns]),
  "RowDescription of the portal too": on("Bind", (honest) => [
    ...honest,
    wire.rowDescription([
      { name: "n", oid: INT4 },
      { name: "label", oid: 25 },
    ]),
  ]),
  "RowDescription before ParameterDescription": on("Describe", ([parameters, columns]) => [columns, parameters]),
  "ParameterDescription alone": on("Describe", ([parameters]) => [parameters]),
  "ParameterDescription missing": on("Describe", ([, columns]) => [columns]),
  "NoData, and then rows": on("Describe", ([parameters]) => [parameters, wire.noData()]),
  "CloseComplete missing": on("Close", nothing),
  "CloseComplete twice": on("Close", twice),
  "CloseComplete before CommandComplete": onExecute((honest) => [
    ...honest.slice(0, -1),
    wire.closeComplete(),
    ...honest.slice(-1),
  ]),
  "EmptyQueryResponse behind rows": onExecute((honest) => [...honest.slice(0, -1), wire.emptyQueryResponse()]),

  // The contents of the description
  "ParameterDescription with more parameters": parameterDescription(wire.parameterDescription([INT4, INT4])),
  "ParameterDescription with fewer parameters": parameterDescription(wire.parameterDescription([])),
  "RowDescription with binary formats": rowDescription((honest) => wire.message("T", binaryFormats(honest))),
  "rows in binary though text was asked": onExecute(() => [
    wire.dataRow([wire.int32(7), text("seven")]),
    wire.commandComplete("SELECT 1"),
  ]),
  ...badValues,

  // Types of columns that must be looked up
  "the check fails for types of columns": {},
  "FIN in the catalog's answer": catalogEnds("close"),
  "RST in the catalog's answer": catalogEnds("reset"),
  "the catalog is not there": catalogFails("42P01"),
  "the catalog is locked": catalogFails("55P03"),
  "the catalog's answer is no JSON": catalogAnswers("what"),
  "the catalog says another thing": catalogAnswers('[[16400,"c","pair",[23],["a"]]]'),
  "the catalog says nothing": catalogAnswers("null"),
};

/** The same columns, each described as binary. */
function binaryFormats(honest) {
  const body = Buffer.from(honest.subarray(5));
  for (let at = 2, column = body.readInt16BE(0); column > 0; column--) {
    at = body.indexOf(0, at) + 1 + 18;
    body.writeInt16BE(1, at - 2);
  }
  return body;
}
