// One simulated session: plays a program against a server model, and says what did not hold.
//
// What must hold, whatever is drawn:
//   every call settles within its time, with its right answer or with an error that something has caused
//   what was acknowledged is stored once; what was `retryable` is not stored; a group is stored whole or not at all
//   the server never sees more backends of a user than the user may have
//   in the end nothing is left: no backend, lock, transaction, socket, timer, memory of the wasm, unhandled rejection
//   the driver keeps the socket contract
//
// Knows users, faults and which errors these explain. Must not know what a call does (tests/random), how a network or a
// server works, or where programs come from (program.ts).
import { driver } from "./driver.ts";
import type * as pgz from "../../js/index.ts";
import { webSocket } from "../../js/sockets/websocket.ts";
import { AssertionError } from "../integration/assert.ts";
import { callWhich } from "../random/calls.ts";
import { Dice } from "../random/dice.ts";
import { Ledger } from "../random/ledger.ts";
import type { Caller, Disturbed, Plan, World as CallWorld } from "../random/plan.ts";
import { transaction } from "../random/transactions.ts";
import { Network, type Fault } from "./network.ts";
import { registered } from "./patches.ts";
import type { Beside, Program, Step, Task, User } from "./program.ts";
import { Server } from "./server/server.ts";
import { Messages } from "./timeline.ts";
import { webSocketClass } from "./websocket.ts";
import { World } from "./world.ts";

export interface Report {
  readonly program: Program;
  readonly faults: string[];
  readonly fingerprint: string;
  readonly lines: readonly string[];
  readonly calls: number;
  readonly events: number;
  /** Faults of the network and of somebody beside that happened. */
  readonly disturbed: number;
  /** Virtual milliseconds. */
  readonly took: number;
}

/** Virtual milliseconds in which each call must settle: its own time is at most the client's `timeout`. */
const DEADLINE = 90_000;
/** The `timeout` of every client, so that a silent link ends too. */
const TIMEOUT = 20_000;
/** Virtual milliseconds behind the last call, in which all that is left has to end by itself. */
const REST = 400_000;

/** Names of hosts never come again in a process, so that no session finds what another one has learned. */
let sessions = 0;

/** What nobody caught, while a session ran. */
const uncaught: unknown[] = [];
for (const event of ["unhandledRejection", "uncaughtException"] as const)
  process.on(event, (error: unknown) => void uncaught.push(error));

export async function play(program: Program, keepsLines = false): Promise<Report> {
  return await new Session(program, keepsLines).play();
}

class Session {
  readonly world: World;
  readonly ledger = new Ledger();
  readonly server: Server;
  readonly network: Network;
  readonly faults: string[] = [];
  readonly host = `h${++sessions}.test`;
  calls = 0;
  disturbed = 0;
  readonly #program: Program;
  readonly #actors: Actor[];
  /** Who asked for each link. */
  readonly #owners = new Map<number, Actor>();

  constructor(program: Program, keepsLines: boolean) {
    this.#program = program;
    const world = (this.world = new World(program.seed, keepsLines));
    const { version, authentication, thinks } = program.server;
    const roles = Object.fromEntries(program.users.map((_, at) => [`u${at}`, { password: `secret ${at}` }]));
    const dice = world.dice("server");
    const thinkTime = () => (thinks ? dice.below(thinks * 100) / 100 : 0);
    this.server = new Server(world, dice, { version, authentication, maxConnections: 100, roles, thinkTime });
    this.network = new Network(
      world,
      (purpose) => world.dice(purpose),
      program.weather,
      program.faults,
      tapOf(world),
      (fault) => this.#happened(fault),
    );
    this.network.addHost(this.host, this.server);
    this.#actors = program.users.map((user, at) => new Actor(this, user, at));
  }

