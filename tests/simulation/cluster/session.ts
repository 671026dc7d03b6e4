// One simulated session of a cluster: lanes of calls on `createCluster`, and meanwhile standbys that lag, promotions,
// primaries that are left behind, and a network with faults.
//
// What must hold, whatever is drawn:
//   the results and writes are right (oracle.ts)
//   every call settles; each error has a code, and where nothing happens to servers or links there is no error
//   `onRoute` and `stats()` report correctly where a call went, and why
//   a while after the last event all roles are known again: writes reach the primary, and reads see them
//   in the end no backend, transaction, lock, socket, timer or handle of the wasm is left
//
// Knows the parts and what must hold in the end. Must not know how a call is made (ways.ts), or how servers replicate.
import type { Cluster } from "../../../js/cluster.ts";
import { createCluster } from "../../../js/cluster.ts";
import type * as pgz from "../../../js/index.ts";
import { KnownServer } from "../../../js/server/known-server.ts";
import { MOST_CATALOGS } from "../../../js/util/limits.ts";
import type { Report } from "../by-seeds.ts";
import { driver } from "../driver.ts";
import { Network } from "../network.ts";
import { registered } from "../patches.ts";
import { Replicas } from "../server/cluster/replicas.ts";
import type { Node } from "../server/cluster/node.ts";
import { described, uncaught, watched } from "../session.ts";
import { tapOf } from "../tap.ts";
import { World } from "../world.ts";
import { Lane, sleep } from "./lane.ts";
import { Oracle, type Asked } from "./oracle.ts";
import { ANY_LAG, type ClusterProgram, type Happening } from "./program.ts";
import { checkRoutes, checkStats } from "./told.ts";
import type { Row } from "./ways.ts";

/** Returns the server's name in a host name, which differs in each session. */
export function nameOf({ host }: { readonly host: string }): string {
  return host.split(".")[0]!;
}

/**
 * The driver remembers the types of a limited number of servers, and then forgets all of them. A session has three
 * servers, so sessions before it would cause that in the middle of one session in thirty.
 */
function forgetCatalogs(): void {
  for (let at = 0; at < MOST_CATALOGS; at++) void new KnownServer().catalog;
}

/** Virtual milliseconds after the last call, within which everything that is left must end by itself. */
const REST = 400_000;
/** Milliseconds after the last event until roles have settled: the next look, and connects to servers that are gone. */
const SETTLES = 15_000;
/** Milliseconds where links were silent: calls on them take their whole `timeout`. */
const SETTLES_SLOWLY = 70_000;
/** Maximum milliseconds between two connects to a server that is not there. */
const PAUSES = 10_000;
const PROBES = [
  ["write", "exec"],
  ["after", "query"],
  ["reads", "query"],
] as const;

/** A host name is used only once in a process, so that no session finds what an earlier one remembers. */
let sessions = 0;

export async function playCluster(program: ClusterProgram, keepsLines = false): Promise<Report> {
  return await watched(() => new ClusterSession(program, keepsLines).play());
}

export class ClusterSession {
  readonly world: World;
  readonly replicas: Replicas;
  readonly network: Network;
  readonly oracle: Oracle;
  readonly faults: string[] = [];
  readonly program: ClusterProgram;
  readonly maxLag: number;
  /** The last position that any lane received. */
  newest: string | undefined;
  calls = 0;
  disturbed = 0;
  readonly #lanes: Lane[] = [];
  readonly #domain = `c${++sessions}.test`;

  constructor(program: ClusterProgram, keepsLines: boolean) {
    this.program = program;
    const world = (this.world = new World(program.seed, keepsLines));
    const { version, authentication, thinks, lags, isSynchronous, showsReceiver, fillsPages, turns } = program;
    const { weather, faults } = program;
    const dice = world.dice("server");
    this.replicas = new Replicas(world, world.dice("replication"), {
      ...{ version, authentication, maxConnections: 100, lags, isSynchronous, showsReceiver, fillsPages, turns },
      roles: { app: { password: "secret" } },
      names: lags.map((_, at) => `n${at}`),
      thinkTime: () => (thinks ? dice.below(thinks * 100) / 100 : 0),
    });
    this.oracle = new Oracle(this.replicas);
    const { maxLag = 10_000 } = program.options;
    this.maxLag = maxLag === ANY_LAG ? Infinity : maxLag;
    const purposes = (purpose: string) => world.dice(purpose);
    this.network = new Network(
      ...([world, purposes, weather, faults] as const),
      tapOf(world, undefined, () => {}),
      () => this.disturbed++,
    );
    for (const { name, server } of this.replicas.nodes) this.network.addHost(`${name}.${this.#domain}`, server);
  }

