// One simulated session of `pgz-edge/cache`: a server, perhaps with a standby, isolates that answer by `cached`, a
// cache in front of them, and an invalidator that crashes, loses its slot and its stream.
//
// What must hold, whatever is drawn:
//   no answer that is served is older than the bound (oracle.ts)
//   where nothing happens to the server or to links of isolates, no request fails
//   a while after the last event, answers of each statement are stored anew, and served from there
//   in the end no backend, transaction, lock, socket, timer or handle of the wasm is left
//
// Knows the parts and what must hold in the end. Must not know what is purged when, or what the driver asks.
import { cached, type CacheInvalidator } from "../../../js/cache.ts";
import { statementName } from "../../../js/cache/names.ts";
import type * as pgz from "../../../js/index.ts";
import type { Report } from "../by-seeds.ts";
import { driver } from "../driver.ts";
import { Network } from "../network.ts";
import { registered } from "../patches.ts";
import { Server } from "../server/server.ts";
import { addView } from "../server/statements/cache-questions.ts";
import { attributesOf, Table } from "../server/tables.ts";
import { Transaction } from "../server/transactions.ts";
import { int4 } from "../server/values.ts";
import { described, uncaught, watched } from "../session.ts";
import { tapOf } from "../tap.ts";
import { World } from "../world.ts";
import { Front, TIMES } from "./front.ts";
import { OPTIONS, Process, stubOf } from "./link.ts";
import { Oracle } from "./oracle.ts";
import { Standby } from "./standby.ts";
import { HAPPENINGS, SOURCES, TABLES, VIEWS, WRITES } from "./program.ts";
import type { CacheProgram, Happening, Read, Write } from "./program.ts";

/** Virtual milliseconds after the last request, within which everything that is left must end by itself. */
const REST = 400_000;
/**
 * Milliseconds between two requests for each statement at the end, and how many: what is learned may not count, and is
 * learned again after a minute.
 */
const LAST_PAUSE = 400;
const LAST_REQUESTS = 250;

/** Milliseconds of the invalidator's timer, and of a purge. */
const SLACK = 200;
/** The bounds of the page. */
const STORED = OPTIONS.maxLag + TIMES.propagation + SLACK;
const AGE = STORED + OPTIONS.settle + OPTIONS.maxFill;
const BOUNDS = { beginning: STORED, propagation: TIMES.propagation, recovery: AGE };

/** Milliseconds of a call. */
const TIMEOUT = 20_000;

const textOf = (source: string): string => `select n from ${source} order by n`;

let sessions = 0;

export async function playCache(program: CacheProgram, keepsLines = false): Promise<Report> {
  return await watched(() => new CacheSession(program, keepsLines).play());
}

/** An isolate of the program. */
interface Isolate {
  readonly url: string;
  readonly pool: pgz.Pool | undefined;
}

/** A statement that writes, its table, and the row that it brings. */
interface Change {
  readonly text: string;
  readonly table: number;
  readonly row?: number;
}

/** Thrown by transactions that roll back. */
class RolledBack extends Error {}

/** Each table has a first row. */
function addTables(world: Server["world"]): void {
  const writer = new Transaction(world.nextTransaction(), 0, world.locks);
  const tables = Array.from({ length: TABLES }, (_, at) => {
    const table = new Table({ oid: world.newOid(), name: `t${at}` }, attributesOf([["n", int4]]), world.commits);
    table.replicaIdentity = "f";
    table.insert(writer, [1_000 * at]);
    return table;
  });
  world.tables.push(...tables);
  world.commit(writer);
  for (let view = 0; view < VIEWS; view++) addView(world, `v${view}`, tables[view]!);
  world.publications.add(
    "cache",
    tables.map(({ oid }) => oid),
    0,
  );
}

