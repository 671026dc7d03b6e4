// The servers that are no PostgreSQL, what each of them cannot do, and the table of docs/servers.md that says so.
//
// What is not listed here works, and a line that is listed must fail with that code: so the table holds in both
// directions.
import { startH2 } from "../servers/h2.mjs";
import type { OtherServer } from "../servers/others.mjs";
import { startPglite } from "../servers/pglite.mjs";
import { startQuestDb } from "../servers/questdb.mjs";
import { features, type Dialect } from "./features.ts";

export interface Server {
  readonly name: string;
  readonly start: (options: { log: string }) => Promise<OtherServer>;
  readonly dialect: Dialect;
  /** By the name of a feature: the code that its call rejects with; several, with "or", where the moment decides. */
  readonly fails: Readonly<Record<string, string>>;
}

export const h2: Server = {
  name: "H2 2.5.252",
  start: startH2,
  dialect: {
    series: (count) => `select cast("X" as int) as n from system_range(1, ${count})`,
    slow: `select count(*) as n from system_range(1, 100000) a, system_range(1, 100000) b where a."X" + b."X" < 0`,
    fails: `select 1 / ("X" - 1) as boom from system_range(1, 3)`,
    cast: (type) => `cast($1 as ${type.replace("[]", " array")})`,
  },
  fails: {
    "connecting with default options": "AUTH_CLEARTEXT_REFUSED",
    "`bytea`": "INVALID_PARAMETER",
    "`json`": "INVALID_PARAMETER",
    "`int4[]`": "22018",
    "a syntax error is `42601`": "PROTOCOL_VIOLATION",
    "a table that is not there is `42P01`": "PROTOCOL_VIOLATION",
    "the connection outlives an error": "CONNECTION_LOST",
    "`listen`": "42000",
    "`copyTo`": "42001",
    "`copyFromRows`": "42001",
  },
};

export const questDb: Server = {
  name: "QuestDB 9.3.4",
  start: startQuestDb,
  dialect: {
    series: (count) => `select cast(x as int) as n from long_sequence(${count})`,
    slow: "select count(*) from long_sequence(1000000) a cross join long_sequence(1000000) b where a.x + b.x < 0",
    fails: "select to_timestamp('x', 'y', 'z')",
    // It takes a parameter for a number where nothing but a cast says what it is.
    cast: (type) => `cast(cast($1 as varchar) as ${type})`,
    // A date is a timestamp there, and a timestamp has no zone.
    back: { date: "2024-01-02T00:00:00", "timestamp with time zone": "2024-01-02T03:04:05.678" },
  },
  fails: {
    "connecting with default options": "AUTH_CLEARTEXT_REFUSED",
    "protocol 3.2": "CONNECTION_LOST",
    "`numeric`": "00000",
    "`time`": "00000",
    "`bytea`": "INVALID_PARAMETER",
    "`json`": "00000",
    "`int4[]`": "00000",
    "a syntax error is `42601`": "00000",
    "a table that is not there is `42P01`": "00000",
    "`listen`": "00000",
    "`copyTo`": "00000",
    "cancel, by `timeout`": "CONNECTION_LOST",
    "`copyFromRows`": "00000",
  },
};

export const pglite: Server = {
  name: "pglite-socket 0.2.17",
  start: startPglite,
  dialect: {
    series: (count) => `select n from generate_series(1, ${count}) as n`,
    slow: "select pg_sleep(3)",
    fails: "select 1 / (n - 1) as boom from generate_series(1, 3) as n",
  },
  fails: {
    "protocol 3.2": "CONNECT_TIMEOUT",
    // Both end by themselves where all has arrived before the cancel has left.
    "a stream that is left early": "yes or CONNECTION_LOST",
    "`maxRows`": "yes or CONNECTION_LOST",
    "`listen`": "nothing comes",
    "cancel, by `timeout`": "CONNECTION_LOST",
    "`copyFromRows`": "08P01 or CONNECTION_LOST",
  },
};

export const servers = [h2, questDb, pglite];

/** The table as docs/servers.md has it. */
export function tableOf(): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  return [
    line(["", ...servers.map(({ name }) => name)]),
    line(Array<string>(servers.length + 1).fill("---")).replaceAll(" ", ""),
    ...Object.keys(features).map((feature) =>
      line([feature, ...servers.map(({ fails }) => cellOf(fails[feature] ?? "yes"))]),
    ),
  ].join("");
}

function cellOf(outcomes: string): string {
  const text = `\`${outcomes.replace(" or ", "` or `")}\``;
  return outcomes.startsWith("yes") ? text.replace("`yes`", "yes") : `no: ${text}`;
}
