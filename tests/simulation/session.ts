// One simulated session: plays a program against a server model, and reports what did not hold.
//
// What must hold, whatever is drawn:
//   every call settles within its time, with its right result or with an error that an event explains
//   what was acknowledged is stored once; what was `retryable` is not stored; a group is stored whole or not at all
//   a consumer of changes sees each transaction of the ledger once, in the order of commits (followed.ts)
//   a pool keeps its bounds at each moment, and lets no call wait while it has room (pool-watch.ts)
//   the server never sees more backends of a user than the user may have
//   nothing is left in the end: no backend, lock, transaction, slot, socket, timer, wasm memory, unhandled rejection
//   the driver keeps the socket contract
//
// Knows the world, the server and what must hold in the end. Must not know what a user does (actor.ts), how a network
// or a server works, or where programs come from (program.ts).
import type * as pgz from "../../js/index.ts";
import { webSocket } from "../../js/runtime/websocket.ts";
import { Ledger } from "../random/ledger.ts";
import { Actor } from "./actor.ts";
import type { Report } from "./by-seeds.ts";
import type { Followed } from "./calls/index.ts";
import type { Coverage } from "./coverage.ts";
import { compareWithLog } from "./followed.ts";
import { Network, type Fault } from "./network.ts";
import { registered } from "./patches.ts";
import type { Beside, Program } from "./program.ts";
import { Pooler } from "./server/pooler.ts";
import { Server } from "./server/server.ts";
import { tapOf } from "./tap.ts";
import { webSocketClass } from "./websocket.ts";
import { World } from "./world.ts";

/** `counts.disturbed`: the faults of the network and of third parties that happened. */
export interface SessionReport extends Report {
  readonly program: Program;
  /** Virtual milliseconds. */
  readonly took: number;
  /** What the calls cost on the wire: connects, writes, bytes in them. */
  readonly costs: readonly [connects: number, writes: number, sent: number];
}

/** Virtual milliseconds after the last call, within which everything that is left must end by itself. */
const REST = 400_000;
/** Virtual milliseconds of a freeze: longer than any pause between two looks of a pool. */
const FROZEN = 60_000;

/** A host name is used only once in a process, so that no session finds what an earlier one has learned. */
let sessions = 0;

/** Errors that no code caught while the session ran. */
export const uncaught: unknown[] = [];
const catches = (error: unknown) => void uncaught.push(error);

/**
 * Collects in `uncaught` what no code catches while a session plays. Before and after, an error ends the process, so
 * that a fault of the simulator itself cannot end a run with status 0.
 */
export async function watched<T>(play: () => Promise<T>): Promise<T> {
  uncaught.length = 0;
  process.on("unhandledRejection", catches).on("uncaughtException", catches);
  try {
    return await play();
  } finally {
    process.off("unhandledRejection", catches).off("uncaughtException", catches);
  }
}

/** Plays a program. `coverage` is told which states and events the session reaches. */
export async function play(program: Program, keepsLines = false, coverage?: Coverage): Promise<SessionReport> {
  return await watched(() => new Session(program, keepsLines, coverage).play());
}

export class Session {
  readonly world: World;
  readonly ledger = new Ledger();
  readonly server: Server;
  readonly pooler: Pooler | undefined;
  readonly network: Network;
  readonly faults: string[] = [];
  /** What each consumer of changes has seen. */
  readonly followed: Followed[] = [];
  readonly leftSlots = new Set<string>();
  readonly host = `h${++sessions}.test`;
  calls = 0;
  #disturbed = 0;
  readonly #program: Program;
  readonly #actors: Actor[];
  /** The actor that requested each link. */
  readonly #owners = new Map<number, Actor>();
  /** When the server last heard something of each link. */
  readonly #said = new Map<number, number>();

