// One client or pool of a simulated session: what it does, and whether the outcome is right.
//
// Knows which faults explain which errors, and what a call's error says about what the call has written. Must not know
// what a call does (tests/random, calls/), or how faults arise (session.ts).
import { driver } from "./driver.ts";
import { poolOptionNames } from "../../js/pool/options.ts";
import type * as pgz from "../../js/index.ts";
import { AssertionError } from "../integration/assert.ts";
import { callWhich } from "../random/calls.ts";
import { Dice } from "../random/dice.ts";
import type { Caller, Disturbed, Plan } from "../random/plan.ts";
import { transaction } from "../random/transactions.ts";
import { anyCalls, clientCalls, ownCalls, poolCalls, type CallPlan, type CallWorld, type Make } from "./calls/index.ts";
import { PoolWatch } from "./pool-watch.ts";
import { PATIENCE, type Step, type Task, type User } from "./program.ts";
import { described, type Session } from "./session.ts";

/** Virtual milliseconds in which each call must settle: more than any client's `timeout`. */
const DEADLINE = 90_000;
/** A pool looks at its idle connections twice in this time, and what it then does takes no longer. */
const LATE = 2_800;

/** Longer than any session. */
const REST = 200_000;

/** A step and the call that it makes. */
interface Move {
  readonly step: Step;
  readonly plan: CallPlan;
}

