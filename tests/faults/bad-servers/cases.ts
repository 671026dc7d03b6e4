// The required reaction of the driver to each bad server.
import { authenticationCases } from "./authentication-cases.ts";
import type { BadServerCase } from "./case.ts";
import { connectingCases } from "./connecting-cases.ts";
import { firstRunCases } from "./first-run-cases.ts";
import { statementCases } from "./statement-cases.ts";
import { transactionCases } from "./transaction-cases.ts";

export const badServerCases: BadServerCase[] = [
  ...connectingCases,
  ...authenticationCases,
  ...statementCases,
  ...firstRunCases,
  ...transactionCases,
];
