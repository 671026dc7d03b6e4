// An hour of a cache that commits invalidate, with writers, DDL, and parts that are killed: no answer is too old. The
// whole is judged after the run, from what was recorded.
//   PGZ_CACHE_MINUTES   minutes for each runtime: 5 unless it is set
import { readFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import { newCluster, prepare, run as startServer, superuser } from "../servers/postgres.mjs";
import { newestMajor } from "../servers/postgres-19.mjs";
import { logFile } from "../servers/index.mjs";
import { generator } from "../support/random.ts";
import { HOURS } from "../support/release.ts";
import { inTime, pause, until } from "../support/until.mjs";
import { Database } from "./database.ts";
import { judged, type Answer, type Down } from "./judge.ts";
import { NodeParts } from "./node-parts.ts";
import type { Parts, Watch } from "./parts.ts";
import { StandIn } from "./stand-in.ts";
import { PATHS, TIMES } from "./statements.mjs";
import { WorkerdParts } from "./workerd-parts.ts";

const MINUTES = Number(process.env["PGZ_CACHE_MINUTES"] ?? 5);
const READERS = 12;
/** Mean milliseconds between two requests of a reader, and between two disasters. */
const REST = 150;
const CALM = 15_000;
/** Milliseconds between two looks at the invalidator. One that does not answer for longer than GAP purges nothing. */
const LOOK = 50;
const GAP = 250;
const DELAYS = { store: 800, propagation: 300 };
const SETUP = readFileSync(new URL("../../js/cache/cache.sql", import.meta.url), "utf8");

/** A server of its own: it crashes. Its commits are in the log when they are answered. */
async function startDatabase(below: (below: number) => number): Promise<Database> {
  const cluster = await newCluster(newestMajor());
  const extra = { synchronous_commit: "on" };
  const { descriptor, stop } = await startServer(cluster, { log: logFile("cache-history"), extra, prepare });
  onTestFinished(stop);
  const { host, port } = descriptor;
  const url = `postgres://${superuser.user}:${superuser.password}@${host}:${port}/app?sslmode=disable`;
  const database = new Database(url, below);
  await database.create(SETUP);
  return database;
}

interface Outcome {
  readonly parts: Parts;
  readonly database: Database;
  readonly standIn: StandIn;
  readonly answers: readonly Answer[];
  readonly downs: readonly Down[];
  readonly disasters: Readonly<Record<string, number>>;
  readonly lives: number;
  /** Requests that the program did not answer. */
  readonly unanswered: number;
}

class Run {
  readonly #database: Database;
  readonly #standIn: StandIn;
  readonly #parts: Parts;
  readonly #below: (below: number) => number;
  readonly #answers: Answer[] = [];
  readonly #downs: Down[] = [];
  readonly #disasters: Record<string, number> = {};
  readonly #closedAt = new Map<string, number>();
  #unanswered = 0;
  #lives = 1;
  #isOver = false;

  constructor(
    database: Database,
    partsOf: (watch: Watch, below: (below: number) => number) => Parts,
    { below, forgets }: { readonly below: (below: number) => number; readonly forgets: boolean },
  ) {
    this.#database = database;
    this.#below = below;
    const watch: Watch = {
      // The planted fault: a purge is accepted, and not done.
      purge: (tags) => (forgets && below(2) === 0 ? Promise.resolve() : this.#standIn.purge(tags)),
      closed: (id) => void this.#closedAt.set(id, performance.now()),
    };
    this.#parts = partsOf(watch, below);
    this.#standIn = new StandIn((path, headers) => this.#parts.ask(path, headers), below, {
      delays: DELAYS,
      // An answer is stored while its fill is open, or within `settle` after that.
      mayStore: (etag) => performance.now() - (this.#closedAt.get(/"(.*)"/.exec(etag)![1]!) ?? Infinity) < TIMES.settle,
    });
  }

  async for(milliseconds: number): Promise<Outcome> {
    await this.#parts.start(this.#database.url);
    await until(() => this.#life().then((life) => life !== undefined), "the invalidator follows the database");
    const writing = this.#database.run();
    const working = [this.#watchLives(), this.#strike(), ...Array.from({ length: READERS }, () => this.#read())];
    const end = performance.now() + milliseconds;
    while (performance.now() < end) await pause(100);
    this.#isOver = true;
    await inTime(Promise.all(working));
    this.#database.end();
    // Until the stream has acknowledged everything.
    await inTime(writing);
    await this.#parts.stop();
    const [parts, database, standIn] = [this.#parts, this.#database, this.#standIn];
    const [answers, downs, disasters] = [this.#answers, this.#downs, this.#disasters];
    return { parts, database, standIn, answers, downs, disasters, lives: this.#lives, unanswered: this.#unanswered };
  }

  async #rest(mean: number): Promise<void> {
    for (let left = this.#below(2 * mean); left > 0 && !this.#isOver; left -= 100) await pause(Math.min(left, 100));
  }

  async #read(): Promise<void> {
    while (!this.#isOver) {
      await this.#rest(REST);
      const path = PATHS[this.#below(PATHS.length)]!;
      const at = performance.now();
      const served = await this.#standIn.fetch(this.#below(this.#standIn.centres), path);
      if (!served) this.#unanswered++;
      else this.#answers.push({ at, from: `${served.from} ${path}`, versions: versionsIn(served.body) });
    }
  }

  #life(): Promise<string | undefined> {
    const nothing = { id: "", statement: "", timeline: "", fingerprint: "", validators: [], maxAge: 0 };
    return this.#parts.life({ ...nothing, url: "", rows: "", form: "", isSeparated: false }).catch(() => undefined);
  }

  async #watchLives(): Promise<void> {
    let from = performance.now();
    let known = await this.#life();
    while (!this.#isOver) {
      await pause(LOOK);
      const asked = performance.now();
      const life = await Promise.race([this.#life(), pause(1_000)]);
      if (life === undefined) continue;
      const to = performance.now();
      if (life !== known || to - from > GAP) this.#downs.push({ from, to });
      if (life !== known) this.#lives++;
      [from, known] = [asked, life];
    }
  }

  async #strike(): Promise<void> {
    const all: Readonly<Record<string, () => Promise<unknown>>> = {
      ...this.#parts.disasters,
      "the server crashes": () => this.#crash(),
      "the stream breaks": () =>
        this.#database.ask("select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'walsender'"),
      "all sessions are ended": () =>
        this.#database.ask(
          "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'app' and pid <> pg_backend_pid()",
        ),
      "the slot is lost": () => this.#loseSlot(),
    };
    const names = Object.keys(all);
    for (;;) {
      await this.#rest(CALM);
      if (this.#isOver) return;
      const name = names[this.#below(names.length)]!;
      this.#disasters[name] = (this.#disasters[name] ?? 0) + 1;
      await all[name]!();
    }
  }

  /** All processes of a server end when one of them is killed, and it recovers from its log. */
  async #crash(): Promise<void> {
    const { rows } = await this.#database.ask("select pid from pg_stat_activity where backend_type = 'walsender'");
    const [{ pid } = { pid: undefined }] = rows as { pid?: number }[];
    if (pid !== undefined) process.kill(pid, "SIGKILL");
  }

  async #loseSlot(): Promise<void> {
    for (;;)
      try {
        await this.#database.dropSlot();
        break;
      } catch {
        await pause(20); // its reader has come back
      }
    await this.#rest(2_000);
    await this.#database.createSlot();
  }
}

function versionsIn(body: string): Record<string, number> {
  const rows = body
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { variable: string; version: number });
  return Object.fromEntries(rows.map(({ variable, version }) => [variable, version]));
}

async function history(
  partsOf: ConstructorParameters<typeof Run>[1],
  milliseconds: number,
  { seed = Math.floor(Math.random() * 2 ** 31), forgets = false } = {},
) {
  const below = generator(seed);
  const outcome = await new Run(await startDatabase(below), partsOf, { below, forgets }).for(milliseconds);
  const { parts, database, standIn, answers, downs, lives, unanswered } = outcome;
  // The invalidator looks each `settle / 4` whether a purge is due.
  const bound = 1.25 * TIMES.settle + TIMES.maxFill + standIn.slowestPurge;
  const verdict = judged({ variables: database.variables, downs, answers, bound });
  const ages = [...verdict.ages].sort((one, other) => one - other);
  const at = (part: number) => Math.round(ages[Math.floor(part * (ages.length - 1))] ?? 0);
  console.log(
    `[cache] ${parts.name}, seed ${seed}: ${answers.length} answers ${JSON.stringify(standIn.counts)}, ${unanswered} ` +
      `not answered; ${database.writes} writes, ${database.definitions} changes of definitions, ${lives} ` +
      `lives; ${JSON.stringify(outcome.disasters)}; ${ages.length} answers lacked a visible commit, of an age of ` +
      `${at(0.5)} ms (median), ${at(0.99)} ms (99 %), ${at(1)} ms (most); too old: ${verdict.tooOld.length}; ` +
      `failures ${JSON.stringify([...parts.failures])}`,
  );
  return { ...outcome, verdict };
}

const onNode = (...[watch, below]: [Watch, (below: number) => number]) => new NodeParts(watch, below);
const inWorkerd = (...[watch, below]: [Watch, (below: number) => number]) => new WorkerdParts(watch, below);

test.each([
  ["Node", onNode],
  ["workerd", inWorkerd],
])("%s: no answer is too old", { timeout: HOURS }, async (_, partsOf) => {
  const { verdict, standIn, answers, lives } = await history(partsOf, MINUTES * 60_000);
  expect(verdict.tooOld).toEqual([]);
  expect(lives).toBeGreaterThan(1);
  expect(standIn.counts.hits).toBeGreaterThan(answers.length / 4);
  expect(standIn.counts.confirmed).toBeGreaterThan(0);
});

test("purges that a cache forgets are seen", { timeout: HOURS }, async () => {
  const { verdict } = await history(onNode, 60_000, { forgets: true });
  expect(verdict.tooOld).not.toEqual([]);
});