  async play(): Promise<Report> {
    const { world, faults } = this;
    const handles = registered;
    uncaught.length = 0;
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
      calls: this.calls,
      events: world.events,
      disturbed: this.disturbed,
      took: world.now,
    };
  }

  /** A connector whose links belong to `actor`. */
  connectorFor(actor: Actor) {
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
    this.disturbed++;
    this.#owners.get(fault.link)?.meets(fault.kind);
  }

  #beside({ kind, which }: Beside): void {
    const { server, world } = this;
    if (kind === "restart") {
      world.note("beside", "restarts the server");
      this.disturbed++;
      for (const actor of this.#actors) actor.meets("restart");
      return server.restart(50);
    }
    if (kind === "freeze") {
      world.note("beside", "the process stands still");
      this.disturbed++;
      for (const actor of this.#actors) actor.meets("freeze");
      this.network.loseAll();
      return world.freeze(60_000);
    }
    // Nobody has the key of one that is still logging in.
    const backends = server.backends.filter(({ state }) => state !== "starting");
    const backend = backends[which % Math.max(1, backends.length)];
    if (!backend) return;
    world.note("beside", `${kind} ${backend.processId}`);
    this.disturbed++;
    this.#actors.find(({ role }) => role === backend.user)?.meets(kind);
    server[kind](backend.processId);
  }

  #waiting(): string {
    return this.#actors.flatMap((actor) => actor.waiting()).join("; ");
  }

  /** What must be so when all is over. */
  #atRest(handles: number): void {
    const { faults, network, server, world, ledger } = this;
    faults.push(...network.violations);
    for (const error of uncaught) faults.push(`nobody caught ${described(error)}`);
    if (world.timers) faults.push(`${world.timers} timers are left`);
    if (network.open) faults.push(`${network.open} sockets are left`);
    if (registered !== handles) faults.push(`${registered - handles} handles of the wasm, or leases, are left`);
    for (const { processId, state } of server.backends) faults.push(`backend ${processId} is left, ${state}`);
    for (const text of server.unknownStatements) faults.push(`the server model does not know ${text}`);
    for (const lock of server.locks) faults.push(`a lock is left: ${JSON.stringify(lock)}`);
    if (server.openTransactions) faults.push(`${server.openTransactions} transactions are left open`);
    const found = new Map<number, number>();
    for (const n of server.ledger) found.set(n, (found.get(n) ?? 0) + 1);
    faults.push(...ledger.compare(found));
  }
}

/** One client or pool, and what it does. */
class Actor {
  readonly role: string;
  readonly user: User;
  readonly #session: Session;
  readonly #world: CallWorld;
  readonly #tasks: readonly { readonly task: Task; readonly steps: readonly { step: Step; plan: Plan }[] }[];
  /** What has happened to its connections. */
  readonly #met = new Set<string>();
  readonly #running = new Set<string>();
  #isEnding = false;

