// One simulated session of one driver: plays the common calls of a program against a server model, and finds what does
// not hold.
//
// The program is that of ../program.ts, with its users, tasks, pauses, aborts, timeouts, faults and actions of third
// parties. Each step is drawn from its seed among the calls that all three drivers have (calls.ts), and each user has a
// TCP socket. Two things differ: `scram-sha-256` becomes `md5`, because pg's SCRAM waits for WebCrypto, which does not
// come to rest with the microtasks; and only ours has hooks and observers. Knows users, what has happened to them, and
// rows of findings. Must not know a driver's API.
import { AssertionError } from "../../integration/assert.ts";
import { Dice } from "../../random/dice.ts";
import { Ledger } from "../../random/ledger.ts";
import { Network, type Fault } from "../network.ts";
import type { Beside, Program, Step, Task, User } from "../program.ts";
import { Server } from "../server/server.ts";
import { Messages } from "../timeline.ts";
import { World } from "../world.ts";
import { callOf, Holes, LeftBehind, transaction, type Call, type Shared } from "./calls.ts";
import type { Access, Database, Disturbed, Peer, Session as Caller } from "./contract.ts";
import { ofLedger, type Finding, type Row } from "./findings.ts";
import { guarded, immediatesOf, uncaught } from "./immediates.ts";
import { addPlace, HalfClosing } from "./net.ts";
import { ours } from "./ours.ts";
import { peerPg, restartPortals } from "./pg.ts";
import { peerPostgres } from "./postgres.ts";

export const DRIVERS = ["pgz-edge", "pg", "postgres.js"] as const;
export type Driver = (typeof DRIVERS)[number];

export interface Report {
  readonly findings: readonly Finding[];
  readonly fingerprint: string;
  readonly lines: readonly string[];
  readonly calls: number;
  readonly disturbed: number;
}

/** Virtual milliseconds in which each call must settle, in addition to the time of a freeze. */
const DEADLINE = 90_000;
const FROZEN = 60_000;
/** Virtual milliseconds after the end, within which everything that is left must end by itself. */
const REST = 400_000;
/** Faults that end no connection but let no response arrive. A process that freezes finds its connections forgotten. */
const SILENT = ["silence", "deaf", "mute", "hang", "freeze"];

/** A host name is used only once in a process, so that no session finds what an earlier one has learned. */
let sessions = 0;

export async function play(program: Program, driver: Driver, keepsLines = false): Promise<Report> {
  return await new Session(program, driver, keepsLines).play();
}

/** A world whose timers fail as Node's do: no caller gets their errors. */
class PeerWorld extends World {
  override set(run: () => void, delay: number, every: boolean): number {
    return super.set(guarded(run), delay, every);
  }
}

class Session {
  readonly world: PeerWorld;
  readonly server: Server;
  readonly network: Network;
  readonly peer: Peer;
  readonly shared: Shared = { ledger: new Ledger(), number: 0 };
  readonly findings: Finding[] = [];
  readonly deadline: number;
  calls = 0;
  disturbed = 0;
  readonly #name = `h${++sessions}.test`;
  readonly #front: HalfClosing;
  readonly #program: Program;
  readonly #actors: Actor[];
  readonly #owners = new Map<number, Actor>();

  constructor(program: Program, driver: Driver, keepsLines: boolean) {
    this.#program = program;
    this.deadline = DEADLINE + FROZEN * program.beside.filter(({ kind }) => kind === "freeze").length;
    const world = (this.world = new PeerWorld(program.seed, keepsLines));
    const { version, thinks } = program.server;
    const authentication = program.server.authentication.replace("scram-sha-256", "md5") as "md5";
    const roles = Object.fromEntries(program.users.map((_, at) => [`u${at}`, { password: `secret ${at}` }]));
    const dice = world.dice("server");
    const thinkTime = () => (thinks ? dice.below(thinks * 100) / 100 : 0);
    this.server = new Server(world, dice, { version, authentication, maxConnections: 100, roles, thinkTime });
    this.#front = new HalfClosing(this.server);
    this.network = new Network(
      world,
      (purpose) => world.dice(purpose),
      program.weather,
      program.faults,
      tapOf(world),
      (fault) => this.#happened(fault),
    );
    this.#actors = program.users.map((user, at) => new Actor(this, user, at));
    this.peer = this.#peer(driver);
  }

