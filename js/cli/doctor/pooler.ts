// Finds out whether there is a pooler in front of the server, of which kind it is, and what that means for named
// statements and sessions.
//
// Knows the signs: a process id that is not the server's own, one server process that serves two clients in turn, and
// what some poolers say about themselves. Must not know the driver's own guess, which asks no questions.
import { PgzError, type Client, type ConnectEvent } from "../../index.ts";
import { leave } from "../connect.ts";
import { change, good, note, unknown, type Finding } from "./findings.ts";
import type { Login, Patient } from "./patient.ts";
import type { Server } from "./server.ts";
import { GT } from "../../util/operators.ts";

/** The largest process id on Linux. */
const LARGEST_PROCESS_ID = 1 << 22;

type Mode = "session" | "transaction" | "statement";

export async function pooler(patient: Patient, login: Login, { name, isPostgres }: Server): Promise<Finding[]> {
  if (!isPostgres) return [unknown("pooler", "Pooler", `${name} has no process ids to tell it by`)];
  const processIds = [login.processId ?? 0];
  const observer = { onConnect: ({ processId = 0 }: ConnectEvent) => void processIds.push(processId) };
  const [a, b] = [patient.client({ observer }), patient.client({ observer })];
  try {
    const shared = await serversAreShared(patient, a, b);
    if (shared === undefined)
      return [unknown("pooler", "Pooler", "two connections at once could not be asked for their process ids")];
    if (name === "PGlite")
      return [
        note("pooler", "Pooler", "none, but all clients share one session", { kind: "none", mode: null }, SHARED),
      ];
    // pgpool-II answers this statement itself, in messages that the driver refuses. To a server it is an unknown
    // setting.
    const pgpool = await patient.firstValue("show pool_version");
    if (pgpool !== undefined) return [pgpoolFinding(pgpool)];
    const isMadeUp = hasMadeUp(processIds);
    const isPooled = shared || isMadeUp || (await isAnotherProcess(patient));
    if (!isPooled)
      return [
        good("pooler", "Pooler", "none", { kind: "none", mode: null }),
        good("prepared", "Prepared", "named statements work", { named: true }),
      ];
    const mode: Mode = !shared ? "session" : (await refusesTransactions(a)) ? "statement" : "transaction";
    return modeFindings(isMadeUp, mode, mode === "transaction" ? await tracksNames(patient) : mode === "session");
  } finally {
    await Promise.all([leave(a), leave(b)]);
  }
}

const SHARED =
  "Another client may see what SET, temporary tables and session locks leave: keep to transactions (docs/poolers.md).";

interface Process {
  readonly pid: number;
}
export const PROCESS = "select pg_catalog.pg_backend_pid() as pid";

/**
 * Whether two clients get the same server process while both are connected, or one client gets several processes. A
 * pooler gives the next statement the server connection that was released last.
 */
async function serversAreShared(patient: Patient, a: Client, b: Client): Promise<boolean | undefined> {
  const seen = [new Set<number>(), new Set<number>()] as const;
  for (let turn = 0; turn < 4; turn++)
    for (const [index, client] of [a, b].entries()) {
      const found = await patient.ask<Process>(client, PROCESS);
      if (!found) return undefined;
      seen[index]!.add(found.pid);
    }
  return seen[0].size > 1 || seen[1].size > 1 || [...seen[0]].some((pid) => seen[1].has(pid));
}

/**
 * Whether one of these process ids is made up, as PgBouncer's are: it gives each client a random number. One in 1,024
 * of them could be a real process id. That all three here could be real happens once in a thousand million
 * examinations.
 */
function hasMadeUp(processIds: readonly number[]): boolean {
  return processIds.some((processId) => processId > LARGEST_PROCESS_ID);
}

/** Whether the process id that the client was given differs from the one that the process itself reports. */
async function isAnotherProcess(patient: Patient): Promise<boolean> {
  let given: number | undefined;
  const client = patient.client({ observer: { onConnect: ({ processId }) => void (given = processId) } });
  try {
    const found = await patient.ask<Process>(client, PROCESS);
    return found !== undefined && given !== undefined && found.pid !== given;
  } finally {
    await leave(client);
  }
}

async function refusesTransactions(client: Client): Promise<boolean> {
  try {
    await client.transaction(async (tx) => void (await tx.query("select 1")));
    return false;
  } catch (error) {
    return error instanceof PgzError && /statement pooling/i.test(error.message);
  }
}

export const MARKED = "select 1 as pgz_edge_doctor";
export const NAMED = `select name from pg_catalog.pg_prepared_statements
  where pg_catalog.strpos(statement, 'pgz_edge_doctor') ${GT} 0`;

/** Whether the pooler tracks named statements: PgBouncer since 1.21 gives them names of its own. */
async function tracksNames(patient: Patient): Promise<boolean> {
  const client = patient.client({ prepare: "named" });
  try {
    return await client.transaction(async (tx) => {
      for (let run = 0; run < 3; run++) await tx.query(MARKED);
      const { rows } = await tx.query<{ name: string }>(NAMED);
      const areTracked = rows.some(({ name }) => /^PGBOUNCER_/i.test(name));
      // Leave nothing in a server process that other clients get. PgBouncer itself removes the statements that it has
      // named.
      if (!areTracked) await tx.simple(rows.map(({ name }) => deallocation(name)).join(" "));
      return areTracked;
    });
  } catch {
    return false;
  } finally {
    await leave(client);
  }
}

/** Behind a pooler another client of the same server process may have chosen the name. */
export function deallocation(name: string): string {
  return `deallocate "${name.replaceAll('"', '""')}";`;
}

function modeFindings(isPgBouncer: boolean, mode: Mode, named: boolean): Finding[] {
  const kind = isPgBouncer ? "PgBouncer, or one like it," : "a pooler";
  const text = `${kind} in ${mode} mode`;
  const facts = { kind: isPgBouncer ? "pgbouncer" : "other", mode };
  const found = (...advice: string[]) => note("pooler", "Pooler", text, facts, ...advice);
  if (mode === "session")
    return [
      found("For listen() set sessionPooling: true: each client keeps its server process."),
      good("prepared", "Prepared", "named statements work", { named }),
    ];
  if (mode === "statement")
    return [
      change("pooler", "Pooler", text, facts, "There are no transactions: set pool_mode = transaction."),
      note("prepared", "Prepared", "leave option prepare as it is (auto)", { named: false }),
    ];
  return [
    found(
      SHARED,
      "For settings of a tenant use client.scope or SET LOCAL; listen() needs a connection without the pooler.",
    ),
    named
      ? note(
          "prepared",
          "Prepared",
          "the pooler tracks named statements",
          { named },
          "Leave option prepare as it is (auto), or set \"named\" if no statement has literals such as 'today'.",
        )
      : note(
          "prepared",
          "Prepared",
          `named statements ${facts.kind === "pgbouncer" ? "do" : "may"} not work`,
          { named },
          'Set option prepare: "unnamed"; auto finds out too, except on one connection in a thousand.',
        ),
  ];
}

function pgpoolFinding(version: string): Finding {
  return note(
    "pooler",
    "Pooler",
    `pgpool-II ${version}`,
    { kind: "pgpool", mode: "session", version },
    "Lead this driver's clients to the primary (app_name_redirect_preference_list): docs/poolers.md has the settings.",
  );
}
