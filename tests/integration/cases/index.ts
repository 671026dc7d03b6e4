// All integration cases, gathered from the files beside this one.
import { casesOf, type Case } from "../context.ts";
import { batch } from "./batch.ts";
import { cancel } from "./cancel.ts";
import { caps } from "./caps.ts";
import { changedColumns } from "./changed-columns.ts";
import { channels } from "./channels.ts";
import { conditional } from "./conditional.ts";
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
import { poolLeftovers } from "./pool-leftovers.ts";
import { pools } from "./pools.ts";
import { query } from "./query.ts";
import { retries } from "./retries.ts";
import { rows } from "./rows.ts";
import { scopes } from "./scopes.ts";
import { security } from "./security.ts";
import { statements } from "./statements.ts";
import { stream } from "./stream.ts";
import { together } from "./together.ts";
import { transactionEnds } from "./transaction-ends.ts";
import { transactions } from "./transactions.ts";
import { types } from "./types.ts";
import { unnest } from "./unnest.ts";
import { usage } from "./usage.ts";

export const cases: Case[] = [
  ...casesOf(connecting, { differs: ["sockets", "tls", "crypto"] }),
  ...casesOf(query),
  ...casesOf(rows),
  ...casesOf(stream, { differs: ["streams"] }),
  ...casesOf(formats),
  ...casesOf(conditional),
  ...casesOf(endMarks),
  ...casesOf(cancel, { differs: ["sockets", "timers"] }),
  ...casesOf(together),
  ...casesOf(caps),
  ...casesOf(types),
  ...casesOf(unnest),
  ...casesOf(firstRuns),
  ...casesOf(changedColumns),
  ...casesOf(usage),
  ...casesOf(errors, { differs: ["engine"] }),
  ...casesOf(observer),
  ...casesOf(channels, { differs: ["modules"] }),
  ...casesOf(statements),
  ...casesOf(cursor),
  ...casesOf(transactions),
  ...casesOf(transactionEnds),
  ...casesOf(lostTransactions, { differs: ["sockets"] }),
  ...casesOf(retries),
  ...casesOf(scopes),
  ...casesOf(batch),
  ...casesOf(copy, { differs: ["streams", "text"] }),
  ...casesOf(copyRows),
  ...casesOf(listen),
  ...casesOf(security, { only: "plain" }),
  ...casesOf(parameters),
  ...casesOf(pools),
  ...casesOf(poolLeftovers),
];