  constructor(
    program: Program,
    keepsLines: boolean,
    readonly coverage: Coverage | undefined,
  ) {
    this.#program = program;
    const world = (this.world = new World(program.seed, keepsLines));
    const { version, authentication, thinks, isAbsent, quirks = {}, pooler } = program.server;
    const roles = Object.fromEntries(program.users.map((_, at) => [`u${at}`, { password: `secret ${at}` }]));
    const dice = world.dice("server");
    const thinkTime = () => (thinks ? dice.below(thinks * 100) / 100 : 0);
    const options = { version, authentication, maxConnections: 100, roles, thinkTime, quirks };
    this.server = new Server(world, dice, options);
    if (pooler)
      this.pooler = new Pooler(world, world.dice("pooler"), this.server, {
        ...{ version: pooler.version, poolSize: pooler.size, authentication, roles },
        // These make the pooler close idle connections before the session is over, and retry a server before a call is
        // late.
        ...{ serverIdleTimeout: REST / 4, serverLoginRetry: 1_000, maxClientConnections: 500 },
      });
    this.network = new Network(
      world,
      (purpose) => world.dice(purpose),
      // PgBouncer 1.18 refuses a startup packet that comes in pieces.
      pooler?.version === "1.18" ? { ...program.weather, split: "whole" } : program.weather,
      program.faults,
      tapOf(world, coverage, (link) => this.#said.set(link, world.now)),
      (fault) => this.#happened(fault),
    );
    if (!isAbsent) this.network.addHost(this.host, this.pooler ?? this.server);
    this.#actors = program.users.map((user, at) => new Actor(this, user, at));
    if (isAbsent) for (const actor of this.#actors) actor.meets("absent");
    world.onRest = () => {
      for (const actor of this.#actors) actor.look();
    };
  }

  async play(): Promise<SessionReport> {
    const { world, faults } = this;
    const handles = registered;
    const end = await world.run(() => this.#main());
    if (end.kind === "failed") faults.push(`the session itself: ${described(end.error)}`);
    if (end.kind === "stuck") faults.push(`stuck behind ${world.events} events: ${this.#waiting()}`);
    await world.runFor(REST);
    this.#atRest(handles);
    return {
      program: this.#program,
      faults,
      fingerprint: world.fingerprint,
      lines: world.lines,
      counts: { calls: this.calls, events: world.events, disturbed: this.#disturbed },
      took: world.now,
      costs: [this.network.connects, this.network.writes, this.network.sent],
    };
  }

  /** Whether a cancel may hit whichever statement runs when it arrives. */
  get cancelsLate(): boolean {
    return this.#program.server.quirks?.cancelsAfter !== undefined;
  }

  /** Milliseconds since the server last heard something, for each open link of this actor. */
  silencesOf(actor: Actor): number[] {
    const own = this.network.openLinks.filter((link) => this.#owners.get(link) === actor);
    // A link that is still connecting has not said anything.
    const said = own.map((link) => this.#said.get(link)).filter((at) => at !== undefined);
    return said.map((at) => this.world.now - at);
  }

  /** Returns a connector whose links belong to `actor`. */
  connectorFor(actor: Actor): pgz.Connector {
    const { sockets } = actor.user;
    const connect = this.network.connector({ readsWhileIdle: sockets !== "edge" });
    const owned: pgz.Connector = (options) => {
      this.#owners.set(this.network.connects, actor);
      return connect(options);
    };
    if (sockets !== "websocket") return owned;
    const { host } = this;
    return webSocket(() => `ws://${host}/`, { WebSocket: webSocketClass(owned, host) });
  }

  async #main(): Promise<void> {
    for (const one of this.#program.beside) this.world.after(one.at, () => this.#beside(one));
    await Promise.all(this.#actors.map((actor) => actor.act()));
  }

  #happened(fault: Fault): void {
    this.#disturbed++;
    this.coverage?.reach("conversation", "link", fault.kind);
    this.#owners.get(fault.link)?.meets(fault.kind);
  }

  #beside({ kind, which }: Beside): void {
    const { server, world, network } = this;
    if (kind === "restart" || kind === "freeze") {
      world.note("beside", kind);
      this.#disturbed++;
      for (const actor of this.#actors) actor.meets(kind);
      if (kind === "restart") return server.restart(50);
      network.forgetAll();
      return world.freeze(FROZEN);
    }
    // No client has the cancel key of a backend that is still logging in.
    const backends = server.backends.filter(({ state }) => state !== "starting");
    const backend = backends[which % Math.max(1, backends.length)];
    if (!backend) return;
    world.note("beside", `${kind} ${backend.processId}`);
    this.#disturbed++;
    this.#actors.find(({ role }) => role === backend.user)?.meets(kind);
    server[kind](backend.processId);
  }

  #waiting(): string {
    return this.#actors.flatMap((actor) => actor.waiting()).join("; ");
  }

  /** Checks what must hold when everything is over. */
  #atRest(handles: number): void {
    const { faults, network, server, world, ledger } = this;
    faults.push(...network.violations);
    for (const error of uncaught) faults.push(`nobody caught ${described(error)}`);
    if (world.timers) faults.push(`${world.timers} timers are left`);
    if (network.open) faults.push(`${network.open} sockets are left`);
    if (registered !== handles) faults.push(`${registered - handles} handles of the wasm, or leases, are left`);
    for (const { processId, state } of server.backends) faults.push(`backend ${processId} is left, ${state}`);
    if (this.pooler) {
      const { clients, serverConnections, waiting, statements } = this.pooler;
      const left = [clients.length, serverConnections.length, waiting, statements.size];
      if (left.some(Boolean)) faults.push(`the pooler has clients, connections, who waits, names left: ${left.join()}`);
    }
    // A text that ends in a pooler's Terminate is not one of ours.
    if (!this.pooler?.hasCutPackets)
      for (const text of server.unknownStatements) faults.push(`the server model does not know ${text}`);
    for (const slot of server.replicationSlots)
      if (!this.leftSlots.has(slot)) faults.push(`replication slot ${slot} is left`);
    for (const followed of this.followed) faults.push(...compareWithLog(followed, server.world));
    for (const lock of server.locks) faults.push(`a lock is left: ${JSON.stringify(lock)}`);
    if (server.openTransactions) faults.push(`${server.openTransactions} transactions are left open`);
    for (const actor of this.#actors) actor.atRest();
    const found = new Map<number, number>();
    for (const n of server.ledger) found.set(n, (found.get(n) ?? 0) + 1);
    // Where one client's responses went to another client, no side knows what was acknowledged.
    if (!this.pooler?.hasStaleAnswers()) faults.push(...ledger.compare(found));
  }
}

/** Describes an error as a fault of the session. */
export function described(error: unknown): string {
  const { code = "", stack } = Object(error) as { code?: string; stack?: string };
  return `${code} ${stack ?? String(error)}`;
}