  async play(): Promise<Report> {
    const { world, faults, replicas, oracle } = this;
    forgetCatalogs();
    const handles = registered;
    const end = await world.run(() => this.#main());
    if (end.kind === "failed") faults.push(`the session itself: ${described(end.error)}`);
    if (end.kind === "stuck") faults.push(`stuck: ${this.#lanes.map(({ running }) => running).join("; ")}`);
    await world.runFor(REST);
    faults.push(...oracle.faults);
    this.#atRest(handles);
    const counts = { calls: this.calls, disturbed: this.disturbed, promotions: replicas.promotions };
    return {
      ...{ faults, fingerprint: world.fingerprint, lines: world.lines },
      counts: { ...counts, "acknowledged writes lost": oracle.lost, ...this.#routes() },
    };
  }

  /** The calls of `reads`, counted by reason. */
  #routes(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const routes of new Set(this.#lanes.map((lane) => lane.routes)))
      for (const { reason } of routes) counts[`reads: ${reason}`] = (counts[`reads: ${reason}`] ?? 0) + 1;
    return counts;
  }

  async #main(): Promise<void> {
    const { program, world } = this;
    for (const happening of program.happenings) world.after(happening.at, () => this.#happens(happening));
    const shared = program.areApart ? undefined : this.#cluster();
    for (const at of program.lanes.keys()) {
      const { cluster, routes } = shared ?? this.#cluster();
      this.#lanes.push(new Lane(this, `lane ${at}`, cluster, routes));
    }
    await Promise.all(this.#lanes.map((lane, at) => lane.run(program.lanes[at]!)));
    const [last] = this.#lanes;
    if (last) await this.#settle(last);
    for (const lane of new Map(this.#lanes.map((one) => [one.cluster, one])).values()) {
      this.faults.push(...checkStats(lane));
      await lane.cluster.close();
    }
  }

  #cluster(): { cluster: Cluster; routes: pgz.RouteEvent[] } {
    const { program, network, replicas, maxLag } = this;
    const routes: pgz.RouteEvent[] = [];
    const onRoute = (event: pgz.RouteEvent) => {
      this.world.note("route", `${nameOf(event)} ${event.role} ${event.reason} ${event.waitedMs} ${event.lagMs ?? ""}`);
      routes.push(event);
    };
    const names = replicas.nodes.map(({ name }) => name);
    const level = program.isRepeatableRead ? "?options=-c%20default_transaction_isolation%3Drepeatable%5C%20read" : "";
    const url = (hosts: readonly string[], more = "") =>
      `postgres://app:secret@${hosts.map((name) => `${name}.${this.#domain}`).join()}/simulation${level}${more}`;
    const own = (name: string) => url([name], `${level ? "&" : "?"}application_name=${name}`);
    const { inputs } = program;
    const servers =
      inputs === "hosts" ? url(names) : names.map((name) => (inputs === "list" ? url([name]) : own(name)));
    const connect = network.connector({ readsWhileIdle: program.sockets !== "edge" });
    const cluster = createCluster(servers, {
      ...program.options,
      maxLag,
      sslmode: "disable",
      connect,
      observer: { onRoute },
    });
    return { cluster, routes };
  }

  // -- events ---------------------------------------------------------------------------------------------------------

  #happens(happening: Happening): void {
    const { which } = happening;
    const { nodes } = this.replicas;
    const standbys = nodes.filter((node) => node.isUp && node.isStandby);
    const standby = standbys[which % Math.max(1, standbys.length)];
    const any = nodes[which % nodes.length]!;
    const about = this.#done(happening, standby, any);
    if (about === undefined) return;
    this.world.note("beside", `${happening.kind} ${about}`);
    if (happening.kind !== "pause" && happening.kind !== "cut") this.disturbed++;
  }

  /** Returns the name of the server, or `undefined` if nothing was done. */
  #done({ kind, which, lasts, returns }: Happening, standby: Node | undefined, any: Node): string | undefined {
    if (kind === "restart") return this.replicas.restart(any, 50 + lasts / 10) ? any.name : undefined;
    if (kind === "terminate") {
      const backends = any.server.backends.filter(({ state }) => state !== "starting");
      const backend = backends[which % Math.max(1, backends.length)];
      return backend && any.server.terminate(backend.processId) ? any.name : undefined;
    }
    if (!standby) return undefined;
    if (kind === "pause" || kind === "cut") standby[kind](lasts);
    if (kind === "conflict") {
      const code = (["40001", "40P01", "57P04"] as const)[which % 3]!;
      return standby.server.conflict(which, code) ? standby.name : undefined;
    }
    if (kind === "promote") {
      if (!this.replicas.promote(standby, lasts, returns)) return undefined;
    }
    return standby.name;
  }

  /** Whether any call may fail. */
  get isDisturbed(): boolean {
    return (
      this.program.faults.length > 0 || this.program.happenings.some(({ kind }) => kind !== "pause" && kind !== "cut")
    );
  }

  failed(says: string, error: unknown, since: number): void {
    const isTyped = error instanceof driver.PgzError && !(error instanceof driver.UsageError);
    if (isTyped && this.isDisturbed) return;
    this.faults.push(`${says} (since ${since.toFixed(1)}): ${described(error)}`);
  }

  routed(lane: Lane, from: number, all: readonly (readonly Row[])[], asked: Asked): void {
    if (!this.program.areApart) return;
    this.faults.push(...checkRoutes(this, lane.routes.slice(from), all.at(-1)!, asked));
  }

  /** Returns the timeline of the newest server that the cluster considers a primary. */
  newestKnown(cluster: Cluster): number {
    const primaries = cluster
      .stats()
      .servers.filter(({ role }) => role === "primary")
      .map(nameOf);
    return Math.max(
      0,
      ...this.replicas.nodes.filter(({ name }) => primaries.includes(name)).map((node) => node.timeline),
    );
  }

  /** Servers that were down before a look and still are must have no role. */
  looked(cluster: Cluster, down: readonly Node[]): void {
    for (const { name } of down.filter(({ isUp }) => !isUp))
      for (const server of cluster.stats().servers)
        if (nameOf(server) === name && server.role !== "unreachable")
          this.faults.push(`${name} is down, and stats() says ${server.role}`);
  }

  /** Waits after the last event until roles have settled. From then on nothing may fail. */
  async #settle(lane: Lane): Promise<void> {
    const { world, program } = this;
    const last = Math.max(
      0,
      ...program.happenings.map(({ at, lasts, returns }) => at + lasts + returns + program.turns + 2_000),
    );
    if (last > world.now) await sleep(last - world.now);
    const { probeInterval = 2_000 } = program.options;
    const isSlow = program.faults.length > 0;
    const until = world.now + probeInterval + (isSlow ? SETTLES_SLOWLY : SETTLES);
    for (let good = 0; good < 2;) {
      const error = await this.#probe(lane);
      good = error === undefined ? good + 1 : 0;
      if (error !== undefined && world.now > until)
        return void this.faults.push(`roles have not settled: ${described(error)}`);
      await sleep(500);
    }
    // A silent link costs a look, and a pool pauses before it connects again to a server that was gone.
    let wrong = ["not asked"];
    for (; wrong.length && world.now < until + PAUSES; await sleep(500)) {
      await lane.cluster.probe();
      wrong = this.#wrongRoles(lane.cluster);
    }
    this.faults.push(...wrong);
  }

