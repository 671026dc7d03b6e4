// All integration cases, gathered from the files beside this one.
import { differing, type Case } from "../context.ts";
import { batch } from "./batch.ts";
import { cancel } from "./cancel.ts";
import { caps } from "./caps.ts";
import { channels } from "./channels.ts";
import { connecting } from "./connecting.ts";
import { copy } from "./copy.ts";
import { copyRows } from "./copy-rows.ts";
import { cursor } from "./cursor.ts";
import { endMarks } from "./end-marks.ts";
import { errors } from "./errors.ts";
import { firstRuns } from "./first-runs.ts";
import { formats } from "./formats.ts";
import { listen } from "./listen.ts";
import { lostTransactions } from "./lost-transactions.ts";
import { observer } from "./observer.ts";
import { parameters } from "./parameters.ts";
import { pools } from "./pools.ts";
import { query } from "./query.ts";
import { retries } from "./retries.ts";
import { rows } from "./rows.ts";
import { scopes } from "./scopes.ts";
import { seeds } from "./seeds.ts";
import { security } from "./security.ts";
import { statements } from "./statements.ts";
import { stream } from "./stream.ts";
import { together } from "./together.ts";
import { transactionEnds } from "./transaction-ends.ts";
import { transactions } from "./transactions.ts";
import { types } from "./types.ts";
import { usage } from "./usage.ts";

export const cases: Case[] = [
  ...differing(["sockets", "tls", "crypto"], connecting),
  ...query,
  ...rows,
  ...differing(["streams"], stream),
  ...formats,
  ...endMarks,
  ...differing(["sockets", "timers"], cancel),
  ...together,
  ...caps,
  ...types,
  ...firstRuns,
  ...usage,
  ...differing(["engine"], errors),
  ...observer,
  ...differing(["modules"], channels),
  ...statements,
  ...cursor,
  ...transactions,
  ...transactionEnds,
  ...differing(["sockets"], lostTransactions),
  ...retries,
  ...scopes,
  ...batch,
  ...differing(["streams", "text"], copy),
  ...copyRows,
  ...listen,
  ...security,
  ...seeds,
  ...parameters,
  ...pools,
];
