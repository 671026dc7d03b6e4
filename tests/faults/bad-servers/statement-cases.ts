// The errors that the driver must report for the bad servers of statements.mjs, whichever way the statement is asked.
import { WAYS } from "../jobs.ts";
import { fine, firstRuns, inQuery, lost, protocol, unexpected, type BadServerCase } from "./case.ts";

/** In the second way, the first run is between two others. */
const ways = ["described", "together"] as const;
const mortal = { ...lost, ways };
const survived = { again: "same connection", ways } as const;
/** Some scenarios of each kind are asked in every way. */
const everywhere = { ...lost, ways: WAYS };

export const statementCases: BadServerCase[] = [
  // Frames
  inQuery("length 0 in a query", protocol, { ...everywhere, differs: "sockets" }), // it closes its socket at once
  inQuery("length 3 in a query", protocol, mortal),
  inQuery("length -1 in a query", protocol, mortal),
  inQuery("unknown message type", protocol, mortal),
  inQuery("oversized message", "MESSAGE_TOO_LARGE", {
    ...mortal,
    differs: "sockets",
    // Loopback alone buffers some megabytes before a writer notices that they are not read.
    check: (_outcome, { sent }) =>
      sent > 32 << 20 && `the driver took ${sent} bytes of a message that it has to refuse by its header`,
  }),
  inQuery("error and FIN in a query", "57P01", { ...everywhere, name: "PostgresError", differs: "sockets" }),

  // Descriptions
  inQuery("ParameterDescription with count -1", protocol, mortal),
  inQuery("ParameterDescription cut short", protocol, mortal),
  inQuery("ParameterDescription with trailing bytes", protocol, mortal),
  inQuery("RowDescription with count -1", protocol, mortal), // uncaught in pg
  inQuery("RowDescription cut short", protocol, everywhere),
  inQuery("RowDescription without NUL", protocol, mortal),
  inQuery("RowDescription with trailing bytes", protocol, mortal),
  inQuery("RowDescription with format code 9", /^(PROTOCOL_VIOLATION|SHAPE_CHANGED)$/, mortal),
  // Only a statement that was described gets a RowDescription of the portal.
  fine("RowDescription of the portal has another column", {
    ways: ["described"],
    check: ({ steps }) =>
      steps["query"]?.text !== JSON.stringify([{ n: 7, label: "seven", more: "newly there" }]) &&
      `rows ${steps["query"]?.text}`,
  }),
  inQuery("no RowDescription", unexpected, { ...lost, ways: ["described", "described stream", "last"] }),

  // Rows
  inQuery("row with a field of length -2", protocol, mortal), // NULL for libpq, pg and postgres.js, CVE-2026-4427
  inQuery("row with a field of length -2147483648", protocol, mortal),
  inQuery("row with a field past its end", protocol, mortal), // pg gives the next messages as data, CVE-2026-32286
  inQuery("row with a huge field", protocol, mortal), // CVE-2025-12818, CVE-2026-6477
  inQuery("row with fewer fields", protocol, everywhere), // RUSTSEC-2026-0178
  inQuery("row with more fields", protocol, mortal),
  inQuery("row with trailing bytes", protocol, mortal),
  inQuery("row with -1 fields", protocol, mortal),
  inQuery("row with an empty body", protocol, mortal),
  inQuery("row with one byte", protocol, mortal),
  inQuery("row cut in a length", protocol, mortal),
  // A first run continues to its end, so that the error can say that the statement has run.
  // RUSTSEC-2026-0180
  inQuery("row whose int4 has 3 bytes", "INVALID_VALUE", {
    ...mortal,
    otherwise: { together: { again: "same connection" } },
  }),
  inQuery("row after good rows is bad", protocol, everywhere),

  // The order of messages
  inQuery("BindComplete missing", unexpected, everywhere),
  inQuery("BindComplete twice", unexpected, mortal),
  inQuery("ParseComplete missing", unexpected, mortal),
  inQuery("DataRow after CommandComplete", unexpected, mortal),
  inQuery("CommandComplete twice", unexpected, everywhere),
  inQuery("CommandComplete without NUL", protocol, mortal),
  inQuery("CommandComplete missing", unexpected, mortal),
  inQuery("ReadyForQuery with status X", protocol, everywhere),
  inQuery("ReadyForQuery without status", protocol, mortal),
  inQuery("ReadyForQuery with two bytes", protocol, mortal),
  inQuery("AuthenticationOk in a query", unexpected, mortal),
  inQuery("BackendKeyData in a query", unexpected, mortal),
  inQuery("PortalSuspended", unexpected, mortal),
  // A first run is never a COPY.
  ...["CopyInResponse", "CopyOutResponse"].flatMap((scenario) => [
    inQuery(scenario, "COPY_NEEDS_COPY_CALL", { ways: ["described"], again: "same connection", name: "UsageError" }),
    inQuery(scenario, unexpected, { ...lost, ways: firstRuns }),
  ]),
  inQuery("CopyBothResponse", /^(UNEXPECTED_MESSAGE|PROTOCOL_VIOLATION)$/, mortal),
  inQuery("CopyData without CopyOutResponse", unexpected, mortal),
  inQuery("FunctionCallResponse", /^(UNEXPECTED_MESSAGE|PROTOCOL_VIOLATION)$/, mortal),
  inQuery("NotificationResponse without NUL", protocol, mortal),
  inQuery("ParameterStatus without NUL", protocol, mortal),
  inQuery("error in the middle of the rows", "22012", { ...survived, ways: WAYS, name: "PostgresError" }),

  // The end of the connection
  inQuery("FIN in a row", "CONNECTION_LOST", everywhere),
  inQuery("RST in a row", "CONNECTION_LOST", everywhere),
  inQuery("FIN between CommandComplete and ReadyForQuery", "CONNECTION_LOST", everywhere),
];