  /** Returns what is still wrong. */
  async #probe(lane: Lane): Promise<unknown> {
    const { history, primary } = this.replicas;
    for (const [kind, how] of PROBES) {
      const error = await lane.step({ kind, how, count: 1, pause: 0 });
      if (error !== undefined) return error;
    }
    const written = history.entries.filter(({ changes }) => changes.length).at(-1)!;
    if (written.timeline !== primary.timeline) return new Error(`a write went to timeline ${written.timeline}`);
    return undefined;
  }

  #wrongRoles(cluster: Cluster): string[] {
    return cluster.stats().servers.flatMap((server) => {
      const node = this.replicas.nodes.find(({ name }) => name === nameOf(server))!;
      const is = node.isStandby ? "standby" : "primary";
      return server.role === is ? [] : [`${node.name} is a ${is}, and stats() says ${server.role}`];
    });
  }

  // -- the end --------------------------------------------------------------------------------------------------------

  #atRest(handles: number): void {
    const { faults, network, world, replicas, oracle } = this;
    const before = oracle.faults.length;
    oracle.compare();
    faults.push(...oracle.faults.slice(before), ...network.violations);
    for (const error of uncaught) faults.push(`nobody caught ${described(error)}`);
    if (world.timers) faults.push(`${world.timers} timers are left`);
    if (network.open) faults.push(`${network.open} sockets are left`);
    if (registered !== handles) faults.push(`${registered - handles} handles of the wasm are left`);
    for (const { name, server } of replicas.nodes) {
      for (const { state } of server.backends) faults.push(`a backend of ${name} is left, ${state}`);
      for (const text of server.unknownStatements) faults.push(`the server model does not know ${text}`);
      if (server.locks.length) faults.push(`locks of ${name} are left`);
      if (server.openTransactions) faults.push(`transactions of ${name} are left`);
    }
  }
}