  constructor(session: Session, user: User, number: number) {
    this.#session = session;
    this.user = user;
    this.role = `u${number}`;
    this.#world = {
      schema: this.role,
      ledger: session.ledger,
      sql: driver.sql,
      gzip: false,
      hasOwnBody: false,
      columns: ["a", "b"],
      // Few sessions have results of many windows, which cost as much as ten others.
      mostRows: session.world.dice("rows").oneIn(8) ? 600 : 60,
      number: number * 400_000_000,
    };
    this.#tasks = user.tasks.map((task) => ({
      task,
      steps: task.steps.map((step) => ({ step, plan: this.#plan(step) })),
    }));
  }

  meets(what: string): void {
    this.#met.add(what);
  }

  waiting(): string[] {
    return [...this.#running];
  }

  async act(): Promise<void> {
    const { user, role } = this;
    const options: pgz.PoolOptions = {
      ...user.options,
      host: this.#session.host,
      user: role,
      password: `secret ${role.slice(1)}`,
      database: "simulation",
      sslmode: "disable",
      allowCleartextPassword: true,
      timeout: TIMEOUT,
      connect: this.#session.connectorFor(this),
      observer: user.observerThrows ? throwing() : { onHookError: () => {} },
      ...this.#hooks(),
    };
    const db = user.kind === "pool" ? driver.createPool(options) : driver.createClient(options);
    const tasks = Promise.all(this.#tasks.map(({ task, steps }) => this.#task(db, task, steps)));
    const early = user.end.at;
    const ended = (async () => {
      if (early === undefined) await tasks;
      else await new Promise((resolve) => setTimeout(resolve, early));
      this.#isEnding = true;
      await this.#within("its end", user.end.how === "close" ? db.close() : endHard(db));
    })();
    await Promise.all([tasks, ended]);
  }

  #hooks(): pgz.PoolHooks {
    const dice = this.#session.world.dice(`hooks of ${this.role}`);
    const hooks: Record<string, unknown> = {};
    for (const { name, does, oneIn } of this.user.hooks)
      hooks[name] = async (lease?: pgz.Lease) => {
        if (!dice.oneIn(oneIn)) return undefined;
        this.meets(`${name} ${does}`);
        this.#session.world.note(this.role, `${name} ${does}`);
        if (does === "throws") throw new HookError();
        if (does === "refuses") return false;
        if (does === "waits") await new Promise((resolve) => setTimeout(resolve, 40));
        if (does === "sets") await lease?.exec("set timezone = 'Asia/Tokyo'");
        return undefined;
      };
    return hooks as pgz.PoolHooks;
  }

  #plan(step: Step): Plan {
    const dice = new Dice(step.seed);
    const fits = (plan: Plan) => plan.kind !== "quiet" && !plan.hasSeveralTurns;
    return step.kind === "transaction"
      ? transaction(dice, this.#world, fits)
      : callWhich((plan) => fits(plan), dice, this.#world);
  }

  async #task(db: pgz.Client | pgz.Pool, task: Task, steps: readonly { step: Step; plan: Plan }[]): Promise<void> {
    if (task.on === "self" || !(db instanceof driver.Pool)) {
      for (const { step, plan } of steps) await this.#step(db, step, plan);
      return;
    }
    let lease: pgz.Lease;
    try {
      lease = await db.acquire();
    } catch (error) {
      if (!this.#explains(error, new Set(["ACQUIRE_TIMEOUT"])))
        this.#session.faults.push(`acquire: ${described(error)}`);
      return;
    }
    for (const { step, plan } of steps) await this.#step(lease, step, plan);
    await this.#within("release()", lease.release());
  }

  async #step(on: pgz.Client | pgz.Pool | pgz.Lease, step: Step, plan: Plan): Promise<void> {
    const { ledger, world } = this.#session;
    if (step.pause) await new Promise((resolve) => setTimeout(resolve, step.pause));
    const options: Disturbed = {};
    let timer;
    if (step.timeout !== undefined) options.timeout = step.timeout;
    if (step.abort !== undefined) {
      const controller = new AbortController();
      options.signal = controller.signal;
      timer = setTimeout(() => controller.abort(), step.abort);
    }
    for (const group of plan.groups ?? []) ledger.begin(group);
    const name = `${this.role}: ${plan.says}`;
    world.note(this.role, `calls ${plan.says}${disturbance(step)}`);
    this.#session.calls++;
    const error = await this.#within(
      name,
      plan.run(on as Caller, options).then(
        () => undefined,
        (reason: unknown) => reason ?? new Error("rejected with nothing"),
      ),
    );
    clearTimeout(timer);
    world.note(this.role, `${error === undefined ? "has" : codeOf(error)} ${plan.says.split("\n")[0]}`);
    this.#judge(name, plan, step, error);
  }

  async #within<T>(name: string, work: Promise<T>): Promise<T | Error> {
    this.#running.add(name);
    let timer;
    const late = new Promise<Error>((resolve) => {
      timer = setTimeout(() => resolve(new AssertionError(`not settled within ${DEADLINE} ms`)), DEADLINE);
    });
    try {
      const done = await Promise.race([work, late]);
      if (done instanceof AssertionError) this.#session.faults.push(`${name}: ${done.message}`);
      return done;
    } finally {
      clearTimeout(timer);
      this.#running.delete(name);
    }
  }

  #judge(name: string, plan: Plan, step: Step, error: unknown): void {
    const numbers = plan.groups?.flat() ?? [];
    const { ledger, faults } = this.#session;
    if (error === undefined) {
      if (plan.fails) return void faults.push(`${name}: did not fail with ${plan.fails}`);
      if (!plan.settles) ledger.settle(numbers, "stored");
      return;
    }
    const { code = "", retryable, severity } = error as { code?: string; retryable?: boolean; severity?: string };
    const own = new Set<string>(["QUERY_TIMEOUT"]);
    if (plan.fails) own.add(plan.fails);
    if (step.abort !== undefined) own.add("ABORTED");
    if (this.user.kind === "pool") own.add("ACQUIRE_TIMEOUT");
    if (error instanceof AssertionError || !this.#explains(error, own)) faults.push(`${name}: ${described(error)}`);
    if (code === plan.fails && plan.settles) return;
    if (retryable || (severity === "ERROR" && !plan.settles)) ledger.settle(numbers, "absent");
  }

  /** Whether something that has happened explains this error. */
  #explains(error: unknown, own: ReadonlySet<string>): boolean {
    const code = (error as { code?: string }).code ?? "";
    if (own.has(code)) return true;
    if (this.user.tasks.length > 1 && /^(STREAM_OPEN|TRANSACTION_OPEN)$/.test(code)) return true;
    if (this.#isEnding && /^(CLIENT_CLOSED|POOL_CLOSED|LEASE_RELEASED|CONNECTION_LOST)$/.test(code)) return true;
    return [...this.#met].some((what) => EXPLAINED[what]?.test(code));
  }
}

