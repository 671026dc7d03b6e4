// A random session: rounds of calls that a seed draws, disturbed at random moments, and a model that knows the right
// result of each.
//
// What must hold in every session:
//   every call settles, with its right result or with an error that an event in its round explains
//   what was acknowledged is stored once, what was refused is not stored, and a group is stored whole or not at all
//   no error escapes to the process
//   in the end the client and the server's side are idle, and closing ends the connection
//
// The session is written once for all runtimes, so it uses web standards and no API of a runtime.
import type * as pgz from "../../js/index.ts";
import { callWhich } from "./calls.ts";
import { Dice } from "./dice.ts";
import { differences, ended, judged, tablesOf, within, worldOf } from "./judge.ts";
import { pause, type Disturbed, type Plan, type World } from "./plan.ts";
import { transaction, transactionInSql } from "./transactions.ts";

/** Where sessions run. */
export interface Place {
  readonly driver: typeof pgz;
  /** Connection options, to which the session adds some by its dice. */
  readonly options: pgz.Options;
  /** Runs SQL as superuser on the same server, over another connection. */
  side(sql: string): Promise<(string | null)[][]>;
  /** A name for schemas, unique to this place. */
  readonly name: string;
  /** Server connections are shared, so none is ended or inspected. */
  readonly isPooled?: boolean;
  /** See `World`. */
  readonly hasOwnBody: boolean;
}

export interface Report {
  readonly seed: number;
  readonly calls: number;
  /** The number of times a call or a round was disturbed. */
  readonly disturbed: number;
  readonly faults: string[];
  readonly script: string[];
}

/** Milliseconds within which each call must settle, whatever disturbs it. */
const DEADLINE = 10_000;

interface Entry {
  readonly plan: Plan;
  /** Milliseconds until the call's abort. */
  readonly abort: number | undefined;
  readonly timeout: number | undefined;
  /** The error with which the call must be refused, because of earlier calls in the same turn. */
  readonly refused: string | undefined;
}

interface Round {
  readonly entries: readonly Entry[];
  readonly together: boolean;
  /** A disturbance from another connection, `after` milliseconds after the first call. */
  readonly disturbance: { readonly kind: "terminate" | "cancel"; readonly after: number } | undefined;
  /** SQL that another connection runs before the round. */
  readonly before: string | undefined;
}

export async function runSession(place: Place, seed: number): Promise<Report> {
  return new Session(place, seed).run();
}

class Session {
  readonly #place: Place;
  readonly #seed: number;
  readonly #dice: Dice;
  readonly #world: World;
  readonly #options: pgz.Options;
  readonly #script: string[];
  readonly #faults: string[] = [];
  #client: pgz.Client | undefined;
  #processId = 0;
  #calls = 0;
  #disturbed = 0;