class CacheSession {
  readonly #program: CacheProgram;
  readonly #world: World;
  readonly #server: Server;
  readonly #standby: Server | undefined;
  readonly #front: Front;
  readonly #oracle: Oracle;
  readonly #invalidator: CacheInvalidator;
  readonly #faults: string[] = [];
  readonly #networks: Network[] = [];
  /** By host. */
  readonly #networkOf = new Map<string, Network>();
  readonly #domain = `f${++sessions}.test`;
  /** Of isolates, whose links have faults. */
  readonly #links: Network;
  readonly #isolates: Isolate[] = [];
  readonly #pools: pgz.Pool[] = [];
  /** Of transactions that write. */
  #writer!: pgz.Pool;
  #hosts = 0;
  /** The process that gets the calls, and one that it replaces, which still gets some. */
  #process: Process | undefined;
  #replaced: Process | undefined;
  readonly #dying: Promise<void>[] = [];
  /** What has happened: requests that failed, transactions that committed, and what the program has made happen. */
  readonly #done: Record<string, number> = Object.fromEntries(
    ["failed", "rolled back", "asked on a standby", ...WRITES, ...HAPPENINGS].map((what) => [what, 0]),
  );
  #rows = 1;
  /** By table: the rows that transactions have inserted, which later ones may take. */
  readonly #inserted: number[][] = Array.from({ length: TABLES }, () => []);

  constructor(program: CacheProgram, keepsLines: boolean) {
    this.#program = program;
    const world = (this.#world = new World(program.seed, keepsLines));
    const { version, thinks, gap, flush, losesCalls: loses, losesCloses, delays, weather } = program;
    const dice = world.dice("server");
    const [gaps, flushes] = [world.dice("gap"), world.dice("flushes")];
    const options = {
      ...{ version, authentication: "trust" as const, maxConnections: 100, roles: { app: { password: "secret" } } },
      thinkTime: () => (thinks ? dice.below(thinks * 100) / 100 : 0),
    };
    this.#server = new Server(world, dice, {
      ...options,
      visibleAfter: () => (gap ? gaps.below(gap * 100) / 100 : 0),
      flushedAfter: () => (flush ? flushes.below(flush * 100) / 100 : 0),
    });
    addTables(this.#server.world);
    if (program.replays) {
      this.#standby = new Server(world, dice, options);
      addTables(this.#standby.world);
      void new Standby(world, world.dice("standby"), this.#server, this.#standby, program.replays);
    }
    this.#front = new Front(world, world.dice("front"));
    const bounds = { ...BOUNDS, age: AGE + program.replays, told: gap };
    this.#oracle = new Oracle(world, [this.#server, this.#standby], bounds, () => this.#state);
    const ways = { clock: world, dice: world.dice("calls"), latency: weather.latency * 2, loses, losesCloses, delays };
    const processes = world.dice("processes");
    // The platform may still route a call to the process that another one replaces.
    const receiver = () => (this.#replaced && processes.oneIn(3) ? this.#replaced : this.#process);
    this.#invalidator = stubOf(receiver, ways);
    this.#links = this.#network(program.faults);
    world.onRest = () => this.#oracle.look();
  }

  async play(): Promise<Report> {
    const [faults, world] = [this.#faults, this.#world];
    const handles = registered;
    // An isolate remembers them, so the first session of a process would differ from the others.
    for (const name of SOURCES) await statementName(textOf(name));
    const end = await world.run(() => this.#main());
    if (end.kind === "failed") faults.push(`the session itself: ${described(end.error)}`);
    if (end.kind === "stuck") faults.push(`stuck behind ${world.events} events`);
    await world.runFor(REST);
    faults.push(...this.#oracle.faults);
    this.#atRest(handles);
    const { served } = this.#oracle;
    return {
      ...{ program: this.#program, faults, fingerprint: world.fingerprint, lines: world.lines },
      counts: { ...this.#front.counts, served, ...this.#done },
    };
  }

  async #main(): Promise<void> {
    const { writes, reads, happenings, isolates } = this.#program;
    this.#writer = driver.createPool(this.#url(this.#network()), this.#options({ max: 10 }));
    this.#pools.push(this.#writer);
    for (let at = 0; at < isolates; at++) this.#isolates.push(this.#isolate(at));
    this.#start();
    const at = async (time: number, work: () => Promise<unknown>) => {
      await this.#until(time);
      await work();
    };
    await Promise.all([
      ...writes.map((write) => at(write.at, () => this.#write(write))),
      ...reads.map((read) => at(read.at, () => this.#read(read))),
      ...happenings.map((happening) => at(happening.at, () => this.#happens(happening))),
    ]);
    // A crash of the server may have lost that one joined again.
    for (let table = 0; table < TABLES; table++) await this.#publish(table, true);
    await this.#untilStored();
    await Promise.all(this.#dying);
    await this.#process!.end();
    await Promise.all(this.#pools.map((pool) => pool.close()));
  }

  get #state() {
    return this.#process?.state ?? { isFollowing: false, isWell: false, lag: Infinity };
  }

  #until(time: number): Promise<void> {
    return new Promise((resolve) => void this.#world.after(time - this.#world.now, resolve));
  }

  #pause(milliseconds: number): Promise<void> {
    return this.#until(this.#world.now + milliseconds);
  }

  // -- processes ------------------------------------------------------------------------------------------------------

  #network(faults: CacheProgram["faults"] = []): Network {
    const number = this.#networks.length;
    const dice = (purpose: string) => this.#world.dice(`network ${number} ${purpose}`);
    const tap = tapOf(this.#world, undefined, () => {});
    const network = new Network(this.#world, dice, this.#program.weather, faults, tap, () => {});
    this.#networks.push(network);
    return network;
  }

  /** A name that no other process of the session has. */
  #url(network: Network, server = this.#server): string {
    const host = `h${this.#hosts++}.${this.#domain}`;
    network.addHost(host, server);
    this.#networkOf.set(host, network);
    return `postgres://app:secret@${host}/simulation`;
  }

  #options(more: pgz.PoolOptions = {}): pgz.PoolOptions {
    const connect: NonNullable<pgz.PoolOptions["connect"]> = (options) =>
      this.#networkOf.get(options.host)!.connector({ readsWhileIdle: true })(options);
    return { sslmode: "disable", timeout: TIMEOUT, connectTimeout: 3_000, connect, ...more };
  }

  /** The first one reads from the standby, where there is one. */
  #isolate(at: number): Isolate {
    const url = this.#url(this.#links, at === 0 ? this.#standby : this.#server);
    const pool = this.#program.caller === "pool" ? driver.createPool(url, this.#options({ max: 3 })) : undefined;
    if (pool) this.#pools.push(pool);
    return { url, pool };
  }

  #start(): void {
    const network = this.#network();
    const refusals = this.#world.dice(`refusals ${this.#networks.length}`);
    const { refusesPurges } = this.#program;
    const db = driver.createPool(this.#url(network), this.#options({ max: 3 }));
    const refuses = () => refusesPurges > 0 && refusals.oneIn(refusesPurges);
    this.#process = new Process(db, network, (tags) => this.#front.purge(tags, refuses()));
  }

  async #happens({ kind, lasts, table }: Happening): Promise<void> {
    this.#world.note("beside", kind);
    this.#done[kind]!++;
    const old = this.#process;
    const { slots } = this.#server.world;
    switch (kind) {
      case "crash":
      case "lose slot":
        this.#kill(old);
        await this.#pause(Math.max(lasts, 1));
        if (kind === "lose slot") await this.#dropSlot();
        if (this.#process === old) this.#start();
        return;
      case "replace":
        this.#start();
        this.#replaced = old;
        await this.#pause(lasts);
        this.#replaced = undefined;
        this.#kill(old);
        return;
      case "lose stream":
        for (const { processId } of slots.all) if (processId !== undefined) this.#server.terminate(processId);
        return;
      case "restart":
        return this.#server.restart(50 + lasts);
      case "panic":
        return this.#server.crash(50 + lasts);
      case "fail over":
        return this.#failOver(50 + lasts);
      case "new isolate":
        this.#isolates[0] = this.#isolate(0);
        return;
      case "unpublish":
        await this.#publish(table!, false);
        await this.#pause(lasts);
        await this.#publish(table!, true);
    }
  }

  /** To a standby that has what was on disk. */
  async #failOver(downFor: number): Promise<void> {
    const { slots, standing } = this.#server.world;
    this.#server.crash(downFor);
    standing.timeline++;
    await this.#pause(1); // the crash ends its sessions, one of which may read the slot
    for (const { name } of slots.all) slots.drop(name, 0);
  }

  /** Until it is so: the server may stop meanwhile. */
  async #publish(table: number, isPublished: boolean): Promise<void> {
    const { publications } = this.#server.world;
    const { oid } = this.#server.world.tables.find(({ name }) => name === `t${table}`)!;
    const change = `alter publication cache ${isPublished ? "add" : "drop"} table t${table}`;
    while (publications.find("cache")!.tables.has(oid) !== isPublished) {
      await this.#writer.exec(change).catch((error: unknown) => this.#failedWith(change, error, this.#isStopped));
      await this.#pause(1);
    }
  }

  #kill(process: Process | undefined): void {
    if (process && !process.isDead) this.#dying.push(process.kill());
  }

  /**
   * As an operator: who reads the slot is ended first, which is mostly the connection of the process that was killed.
   * Another process may have taken it by then: that one keeps it.
   */
  async #dropSlot(): Promise<void> {
    const { slots } = this.#server.world;
    // Asked each time: a slot that was being made is gone with its maker.
    const readerOf = () => slots.all[0]?.processId;
    const reader = readerOf();
    if (reader !== undefined) {
      this.#server.terminate(reader);
      while (readerOf() === reader) await this.#pause(1);
    }
    if (readerOf() === undefined) for (const { name } of slots.all) slots.drop(name, 0);
  }

  /** Whether a request may fail. */
  get #isDisturbed(): boolean {
    return this.#program.faults.length > 0 || this.#isStopped;
  }

  /** Whether the server stops. */
  get #isStopped(): boolean {
    return this.#program.happenings.some(({ kind }) => ["restart", "panic", "fail over"].includes(kind));
  }

  // -- programs -------------------------------------------------------------------------------------------------------

  async #write(write: Write): Promise<void> {
    const { table, also, lasts, rollsBack } = write;
    const changes = [this.#changeOf(write), ...(also === undefined ? [] : [this.#insertOf(also)])];
    // In one order, because the model finds no deadlock: two of these and two TRUNCATE can be in one.
    changes.sort((a, b) => a.table - b.table);
    const work = async (tx: pgz.Transaction) => {
      for (const { text } of changes) await tx.exec(text);
      await this.#pause(lasts);
      if (rollsBack) throw new RolledBack();
    };
    try {
      await this.#writer.transaction(work);
      this.#done[write.does]!++;
      for (const change of changes) if (change.row !== undefined) this.#inserted[change.table]!.push(change.row);
    } catch (error) {
      if (error instanceof RolledBack) this.#done["rolled back"]!++;
      else this.#failedWith(`${write.does} of t${table}`, error, this.#isStopped);
    }
  }

  #changeOf({ does, table, view }: Write): Change {
    if (does === "move view") return { text: `create or replace view v${view} as select * from t${table}`, table };
    if (does === "truncate") return { text: `truncate t${table}`, table };
    const takesRow = does === "update" || does === "delete";
    const old = takesRow ? this.#inserted[table]!.shift() : undefined;
    if (old === undefined) return this.#insertOf(table);
    if (does === "delete") return { text: `delete from t${table} where n=${old}`, table };
    const row = this.#newRow(table);
    return { text: `update t${table} set n=${row} where n=${old}`, table, row };
  }

  #insertOf(table: number): Change {
    const row = this.#newRow(table);
    return { text: `insert into t${table} values (${row})`, table, row };
  }

  /** Each number is written once, so that an answer shows what it has seen. */
  #newRow(table: number): number {
    return 1_000 * table + this.#rows++;
  }

  async #read({ source, centre, isolate, slow }: Read): Promise<boolean> {
    const name = SOURCES[source]!;
    const url = `https://example.com/${name}`;
    if (isolate === 0 && this.#standby) this.#done["asked on a standby"]!++;
    let hasHeaders = false;
    const fetch = async (headers: Headers) => {
      const response = await this.#answer(this.#isolates[isolate]!, { method: "GET", url, headers }, name);
      hasHeaders = true;
      return response;
    };
    try {
      const served = await this.#front.get(centre, url, slow, fetch);
      this.#world.note("front", `${name} at ${centre}${served.isOwn ? "" : " hit"}: ${served.body.length}`);
      this.#oracle.judge(name, served);
      return served.storedAt !== undefined;
    } catch (error) {
      const { code } = error as { code?: string };
      const isSlowReader = hasHeaders && slow > 0 && code === "QUERY_TIMEOUT";
      if (!isSlowReader) this.#failedWith(name, error, this.#isDisturbed);
      return false;
    }
  }

  async #answer({ url, pool }: Isolate, request: Parameters<typeof cached>[0], name: string): Promise<Response> {
    const options = { maxAge: this.#program.maxAge, invalidator: this.#invalidator };
    const query = { text: textOf(name), values: [] };
    if (pool) return await cached(request, pool, query, options);
    const client = driver.createClient(url, this.#options() as pgz.ClientOptions);
    return await cached(request, client, query, { ...options, closeWhenDone: true });
  }

  #failedWith(what: string, error: unknown, mayFail: boolean): void {
    this.#done["failed"]!++;
    this.#world.note("failed", `${what}: ${String((error as { code?: string }).code)}`);
    const isTyped = error instanceof driver.PgzError && !(error instanceof driver.UsageError);
    if (isTyped && mayFail) return;
    this.#faults.push(`${what} at ${this.#world.now.toFixed(1)}: ${described(error)}`);
  }

  /** Until an answer of each statement has been stored, and is served from there. */
  async #untilStored(): Promise<void> {
    this.#front.empty();
    const left = new Set(SOURCES.keys());
    for (let turn = 0; left.size && turn < LAST_REQUESTS; turn++) {
      for (const source of [...left]) {
        const read = { at: 0, source, centre: 0, isolate: 0, slow: 0 };
        if ((await this.#read(read)) && this.#state.isWell) left.delete(source);
      }
      await this.#pause(LAST_PAUSE);
    }
    for (const source of left) this.#faults.push(`answers of ${SOURCES[source]} are not stored any more`);
  }

  // -- the end --------------------------------------------------------------------------------------------------------

  #atRest(handles: number): void {
    const [faults, server, world] = [this.#faults, this.#server, this.#world];
    for (const network of this.#networks) {
      faults.push(...network.violations);
      if (network.open) faults.push(`${network.open} sockets are left`);
    }
    for (const error of uncaught) faults.push(`nobody caught ${described(error)}`);
    if (world.timers) faults.push(`${world.timers} timers are left`);
    if (registered !== handles) faults.push(`${registered - handles} handles of the wasm are left`);
    for (const { state } of [...server.backends, ...(this.#standby?.backends ?? [])])
      faults.push(`a backend is left, ${state}`);
    for (const text of server.unknownStatements) faults.push(`the server model does not know ${text}`);
    if (server.locks.length) faults.push("locks are left");
    if (server.openTransactions) faults.push("transactions are left");
  }
}