export class Actor {
  readonly role: string;
  readonly user: User;
  readonly #session: Session;
  readonly #world: CallWorld & { options?: pgz.Options };
  readonly #tasks: readonly { readonly task: Task; readonly moves: readonly Move[] }[];
  /** What has happened to the actor's connections, and when it last happened. */
  readonly #met = new Map<string, number>();
  readonly #running = new Set<string>();
  /** The errors that calls have rejected with. Each call must reject with an object of its own. */
  readonly #errors = new WeakSet<object>();
  /** Codes with which calls may end because of another call of the same user. */
  readonly #caused = new Set<string>();
  /** What an observer was told. */
  readonly #told = { connects: { begun: 0, over: 0 }, calls: { begun: 0, over: 0 } };
  /** How many times a hook threw at the cost of a waiter, minus the waiters that have paid for it. */
  #unpaidThrows = 0;
  #db: pgz.Client | pgz.Pool | undefined;
  #watch: PoolWatch | undefined;
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
      // Few sessions have results of many windows, because such a session costs as much as ten others.
      mostRows: session.world.dice("rows").oneIn(8) ? 600 : 60,
      number: number * 400_000_000,
      followed: session.followed,
      leftSlots: session.leftSlots,
    };
    this.#tasks = user.tasks.map((task) => ({
      task,
      moves: task.steps.map((step) => ({ step, plan: this.#plan(step, task) })),
    }));
  }

  meets(what: string): void {
    this.#met.set(what, this.#session.world.now);
  }

  /** Called whenever all promises have come to rest. */
  look(): void {
    this.#watch?.look();
  }

  waiting(): string[] {
    return [...this.#running];
  }

  async act(): Promise<void> {
    const { user, role } = this;
    const options: pgz.PoolOptions = {
      timeout: PATIENCE,
      ...user.options,
      host: this.#session.host,
      user: role,
      password: `secret ${role.slice(1)}`,
      database: "simulation",
      sslmode: "disable",
      allowCleartextPassword: true,
      connect: this.#session.connectorFor(this),
      observer: user.observerThrows ? throwing() : user.hooks.length ? this.#counting() : undefined,
      ...this.#hooks(),
    };
    const isOfPool = (name: string) => poolOptionNames().includes(name) || name === "pipelining";
    this.#world.options = Object.fromEntries(Object.entries(options).filter(([name]) => !isOfPool(name)));
    const db = user.kind === "pool" ? driver.createPool(options) : driver.createClient(options);
    this.#db = db;
    if (db instanceof driver.Pool)
      this.#watch = new PoolWatch(
        db,
        options.maxConnecting ?? 5,
        (fault) => this.#fault(fault),
        this.#session.coverage,
      );
    const tasks = Promise.all(this.#tasks.map(({ task, moves }) => this.#task(db, task, moves)));
    const early = user.end.at;
    const ended = (async () => {
      if (early === undefined) await tasks.then(() => this.#linger(db));
      else await new Promise((resolve) => setTimeout(resolve, early));
      this.#isEnding = true;
      await this.#within("its end", user.end.how === "close" ? db.close() : endHard(db));
    })();
    await Promise.all([tasks, ended]);
  }

  /**
   * A pool that is left alone closes connections that are idle for too long or too old, keeps `min`, and checks
   * liveness.
   */
  async #linger(pool: pgz.Client | pgz.Pool): Promise<void> {
    const { lingers = 0, options } = this.user;
    if (!lingers || !(pool instanceof driver.Pool)) return;
    await new Promise((resolve) => setTimeout(resolve, lingers));
    if (this.#met.size || isDisturbed(this.user)) return;
    const { idle, total, acquired, connecting } = pool.stats();
    // A stream without a reader keeps its connection.
    if (acquired || connecting) return;
    // Listeners and the clients that calls make have their own connections, which may stay.
    if (this.#tasks.some(({ moves }) => moves.some(({ plan }) => plan.connections))) return;
    const { min, idleTimeout, maxLifetime, healthCheckInterval } = options as Record<string, number>;
    if (total < min!) this.#fault(`has ${total} connections, and must have ${min}`);
    if (idleTimeout! + LATE < lingers && idle > min!) this.#fault(`${idle} connections are idle for too long`);
    const { server, pooler, world } = this.#session;
    const own = pooler ? [] : server.backends.filter(({ user }) => user === this.role);
    const tooOld = own.filter(({ startedAt }) => world.now - startedAt > maxLifetime! + LATE);
    if (tooOld.length) this.#fault(`${tooOld.length} connections are too old`);
    const silences = this.#session.silencesOf(this);
    const quiet = silences.filter((milliseconds) => milliseconds > healthCheckInterval! + LATE);
    if (healthCheckInterval && quiet.length)
      this.#fault(`${quiet.length} connections were not asked for a sign of life`);
    const isAsked = silences.some((milliseconds) => milliseconds < lingers / 2);
    const isSettled = Math.min(idleTimeout!, maxLifetime!) > lingers;
    if (isAsked && isSettled && healthCheckInterval !== 100) this.#fault("a connection is asked though it need not be");
  }

  /**
   * Checks that the server has seen no more backends than there may be, and that no more calls failed than were made.
   */
  atRest(): void {
    const { user, role } = this;
    if (!this.#db) return; // it could not be made, which is a fault of its own
    const { queries, errors } = this.#db.stats();
    if (queries < errors) this.#fault(`counts ${queries} calls, of which ${errors} have failed`);
    for (const [what, { begun, over }] of Object.entries(this.#told))
      if (begun !== over) this.#fault(`an observer was told of ${begun} ${what}, and that ${over} are over`);
    const { server, network } = this.#session;
    // A pooler has its own connections to the server.
    if (network.weather.jitter || this.#met.size || isDisturbed(user) || this.#session.pooler) return;
    const own = user.kind === "pool" ? ((user.options["max"] as number | undefined) ?? 10) : 1;
    const moves = this.#tasks.flatMap((task) => task.moves);
    const most = moves.reduce((sum, { plan }) => sum + (plan.connections ?? 0), own);
    const seen = server.mostBackendsOf(role);
    if (seen > most) this.#fault(`may have ${most} connections, and the server has seen ${seen}`);
    const { connects = 0 } = this.#watch?.pool.stats() ?? {};
    if (connects > most && keepsConnections(user))
      this.#fault(`has connected ${connects} times for ${most} connections`);
  }

  #counting(): pgz.Observer {
    const { connects, calls } = this.#told;
    return {
      onHookError: () => {},
      onConnectStart: () => void connects.begun++,
      onConnect: () => void connects.over++,
      onQueryStart: () => void calls.begun++,
      onQueryEnd: () => void calls.over++,
    };
  }

  #fault(text: string): void {
    this.#session.faults.push(`${this.role}: ${text}`);
  }

  #hooks(): pgz.PoolHooks {
    const dice = this.#session.world.dice(`hooks of ${this.role}`);
    const hooks: Record<string, unknown> = {};
    for (const { name, does, oneIn } of this.user.hooks)
      hooks[name] = async (lease?: pgz.Lease) => {
        if (!dice.oneIn(oneIn)) return undefined;
        this.meets(`${name} ${does}`);
        this.#session.world.note(this.role, `${name} ${does}`);
        if (does === "throws") {
          if (name === "beforeConnect" || name === "afterConnect") this.#unpaidThrows++;
          throw new HookError();
        }
        if (does === "refuses") return false;
        if (does === "waits") await new Promise((resolve) => setTimeout(resolve, 40));
        if (does === "sets") await lease?.exec("set timezone = 'Asia/Tokyo'");
        return undefined;
      };
    return hooks as pgz.PoolHooks;
  }

  #plan(step: Step, task: Task): CallPlan {
    const dice = new Dice(step.seed);
    if (step.kind === "more") return this.#drawn(dice, this.#calls(task));
    const fits = (plan: Plan) => plan.kind !== "quiet" && !plan.hasSeveralTurns;
    return step.kind === "transaction" ? transaction(dice, this.#world, fits) : callWhich(fits, dice, this.#world);
  }

  #drawn(dice: Dice, makes: readonly Make[]): CallPlan {
    for (;;) {
      const plan = dice.pick(makes)(dice, this.#world);
      if (!plan.isDirect || !this.#session.pooler) return plan;
    }
  }

  /** The calls of calls/ that the object on which the task runs supports. */
  #calls(task: Task): readonly Make[] {
    const { kind } = this.user;
    if (kind === "client") return [...anyCalls, ...ownCalls, ...clientCalls];
    return task.on === "self" ? [...anyCalls, ...ownCalls, ...poolCalls] : [...anyCalls, ...ownCalls];
  }

  async #task(db: pgz.Client | pgz.Pool, task: Task, moves: readonly Move[]): Promise<void> {
    if (task.on === "self" || !(db instanceof driver.Pool)) {
      for (const move of moves) await this.#move(db, move);
      return;
    }
    const since = this.#session.world.now;
    let lease: pgz.Lease;
    try {
      lease = await db.acquire();
    } catch (error) {
      if (!this.#explains(error, since, new Set(), db)) this.#fault(`acquire: ${described(error)}`);
      return;
    }
    for (const move of moves) await this.#move(lease, move);
    await this.#within("release()", lease.release());
  }

  async #move(on: pgz.Client | pgz.Pool | pgz.Lease, { step, plan }: Move): Promise<void> {
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
    for (const code of plan.causes ?? []) this.#caused.add(code);
    for (const group of plan.groups ?? []) ledger.begin(group);
    const name = plan.says;
    const since = world.now;
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
    if (error !== undefined) this.#own(error);
    if (error !== undefined && this.#session.pooler) this.#endsItsConnection(plan, step);
    this.#session.coverage?.reach("call", kindOf(plan), error === undefined ? "well" : codeOf(error));
    this.#judge(on, plan, step, since, error);
  }

  /** Behind a pooler the next call on the same connection may find the connection gone. */
  #endsItsConnection({ says }: Plan, step: Step): void {
    if (says.startsWith("copyFrom")) this.meets("a COPY that failed");
    if (disturbance(step)) this.meets("a call that was stopped");
  }

  async #within<T>(name: string, work: Promise<T>): Promise<T | Error> {
    this.#running.add(name);
    let timer;
    const late = new AssertionError(`not settled within ${DEADLINE} ms`);
    const deadline = new Promise<Error>((resolve) => {
      timer = setTimeout(() => resolve(late), DEADLINE);
    });
    try {
      const done = await Promise.race([work, deadline]);
      if (done === late) this.#fault(`${name}: ${late.message}`);
      return done;
    } finally {
      clearTimeout(timer);
      this.#running.delete(name);
    }
  }

  /** Checks that no two calls reject with the same object: one caller would read what another has written into it. */
  #own(error: unknown): void {
    if (typeof error !== "object" || error === null) return;
    if (this.#errors.has(error)) this.#fault(`two calls reject with the same error: ${described(error)}`);
    this.#errors.add(error);
  }

  #judge(on: unknown, plan: Plan, step: Step, since: number, error: unknown): void {
    const numbers = plan.groups?.flat() ?? [];
    const { ledger } = this.#session;
    const name = plan.says;
    if (error === undefined) {
      if (plan.fails) return this.#fault(`${name}: did not fail with ${plan.fails}`);
      if (!plan.settles) ledger.settle(numbers, "stored");
      return;
    }
    const { code = "", hasNoEffect, severity } = error as { code?: string; hasNoEffect?: boolean; severity?: string };
    const own = new Set<string>();
    if (plan.fails) own.add(plan.fails);
    if (step.abort !== undefined) own.add("ABORTED");
    if (step.timeout !== undefined) own.add("QUERY_TIMEOUT");
    // A pool that has connected once waits for its server and retries. With `earlyQuery` the server may refuse a login
    // after the callback of a transaction has run, or after the caller has received the lease.
    const hasCallback = step.kind === "transaction" || plan.kind === "transaction";
    const { connections, takesLease = name.startsWith("a lease") } = plan as CallPlan;
    const isLent = takesLease && this.user.options["earlyQuery"] === true;
    const isOfPool = on instanceof driver.Pool && !connections && !hasCallback && !isLent;
    const isPatient = isOfPool && this.#watch!.connectedBefore(since);
    const hasGivenUp = isPatient && /^(CONNECT_FAILED|57P03)$/.test(code);
    if (hasGivenUp || !this.#explains(error, since, own, on)) this.#fault(`${name}: ${described(error)}`);
    if (code === plan.fails && plan.settles) return;
    if (hasNoEffect || (severity === "ERROR" && !plan.settles)) ledger.settle(numbers, "absent");
  }

  /** Whether the call itself (`own`), or an event that happened, explains this error of a call made at `since`. */
  #explains(error: unknown, since: number, own: ReadonlySet<string>, on: unknown): boolean {
    const code = (error as { code?: string }).code ?? "";
    const { kind, tasks, options } = this.user;
    if (code === "HOOK" && --this.#unpaidThrows < 0) return false;
    if (own.has(code) || this.#caused.has(code)) return true;
    const { timeout = PATIENCE } = options as { timeout?: number };
    const hasWaited = Math.round(this.#session.world.now - since) >= timeout;
    if (code === "QUERY_TIMEOUT" && timeout < PATIENCE && hasWaited) return true;
    // PgBouncer 1.18 lends each statement name to any client.
    const losesNames = this.#session.pooler?.version === "1.18" && options["prepare"] === "named";
    if (losesNames && /^(26000|42P05)$/.test(code)) return true;
    // The responses that a client has not waited for go to the next client, which takes them for its own: rows, shapes,
    // errors.
    if (this.#session.pooler?.hasStaleAnswers(this.role)) return true;
    // A late cancel may hit any call, and behind a pooler the SET that the pooler sends.
    if (this.#session.cancelsLate && this.#mayBe("cancel", code)) return true;
    if (tasks.length > 1 && /^(STREAM_OPEN|TRANSACTION_OPEN)$/.test(code)) return true;
    if (this.#isEnding && /^(CLIENT_CLOSED|POOL_CLOSED|LEASE_RELEASED|CONNECTION_LOST)$/.test(code)) return true;
    const isImpatient =
      kind === "pool" && ((options["acquireTimeout"] as number | undefined) ?? 30_000) < DEADLINE / 100;
    // The absence of a server is reported at once, unless the pool pauses after a hook has thrown.
    const isToldAtOnce = this.#met.has("absent") && !this.user.hooks.length;
    if (code === "ACQUIRE_TIMEOUT" && isImpatient && !isToldAtOnce) return true;
    return [...this.#met].some(([what, at]) => {
      // After a freeze the pool checks the liveness of connections that were idle. A connection that was connecting is
      // late, and connections in use may be shared.
      const isAlone = on instanceof driver.Pool && options["pipelining"] === 1 && !this.#session.pooler;
      // A hook's statement has the client's `timeout`, and its error fails the waiter for that connection.
      const isOfHook = code === "QUERY_TIMEOUT" && this.#met.has("afterConnect sets");
      if (what === "freeze" && isAlone && since > at) return isOfHook || /^(CONNECT_|HOOK_TIMEOUT$)/.test(code);
      return this.#mayBe(what, code);
    });
  }

  /** Whether this event, which has happened, may end a call with this code. */
  #mayBe(what: string, code: string): boolean {
    return EXPLAINED[what]?.test(code) || (this.#session.pooler !== undefined && POOLED[what]?.test(code)) || false;
  }
}

const NETWORK = /^(CONNECTION_LOST|CONNECT_FAILED|CONNECT_TIMEOUT)$/;
/** No side is told of these faults: only a time limit ends what waits. */
const SILENT = /^(CONNECTION_LOST|CONNECT_FAILED|(CONNECT|QUERY|ACQUIRE|HOOK)_TIMEOUT)$/;

/** The errors that each fault, and each action of a third party, may cause. */
const EXPLAINED: Record<string, RegExp> = {
  absent: /^CONNECT_FAILED$/,
  refuse: NETWORK,
  unresolved: NETWORK,
  hang: SILENT,
  fin: NETWORK,
  rst: NETWORK,
  silence: SILENT,
  deaf: SILENT,
  mute: SILENT,
  terminate: /^(57P01|CONNECTION_LOST)$/,
  // The cancel may hit ROLLBACK TO SAVEPOINT, and then the transaction reports it; or ROLLBACK, and then the connection
  // is lost.
  cancel: /^(57014|25P02|TRANSACTION_ROLLED_BACK|CONNECTION_LOST)$/,
  restart: /^(57P01|57P03|CONNECTION_LOST|CONNECT_FAILED)$/,
  freeze: SILENT,
  "beforeConnect throws": /^HOOK$/,
  "afterConnect throws": /^HOOK$/,
  "beforeAcquire throws": /^(HOOK_REFUSED|QUERY_TIMEOUT)$/,
  "beforeAcquire refuses": /^(HOOK_REFUSED|QUERY_TIMEOUT)$/,
  // The hook's statement meets whatever else happens to the connection.
  "beforeAcquire sets": /^(HOOK_REFUSED|QUERY_TIMEOUT)$/,
};

/**
 * The errors to add behind a pooler: it reports faults with a code of its own, or a statement name is gone with its
 * server connection.
 */
const POOLED: Record<string, RegExp> = {
  terminate: /^(08P01|26000)$/,
  // The pooler retries the login only after a while, and a second restart may fall into that time.
  restart: /^(08P01|26000|CONNECT_TIMEOUT)$/,
  cancel: /^08P01$/,
  // The pooler's own logins to the server were late, and it reports that to the next client.
  freeze: /^08P01$/,
  // The connection ends after these: its pooler has lost count, or a cancel may still be on its way.
  "a COPY that failed": /^CONNECTION_LOST$/,
  "a call that was stopped": /^(CONNECTION_LOST|08P01)$/,
};

/**
 * Whether the server may see the next connection before it notices the end of this one: a stopped call may give up its
 * connection.
 */
function isDisturbed({ tasks, end }: User): boolean {
  const steps = tasks.flatMap((task) => task.steps);
  return end.at !== undefined || steps.some(({ abort, timeout }) => abort !== undefined || timeout !== undefined);
}

/** Whether a pool has no reason to close a connection before the pool itself ends. */
function keepsConnections({ options, hooks, tasks }: User): boolean {
  const { idleTimeout = 0, maxLifetime = 0 } = options as Record<string, number>;
  const steps = tasks.flatMap((task) => task.steps);
  return Math.min(idleTimeout, maxLifetime) > REST && !hooks.length && !steps.some(({ kind }) => kind === "more");
}

/** The error that a user's hook throws. */
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
    "onChanges",
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

/** The first word of the description that is not a number. */
function kindOf({ says }: Plan): string {
  return /[a-z]\w*/i.exec(says)?.[0] ?? says;
}

function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? String(error);
}