  constructor(place: Place, seed: number) {
    this.#place = place;
    this.#seed = seed;
    const dice = (this.#dice = new Dice(seed));
    const schema = `random_${place.name}_${seed}`;
    this.#world = worldOf(schema, place.driver.sql, place);
    const own: pgz.Options = {
      statementCacheSize: dice.pick([64, 64, 64, 0, 1, 3]),
      prepare: dice.pick(["auto", "auto", "named", "unnamed"] as const),
      firstRun: dice.pick(["text", "text", "describe"] as const),
      pipelining: dice.pick([100, 100, 100, 1, 2, 3]),
      flushInterval: dice.pick([100, 0]),
      flushBytes: dice.pick([65_536, 65_536, 1_000]),
    };
    // A name of its own keeps what the isolate learns separate, so a session runs the same among others and alone.
    this.#options = { ...place.options, ...own, applicationName: schema };
    if (place.isPooled) this.#options = { ...this.#options, prepare: "auto" };
    this.#script = [`options ${JSON.stringify(own)}`];
  }

  async run(): Promise<Report> {
    const rounds = Array.from({ length: 4 + this.#dice.below(10) }, () => this.#round());
    const { schema } = this.#world;
    try {
      await this.#place.side(
        `drop schema if exists ${schema} cascade; ${tablesOf(schema)}
         alter table ${schema}.shape owner to ${await this.#user()}`,
      );
      for (const [at, round] of rounds.entries()) {
        await this.#play(round, at);
        if (this.#faults.length) break;
      }
      await this.#end();
    } catch (error) {
      this.#faults.push(`the session itself: ${describe(error)}`);
    } finally {
      await this.#client?.close();
      await this.#place.side(`drop schema if exists ${schema} cascade`);
    }
    return {
      seed: this.#seed,
      calls: this.#calls,
      disturbed: this.#disturbed,
      faults: this.#faults,
      script: this.#script,
    };
  }

  // -- from the dice --------------------------------------------------------------------------------------------------

  #round(): Round {
    const dice = this.#dice;
    const world = this.#world;
    const kind = dice.below(10);
    const disturbs = dice.oneIn(3);
    // The outcome of disturbed DDL could not be determined.
    const quiet = !disturbs && !this.#place.isPooled;
    const fits = (plan: Plan) => quiet || plan.kind !== "quiet";
    const before = dice.oneIn(8) ? this.#fromBeside() : undefined;
    if (kind === 0 && quiet)
      return {
        entries: [entry(transactionInSql(dice, world))],
        together: false,
        disturbance: undefined,
        before,
      };
    const together = kind > 3;
    const inItsPlace = (plan: Plan) => fits(plan) && !(together && plan.hasSeveralTurns);
    const plan = () => {
      if (dice.oneIn(6)) return transaction(dice, world, fits);
      return callWhich(inItsPlace, dice, world);
    };
    let refused: string | undefined;
    const entries = Array.from({ length: together ? 2 + dice.below(6) : 1 + dice.below(3) }, (): Entry => {
      const { columns } = world;
      const made = plan();
      const isTransaction = made.kind === "transaction";
      const why = refused === "TRANSACTION_OPEN" && isTransaction ? undefined : refused;
      // A refused call changes nothing.
      if (why !== undefined) world.columns = columns;
      else if (together && made.streams) refused = "STREAM_OPEN";
      else if (together && isTransaction) refused = "TRANSACTION_OPEN";
      const abort = disturbs && dice.oneIn(4) ? dice.below(dice.pick([2, 15])) : undefined;
      const timeout = disturbs && dice.oneIn(6) ? 1 + dice.below(15) : undefined;
      return entry(made, abort, timeout, why);
    });
    const disturbance =
      disturbs && dice.oneIn(3)
        ? {
            kind: this.#place.isPooled ? ("cancel" as const) : dice.pick(["terminate", "cancel"] as const),
            after: dice.below(dice.pick([2, 20])),
          }
        : undefined;
    return { entries, together, disturbance: this.#place.isPooled ? undefined : disturbance, before };
  }

  /** DDL under cached statements. */
  #fromBeside(): string {
    const { columns, schema } = this.#world;
    const added = `s${++this.#world.number}`;
    this.#world.columns = [...columns, added];
    return `alter table ${schema}.shape add column ${added} ${this.#dice.pick(["int8", "jsonb"])}`;
  }

  // -- running --------------------------------------------------------------------------------------------------------

  async #play({ entries, together, disturbance, before }: Round, at: number): Promise<void> {
    const client = await this.#connected();
    if (before !== undefined) {
      this.#script.push(`round ${at}, from beside: ${before}`);
      await this.#place.side(before);
      // In a transaction the stale statement would be an error, since the server has no other way to report it.
      await client.query(`select * from ${this.#world.schema}.shape`);
    }
    const harm = disturbance ? `, ${disturbance.kind} after ${disturbance.after} ms` : "";
    const what = `${together ? ", together" : ""}${harm}`;
    this.#script.push(`round ${at}${what}`);
    const beside = disturbance && this.#disturb(disturbance);
    if (disturbance) this.#disturbed++;
    const running: Promise<void>[] = [];
    for (const one of entries) {
      const call = this.#run(client, one, disturbance?.kind);
      running.push(call);
      if (!together) await call;
    }
    await Promise.all(running);
    await beside;
    if (disturbance?.kind === "terminate") await this.#leave();
  }

  async #disturb({ kind, after }: NonNullable<Round["disturbance"]>): Promise<void> {
    await pause(after);
    const call = kind === "terminate" ? "pg_terminate_backend" : "pg_cancel_backend";
    await this.#place.side(`select ${call}(${this.#processId})`);
  }

  /** Never rejects: what is wrong becomes a fault of the session. */
  async #run(client: pgz.Client, { plan, abort, timeout, refused }: Entry, beside?: string): Promise<void> {
    const options: Disturbed = {};
    const marks: string[] = [];
    if (timeout !== undefined) marks.push(`timeout ${(options.timeout = timeout)}`);
    let timer;
    if (abort !== undefined) {
      const controller = new AbortController();
      options.signal = controller.signal;
      timer = setTimeout(() => controller.abort(), abort);
      marks.push(`abort after ${abort}`);
    }
    if (refused) marks.push(`to be refused: ${refused}`);
    this.#script.push(`    ${plan.says}${marks.length ? ` (${marks.join(", ")})` : ""}`);
    this.#calls++;
    if (marks.length) this.#disturbed++;
    const error = await ended(plan, client, options, this.#world.ledger, DEADLINE);
    clearTimeout(timer);
    this.#judge(plan, error, { abort, timeout, refused, beside });
  }

