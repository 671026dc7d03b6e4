// The errors that the driver must report for the bad servers of transactions.mjs: before the first statement of a
// transaction, after its last. The outcome of the transaction is reported only if the server has said
// it.
import type { PgzError } from "../../../js/index.ts";
import { inQuery, lost, rejected, unexpected, type BadServerCase } from "./case.ts";

const ways = ["begin", "last"] as const;
const survives = { ways, again: "same connection" } as const;
const ends = { ways, ...lost };
const lastIs = (transaction: PgzError["transaction"]): Pick<BadServerCase, "otherwise"> => ({
  otherwise: {
    last: {
      check: ({ steps: { query } }) =>
        query?.transaction !== transaction && `the transaction is said to be ${query?.transaction}`,
    },
  },
});

export const transactionCases: BadServerCase[] = [
  inQuery("BEGIN fails", "25006", { ...survives, name: "PostgresError" }),
  inQuery("BEGIN returns a row", unexpected, ends),
  inQuery("BEGIN is not answered", unexpected, ends),
  inQuery("BEGIN begins nothing", "TRANSACTION_FINISHED", survives),
  inQuery("COMMIT fails", "23505", { ...survives, ...lastIs("rolled back"), name: "PostgresError" }),
  inQuery("COMMIT rolls back", "TRANSACTION_ROLLED_BACK", { ...survives, ...lastIs("rolled back") }),
  inQuery("COMMIT returns a row", unexpected, { ...ends, ...lastIs("unknown") }),
  inQuery("COMMIT is followed by ReadyForQuery alone", unexpected, { ...ends, ...lastIs("unknown") }),
  // A pooler sends FATAL when its server is gone, and that server may have committed.
  inQuery("FATAL in COMMIT", "57P01", { ...ends, ...lastIs("unknown"), name: "PostgresError" }),
  inQuery("FIN in COMMIT", rejected, { ...ends, ...lastIs("unknown") }),
  inQuery("RST in COMMIT", rejected, { ...ends, ...lastIs("unknown") }),
  // The server has said that it committed.
  inQuery("FIN between COMMIT and ReadyForQuery", rejected, { ...ends, ...lastIs("committed") }),
];