const NETWORK = /^(CONNECTION_LOST|CONNECT_FAILED|CONNECT_TIMEOUT)$/;

/** The errors that each fault, and each thing that somebody else does, may cause. */
const EXPLAINED: Record<string, RegExp> = {
  refuse: NETWORK,
  unresolved: NETWORK,
  hang: NETWORK,
  fin: NETWORK,
  rst: NETWORK,
  silence: NETWORK,
  deaf: NETWORK,
  mute: NETWORK,
  terminate: /^(57P01|CONNECTION_LOST)$/,
  cancel: /^57014$/,
  restart: /^(57P01|57P03|CONNECTION_LOST|CONNECT_FAILED)$/,
  freeze: /^(CONNECTION_LOST|CONNECT_FAILED|CONNECT_TIMEOUT)$/,
  "beforeConnect throws": /^HOOK$/,
  "afterConnect throws": /^HOOK$/,
  "beforeAcquire throws": /^HOOK_REFUSED$/,
  "beforeAcquire refuses": /^HOOK_REFUSED$/,
  // Its statement meets what else happens to the connection.
  "beforeAcquire sets": /^HOOK_REFUSED$/,
};

/** What a user's hook throws. */
class HookError extends Error {
  readonly code = "HOOK";
}

/** An observer each of whose hooks throws. */
function throwing(): pgz.Observer {
  const hooks = [
    "onHookError",
    "onConnectStart",
    "onAcquireStart",
    "onParameterChange",
    "onQueryStart",
    "onQueryEnd",
    "onConnect",
    "onDisconnect",
    "onNotice",
    "onAcquire",
    "onRelease",
    "onRetry",
  ];
  const fail = () => {
    throw new Error("an observer's hook throws");
  };
  return Object.fromEntries(hooks.map((name) => [name, fail])) as pgz.Observer;
}

function endHard(db: pgz.Client | pgz.Pool): Promise<void> {
  return db instanceof driver.Pool ? db.close({ timeout: 0 } as never) : db.close();
}

function disturbance({ abort, timeout }: Step): string {
  const marks = [
    abort === undefined ? [] : [`abort after ${abort}`],
    timeout === undefined ? [] : [`timeout ${timeout}`],
  ].flat();
  return marks.length ? ` (${marks.join(", ")})` : "";
}

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
  return (error as { code?: string }).code ?? String(error);
}

function described(error: unknown): string {
  const { code = "", stack } = Object(error) as { code?: string; stack?: string };
  return `${code} ${stack ?? String(error)}`;
}