  #judge(plan: Plan, error: unknown, by: Causes): void {
    const { ledger } = this.#world;
    if (by.refused && error === undefined)
      return void this.#faults.push(`${plan.says}: was not refused with ${by.refused}`);
    const fault = judged(plan, ledger, error, (code) => explains(code, plan, by));
    if (fault !== undefined) this.#faults.push(`${plan.says}: ${fault}`);
    else if (by.refused) ledger.settle(plan.groups?.flat() ?? [], "absent");
  }

  // -- the connection -------------------------------------------------------------------------------------------------

  async #connected(): Promise<pgz.Client> {
    if (this.#client) return this.#client;
    const { driver, isPooled } = this.#place;
    const client = (this.#client = driver.createClient(this.#options));
    if (!isPooled) {
      const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
      this.#processId = rows[0]!.pid;
    }
    return client;
  }

  async #leave(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    if ((await within(DEADLINE, client!.close())) instanceof Error) this.#faults.push("close() did not settle");
  }

  async #user(): Promise<string> {
    const client = await this.#connected();
    return (await client.query<{ name: string }>("select current_user::text as name")).rows[0]!.name;
  }

  /** Checks that the client still works, both sides are idle, closing ends the connection, and the ledger holds. */
  async #end(): Promise<void> {
    if (!this.#faults.length) {
      const client = await this.#connected();
      const number = ++this.#world.number;
      // If a connection could not be freed in time after an abort, the client has replaced it by now.
      const { rows } = await client.query<{ n: number; pid: number }>(
        this.#world.sql`select ${number}::int4 as n, pg_backend_pid() as pid`,
      );
      this.#processId = rows[0]?.pid ?? 0;
      if (rows[0]?.n !== number) this.#faults.push("the last query has another's row");
      const { state, transactionStatus } = client.stats();
      if (state !== "idle" || transactionStatus !== "I")
        this.#faults.push(`in the end the client is ${state}, ${transactionStatus}`);
      await this.#serverIsIdle();
    }
    if (this.#client) await this.#leave();
    await this.#serverIsGone();
    const found = await this.#place.side(
      `select n, count(*) from ${this.#world.schema}.ledger where n is not null group by n`,
    );
    this.#faults.push(...differences(this.#world.ledger, found));
  }

  async #serverIsIdle(): Promise<void> {
    if (this.#place.isPooled) return;
    const look = `select state, backend_xid, (select count(*) from pg_locks l where l.pid = a.pid)
      from pg_stat_activity a where pid = ${this.#processId}`;
    const isIdle = ([row]: (string | null)[][]) => row?.[0] === "idle" && row[1] === null && row[2] === "0";
    await this.#until(look, isIdle, "the server's side is not idle");
  }

  /** Waits until no backend of this session writes any more. */
  async #serverIsGone(): Promise<void> {
    const look = `select pid, state, query from pg_stat_activity
      where application_name = '${this.#options.applicationName}' ${this.#place.isPooled ? "and state <> 'idle'" : ""}`;
    await this.#until(look, (rows) => rows.length === 0, "a backend is still there");
  }

  async #until(look: string, isSo: (rows: (string | null)[][]) => boolean, otherwise: string): Promise<void> {
    for (let tries = 0; ; tries++) {
      const rows = await this.#place.side(look);
      if (isSo(rows)) return;
      if (tries > 40) return void this.#faults.push(`${otherwise}: ${JSON.stringify(rows)}`);
      await pause(25 + 5 * tries);
    }
  }
}

const entry = (plan: Plan, abort?: number, timeout?: number, refused?: string): Entry => ({
  plan,
  abort,
  timeout,
  refused,
});

/** What may end a call: its own abort and timeout, a refusal, and a disturbance from another connection. */
interface Causes {
  abort: unknown;
  timeout: unknown;
  refused: string | undefined;
  beside: string | undefined;
}

/** Whether an event in the call's round explains that it ended with this code. */
function explains(code: string, { fails }: Plan, { abort, timeout, refused, beside }: Causes): boolean {
  if (refused) return code === refused;
  if (code === fails) return true;
  if (abort !== undefined && code === "ABORTED") return true;
  if (timeout !== undefined && code === "QUERY_TIMEOUT") return true;
  if (beside === "cancel" && code === "57014") return true;
  return beside === "terminate" && /^(57P01|CONNECTION_LOST)$/.test(code);
}

function describe(error: unknown): string {
  const { code, stack } = error as { code?: string; stack?: string };
  return `${code ?? ""} ${stack ?? String(error)}`;
}