  async play(): Promise<Report> {
    const { world } = this;
    uncaught.length = 0;
    restartPortals();
    const removals = this.#actors.map((actor) => this.#open(actor));
    immediatesOf(world);
    try {
      const end = await world.run(() => this.#main());
      if (end.kind === "failed") throw end.error;
      if (end.kind === "stuck") this.find("spins", `stuck behind ${world.events} events`);
      await world.runFor(REST);
    } finally {
      immediatesOf(undefined);
      for (const remove of removals) remove();
    }
    this.#atRest();
    const { findings, calls, disturbed } = this;
    return { findings, fingerprint: world.fingerprint, lines: world.lines, calls, disturbed };
  }

  find(row: Row, text: string): void {
    this.findings.push({ row, text });
    this.world.note("FOUND", `${row}: ${text}`);
  }

  /** `u0.h7.test` is the server's name for the first user, so that each link has its owner. */
  hostOf(actor: Actor): string {
    return `${actor.role}.${this.#name}`;
  }

  #peer(driver: Driver): Peer {
    if (driver === "pg") return peerPg;
    if (driver === "postgres.js") return peerPostgres;
    return ours(({ user }) => this.#connector(this.#actors.find(({ role }) => role === user)!));
  }

  #open(actor: Actor): () => void {
    const name = this.hostOf(actor);
    if (this.#program.server.isAbsent) actor.meets("absent");
    else this.network.addHost(name, this.#front);
    const { edit } = this.peer;
    return addPlace(name, { connect: this.#connector(actor), host: this.#front, edit });
  }

  /** Returns a connector whose links belong to `actor`. */
  #connector(actor: Actor): ReturnType<Network["connector"]> {
    const connect = this.network.connector({ readsWhileIdle: true });
    return (options) => {
      this.#owners.set(this.network.connects, actor);
      return connect(options);
    };
  }

  async #main(): Promise<void> {
    for (const one of this.#program.beside) this.world.after(one.at, () => this.#beside(one));
    await Promise.all(this.#actors.map((actor) => actor.act()));
  }

  #happened(fault: Fault): void {
    this.disturbed++;
    this.#owners.get(fault.link)?.meets(fault.kind);
  }

  #beside({ kind, which }: Beside): void {
    const { server, world } = this;
    if (kind === "restart" || kind === "freeze") {
      world.note("beside", kind === "restart" ? "restarts the server" : "the process stands still");
      this.disturbed++;
      for (const actor of this.#actors) actor.meets(kind);
      if (kind === "restart") return server.restart(50);
      this.network.forgetAll();
      return world.freeze(FROZEN);
    }
    const backends = server.backends.filter(({ state }) => state !== "starting");
    const backend = backends[which % Math.max(1, backends.length)];
    if (!backend) return;
    world.note("beside", `${kind} ${backend.processId}`);
    this.disturbed++;
    this.#actors.find(({ role }) => role === backend.user)?.meets(kind);
    server[kind](backend.processId);
  }

  /** Checks what must hold when everything is over. */
  #atRest(): void {
    const { network, server, world, shared } = this;
    for (const error of uncaught) this.find("escapes", described(error));
    if (world.timers) this.find("timerLeft", `${world.timers} timers are left`);
    if (network.open) this.find("connectionLeft", `${network.open} sockets are left`);
    for (const { processId, state } of server.backends)
      this.find("connectionLeft", `backend ${processId} is left, ${state}`);
    for (const text of server.unknownStatements) throw new Error(`the server model does not know ${text}`);
    for (const actor of this.#actors) actor.atRest();
    const found = new Map<number, number>();
    for (const n of server.ledger) found.set(n, (found.get(n) ?? 0) + 1);
    for (const text of shared.ledger.compare(found)) {
      const { row } = ofLedger(text);
      this.find(row, text);
    }
  }
}

interface Made {
  readonly step: Step;
  readonly call: Call;
}

/** One client or pool, and what it does. */
class Actor {
  readonly role: string;
  readonly user: User;
  readonly #session: Session;
  readonly #tasks: readonly { readonly task: Task; readonly made: readonly Made[] }[];
  /** What has happened to the actor's connections. */
  readonly #met = new Set<string>();
  #isEnding = false;
  /** The last call of a client that takes only one call at a time. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(session: Session, user: User, number: number) {
    this.#session = session;
    this.user = user;
    this.role = `u${number}`;
    const borrows = (task: Task) => user.kind === "pool" && task.on === "self";
    const make = (step: Step, task: Task): Call => {
      const dice = new Dice(step.seed);
      const { shared } = session;
      return step.kind === "transaction" ? transaction(dice, shared) : callOf(dice, shared, borrows(task));
    };
    this.#tasks = user.tasks.map((task) => ({
      task,
      made: task.steps.map((step) => ({ step, call: make(step, task) })),
    }));
  }

  meets(what: string): void {
    this.#met.add(what);
  }

  async act(): Promise<void> {
    const { user, role } = this;
    const access: Access = {
      host: this.#session.hostOf(this),
      user: role,
      password: `secret ${role.slice(1)}`,
      database: "simulation",
    };
    const database = this.#session.peer.open(user, access);
    const tasks = Promise.all(this.#tasks.map(({ task, made }) => this.#task(database, task, made)));
    const ended = (async () => {
      const early = user.end.at;
      if (early === undefined) await tasks;
      else await new Promise((resolve) => setTimeout(resolve, early));
      this.#isEnding = true;
      await this.#end(database, tasks);
    })();
    await Promise.all([tasks, ended]);
  }

  /** `end` may wait for running calls and leases, so its time begins when all calls are over. */
  async #end(database: Database, tasks: Promise<unknown>): Promise<void> {
    const { find, world } = this.#bound();
    world.note(this.role, "ends");
    const ending = database.end(this.user.end.how === "destroy");
    const behindTasks = tasks.then(() => settled(ending, this.#session.deadline));
    const error = await Promise.race([outcome(ending), behindTasks]);
    world.note(this.role, `has ended${error === undefined ? "" : ` with ${described(error)}`}`);
    if (error instanceof Late) find(this.#inSilence("endHangs"), `${this.role}: its end`);
    else if (error !== undefined && !this.#hasCause())
      find("unexplained", `${this.role}: its end: ${described(error)}`);
  }

  /** Checks that the server has seen no more backends than there may be. */
  atRest(): void {
    const { user, role } = this;
    const { find, session } = this.#bound();
    const { server, network } = session;
    if (network.weather.jitter || this.#hasCause() || isDisturbed(user)) return;
    const most = user.kind === "pool" ? (user.options["max"] as number) : 1;
    const seen = server.mostBackendsOf(role);
    if (seen > most) find("tooMany", `${role} may have ${most} connections, and the server has seen ${seen}`);
  }

  async #task(database: Database, task: Task, made: readonly Made[]): Promise<void> {
    if (task.on === "self" || this.user.kind === "client") {
      for (const one of made) await this.#inTurn(() => this.#step(database, one));
      return;
    }
    const { find, world } = this.#bound();
    world.note(this.role, "borrows");
    const lease = await withValue(database.lease(), this.#session.deadline);
    if ("error" in lease) {
      world.note(this.role, `borrows nothing: ${codeOf(lease.error)}`);
      if (lease.error instanceof Late) find(this.#inSilence("hangs"), `${this.role}: a connection to borrow`);
      else if (!this.#hasCause()) find("unexplained", `${this.role}: to borrow: ${described(lease.error)}`);
      return;
    }
    for (const one of made) await this.#step(lease.value, one);
    const error = await settled(lease.value.release(), this.#session.deadline);
    if (error instanceof Late) find(this.#inSilence("hangs"), `${this.role}: release()`);
    else if (error !== undefined) find("unexplained", `${this.role}: release(): ${described(error)}`);
  }

  async #inTurn(step: () => Promise<void>): Promise<void> {
    if (!this.#session.peer.isSerial || this.user.kind === "pool") return step();
    await (this.#turn = this.#turn.then(step));
  }

  async #step(on: Caller, { step, call }: Made): Promise<void> {
    const { world, session } = this.#bound();
    if (step.pause) await new Promise((resolve) => setTimeout(resolve, step.pause));
    const how: Disturbed = {
      ...(step.abort !== undefined && { abort: step.abort }),
      ...(step.timeout !== undefined && { timeout: step.timeout }),
    };
    if (call.numbers) session.shared.ledger.begin(call.numbers);
    world.note(this.role, `calls ${call.says} ${JSON.stringify(how)}`);
    session.calls++;
    const error = await settled(call.run(on, how), session.deadline);
    world.note(this.role, `${error === undefined ? "has" : codeOf(error)} ${call.says}`);
    this.#judge(call, step, error);
  }

  #judge(call: Call, step: Step, error: unknown): void {
    const { find, session } = this.#bound();
    const { ledger } = session.shared;
    const { numbers = [], fails, settles, says } = call;
    const name = `${this.role}: ${says}`;
    if (error === undefined) {
      if (fails) return find("mixes", `${name}: did not fail with ${fails}`);
      if (!settles) ledger.settle(numbers, "stored");
      return;
    }
    if (error instanceof Late) return find(this.#inSilence("hangs"), name);
    if (error instanceof AssertionError) return find("mixes", `${name}: ${error.message}`);
    if (error instanceof Holes) return find("holes", `${name}: ${error.message}`);
    if (error instanceof LeftBehind) return find("settings", `${name}: ${error.message}`);
    const code = codeOf(error);
    // The numbers, if any, are settled already.
    if (code === fails) return;
    const told = session.peer.tells(error, !!settles);
    if (told !== "unknown") ledger.settle(numbers, told === "stored" ? "stored" : "absent");
    if (isCancelOfAnother(error) && step.abort === undefined && step.timeout === undefined && !this.#met.has("cancel"))
      return find("cancelsAnother", `${name}: ${described(error)}`);
    if (!this.#hasCause() && step.abort === undefined && step.timeout === undefined && !this.#isBusy(code))
      find("unexplained", `${name}: ${described(error)}`);
  }

  /** Ours refuses a call on a connection that another task's transaction or stream uses, and reports it. */
  #isBusy(code: string): boolean {
    return this.user.tasks.length > 1 && /^(STREAM_OPEN|TRANSACTION_OPEN)$/.test(code);
  }

  #hasCause(): boolean {
    const { user } = this;
    return this.#met.size > 0 || (this.#isEnding && user.end.at !== undefined) || isDisturbed(user);
  }

  #inSilence(row: "hangs" | "endHangs"): Row {
    return SILENT.some((kind) => this.#met.has(kind)) ? `${row}InSilence` : row;
  }

  #bound() {
    const session = this.#session;
    return { session, world: session.world, find: (row: Row, text: string) => session.find(row, text) };
  }
}

/** Whether a stopped call may give up its connection, which affects other calls of the same user. */
function isDisturbed({ tasks, end }: User): boolean {
  const steps = tasks.flatMap((task) => task.steps);
  return end.at !== undefined || steps.some(({ abort, timeout }) => abort !== undefined || timeout !== undefined);
}

const isCancelOfAnother = (error: unknown): boolean => codeOf(error) === "57014" && /user request/.test(String(error));

// -- settling ---------------------------------------------------------------------------------------------------------

class Late extends Error {}

async function withValue<T>(work: Promise<T>, deadline: number): Promise<{ value: T } | { error: unknown }> {
  let timer;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Late(`not settled within ${deadline} ms`)), deadline);
  });
  try {
    return { value: await Promise.race([work, late]) };
  } catch (error) {
    return { error: error ?? new Error("rejected with nothing") };
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the error that the work rejects with. */
const outcome = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error ?? new Error("rejected with nothing"),
  );

/** Returns the error that the work rejected with, or that it is late. */
async function settled(work: Promise<unknown>, deadline: number): Promise<unknown> {
  const result = await withValue(work, deadline);
  return "error" in result ? result.error : undefined;
}

// -- telling ----------------------------------------------------------------------------------------------------------

function tapOf(world: World) {
  const readers = new Map<string, Messages>();
  return (link: number, direction: ">" | "<", bytes: Uint8Array) => {
    const who = `link ${link} ${direction}`;
    world.noteBytes(who, bytes, () => {
      let reader = readers.get(who);
      if (!reader) readers.set(who, (reader = new Messages(direction)));
      return reader.read(bytes);
    });
  };
}

function codeOf(error: unknown): string {
  const { code, message } = Object(error) as { code?: string; message?: string };
  return code ?? message ?? String(error);
}

function described(error: unknown): string {
  const { code = "", stack } = Object(error) as { code?: string; stack?: string };
  return `${code} ${stack ?? String(error)}`.trim();
}
