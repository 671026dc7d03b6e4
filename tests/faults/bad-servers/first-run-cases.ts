// The errors that the driver must report for the bad servers of first-runs.mjs.
import { fine, inQuery, lost, rejected, unexpected, type BadServerCase } from "./case.ts";

/** `together` is a first run between two others: it must behave as it does alone, and the others must not suffer. */
const alike = { ways: ["together"] } as const;
const ends = { ...lost, ...alike };
const survives = { again: "same connection", ...alike } as const;

const steps = [
  "CloseComplete",
  "ParseComplete",
  "ParameterDescription",
  "the check's ParseComplete",
  "the check's BindComplete",
  "the check's CommandComplete",
  "BindComplete",
  "the first row",
];
/** When the error of the check or Bind has stopped everything, the statement runs as described. */
const runsAgain = (step: string) => step.startsWith("the check's") || step === "BindComplete";

const scriptedRows = JSON.stringify([
  { n: 1, label: "one" },
  { n: 2, label: null },
  { n: 3, label: 'three "quoted"' },
]);
const withRows = {
  check: ({ steps: { query } }: Parameters<NonNullable<BadServerCase["check"]>>[0]) =>
    query?.text !== scriptedRows && `rows ${query?.text}`,
};

/**
 * Texts of each kind that are no value: src/types/from_text/tests has those that each type refuses. JSON.parse refuses
 * json, at the end of the result.
 */
const values: BadServerCase[] = [
  ...[
    "int4 abc",
    "timestamptz with a zone's name",
    "int4[] that does not end",
    "json cut short",
    "jsonb cut short",
  ].map((name) =>
    inQuery(`a text that is no value: ${name}`, "INVALID_VALUE", { again: "same connection", name: "ProtocolError" }),
  ),
  // The same happens in binary.
  fine("a text that is no value: text that is no UTF-8", {
    differs: "text",
    check: ({ steps: { query } }) =>
      query?.text !== JSON.stringify([{ n: "\ufffd\ufffd", label: "seven" }]) && `rows ${query?.text}`,
  }),
];

const pairs = { of: "pairs" } as const;
const pairsAsText = JSON.stringify([{ pair: '(1,"one")' }, { pair: null }, { pair: '(3,"three, four")' }]);
const withPairs: Pick<BadServerCase, "check"> = {
  check: ({ steps: { query } }) =>
    query?.text !== '[{"pair":{"a":1,"b":"one"}},{"pair":null},{"pair":{"a":3,"b":"three, four"}}]' &&
    `rows ${query?.text}`,
};
const withText: Pick<BadServerCase, "check"> = {
  check: ({ steps: { query } }) => query?.text !== pairsAsText && `rows ${query?.text}`,
};

export const firstRunCases: BadServerCase[] = [
  // The check
  fine("the check fails for settings", { ...alike, ...withRows }),
  fine("the check fails for types", { ...alike, ...withRows }),
  fine("the check fails, and the words are another's", { ...alike, ...withRows }),
  fine("the check fails without SQLSTATE", { ...alike, ...withRows }),
  inQuery("the check lacks memory", "53200", { ...survives, name: "PostgresError" }),
  inQuery("the check is cancelled", "57014", { ...survives, name: "PostgresError" }),
  inQuery("the check meets a conflict", "40001", { ...survives, name: "PostgresError", retryable: true }),
  // As immudb and the router of SPQR answer: the statement may have run.
  inQuery("Close fails, and the server runs on", unexpected, ends),
  inQuery("the check fails, and the server runs on", unexpected, ends),
  inQuery("the check returns a row", unexpected, ends),
  inQuery("the check has a RowDescription", unexpected, ends),
  inQuery("the check has NoData", unexpected, ends),
  inQuery("the check is empty", unexpected, ends),
  inQuery("the check is suspended", unexpected, ends),
  inQuery("the check's ParseComplete missing", unexpected, ends),
  inQuery("the check's BindComplete missing", unexpected, ends),
  inQuery("the check's CommandComplete missing", unexpected, ends),
  inQuery("the check's CommandComplete twice", unexpected, ends),

  // The order of messages
  ...steps.map((step) =>
    runsAgain(step)
      ? fine(`an error in place of ${step}`, { ...alike, ...withRows })
      : inQuery(`an error in place of ${step}`, "22012", { ...survives, name: "PostgresError" }),
  ),
  // In place of the first response, this error ends a session that had not begun the statement: the calls run again on
  // another session.
  ...steps.map((step) =>
    step === "CloseComplete"
      ? fine(`FATAL in place of ${step}`, { ...ends, ...withRows })
      : inQuery(`FATAL in place of ${step}`, "57P01", { ...ends, name: "PostgresError" }),
  ),
  ...steps.map((step) => inQuery(`ReadyForQuery in place of ${step}`, unexpected, ends)),
  inQuery("an error behind ParameterDescription", "22012", survives),
  inQuery("an error behind the rows", "22012", survives),
  inQuery("an error behind CloseComplete", "22012", survives),
  inQuery("DataRow before BindComplete", unexpected, ends),
  inQuery("RowDescription twice", unexpected, ends),
  inQuery("RowDescription of the portal too", unexpected, ends),
  inQuery("RowDescription before ParameterDescription", unexpected, ends),
  inQuery("ParameterDescription alone", unexpected, ends),
  inQuery("ParameterDescription missing", unexpected, ends),
  inQuery("NoData, and then rows", unexpected, ends),
  inQuery("CloseComplete missing", unexpected, ends),
  inQuery("CloseComplete twice", unexpected, ends),
  inQuery("CloseComplete before CommandComplete", unexpected, ends),
  inQuery("EmptyQueryResponse behind rows", unexpected, ends),

  // The contents of the description
  inQuery("ParameterDescription with more parameters", unexpected, lost),
  inQuery("ParameterDescription with fewer parameters", unexpected, lost),
  inQuery("RowDescription with binary formats", "INVALID_VALUE", { again: "same connection" }),
  inQuery("rows in binary though text was asked", "INVALID_VALUE", { again: "same connection" }),
  ...values,

  // Types of columns that must be looked up
  fine("the check fails for types of columns", { ...pairs, ...alike, ...withPairs }),
  inQuery("FIN in the catalog's answer", rejected, { ...pairs, ...lost }),
  inQuery("RST in the catalog's answer", rejected, { ...pairs, ...lost }),
  inQuery("the catalog is locked", "55P03", { ...pairs, ...survives }),
  fine("the catalog is not there", { ...pairs, ...alike, ...withText }),
  fine("the catalog's answer is no JSON", { ...pairs, ...alike, ...withText }),
  fine("the catalog says nothing", { ...pairs, ...alike, ...withText }),
  inQuery("the catalog says another thing", "SHAPE_CHANGED", { ...pairs, ...survives }),
];
