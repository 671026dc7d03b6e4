// A test's transaction over a client or a pool of pgz-edge/pg, and the object that replaces the source in the test.
// BEGIN, COMMIT and ROLLBACK in the SQL of the code under test become savepoints.
//
// Knows node-postgres' public members. Must not know the driver's calls (driver.ts).
import type { Client, Pool, PoolClient, QueryConfig, Submittable } from "../adapters/pg.ts";
import { UsageError, type Isolation } from "../index.ts";
import { noTest, testIsOver, type Around } from "./driver.ts";
import { statementsOf, type Statement } from "./control.ts";
import { SETTLE } from "./settle.ts";
import { Turns, type Turn } from "./turns.ts";

export type FacadeSource = Client | Pool;

type Callback = (error: Error | null | undefined, result?: unknown) => void;
type Listener = (...told: unknown[]) => void;
type Real = Client & Partial<Pick<PoolClient, "release">>;

/** The savepoint that replaces a transaction of the code under test. Only one is open at a time. */
const SAVEPOINT = "pgz_test";
/**
 * Milliseconds that the connection has to confirm the test's rollback. After that it is closed, which also rolls back.
 */
const ROLLBACK_DEADLINE = 2_000;
/** The process's own timers, because a test may replace the global ones. */
const { setTimeout, clearTimeout } = globalThis;

/** Whether `work` is still pending after {@link ROLLBACK_DEADLINE}. Rejects if `work` does. */
async function takesLong(work: Promise<unknown>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(resolve, ROLLBACK_DEADLINE, true)));
  try {
    return await Promise.race([work.then(() => false), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The state of one test: a connection with its transaction, and the queue of turns on it. */
class Running {
  readonly real: Real;
  readonly turns = new Turns();
  #isOver = false;

  constructor(real: Real) {
    this.real = real;
  }

  /** Runs a query for the test. After the test the connection belongs to another caller. */
  ask(query: string | QueryConfig, values?: unknown[]): Promise<unknown> {
    if (this.#isOver) return Promise.reject(testIsOver());
    return this.real.query(query, values);
  }

  /** Passes a cursor or a stream to the connection. Resolves when it is over. */
  async submit(query: Submittable, values: unknown, callback: unknown): Promise<void> {
    if (this.#isOver) throw testIsOver();
    this.real.query(query, values as undefined, callback as undefined);
    await this.real.query("");
  }

  get hasFailed(): boolean {
    return this.real.getTransactionStatus() === "E";
  }

  end(): Promise<unknown> {
    this.#isOver = true;
    this.turns.close(testIsOver);
    return this.real.query("rollback");
  }
}

export class FacadeTest<Source extends FacadeSource> implements Around<Source> {
  readonly db: Source;
  readonly #source: Source;
  readonly #isolation: Isolation | undefined;
  #running: Running | undefined;

  constructor(source: Source, isolation: Isolation | undefined) {
    this.#source = source;
    this.#isolation = isolation;
    this.db = isPool(source) ? this.#poolOf(source) : this.#clientOf(source as Client);
  }

  async begin(): Promise<void> {
    if (this.#running)
      throw new UsageError(
        "TRANSACTION_OPEN",
        "Another test is using this database: tests that run at the same time must each use withRollback().",
      );
    const source = this.#source;
    const real: Real = isPool(source) ? await source.connect() : (source as Client);
    const level = this.#isolation ? ` isolation level ${this.#isolation}` : "";
    try {
      await real.query(`begin${level}`);
    } catch (error) {
      real.release?.(error);
      throw error;
    }
    this.#running = new Running(real);
  }

  async end(): Promise<void> {
    const running = this.#running;
    if (!running) return;
    this.#running = undefined;
    const { real } = running;
    const ended = running.end();
    try {
      let isLate = await takesLong(ended);
      if (isLate) {
        // Without a cancel the server would run it on and hold the test's locks, even if the connection is closed.
        await real.connection.cancel();
        isLate = await takesLong(ended);
      }
      // A cursor that is not read waits for ever. Closing its connection rolls it back.
      if (isLate && !real.release) real.connection.stream.destroy();
      else real.release?.(isLate);
    } catch (error) {
      real.release?.(error);
      throw error;
    }
  }

  #now(): Running {
    if (this.#running) return this.#running;
    throw noTest();
  }

  // -- the stand-ins --------------------------------------------------------------------------------------------------

  #poolOf(pool: Pool): Source {
    const own: Record<string, unknown> = {
      query: (input: unknown, values: unknown, callback: unknown) =>
        new Session(() => this.#now()).query(input, values, callback),
      connect: (callback?: (error: Error | undefined, client?: unknown, release?: unknown) => void) =>
        answered(
          Promise.resolve().then(() => this.#lent()),
          callback &&
            ((error, client) =>
              error ? callback(error) : callback(undefined, client, (client as PoolClient).release)),
        ),
      end: (callback?: Callback) => answered(this.#running ? Promise.resolve() : pool.end(), callback),
    };
    return standIn(pool, own) as Source;
  }

  /** Returns a client, as `pool.connect` does. */
  #lent(): unknown {
    const session = new Session(() => this.#now());
    const { real } = this.#now();
    const listeners: [string, Listener][] = [];
    let isReleased = false;
    const listens =
      (name: "on" | "once" | "addListener" | "prependListener") => (event: string, listener: Listener) => {
        listeners.push([event, listener]);
        real[name](event, listener);
        return client;
      };
    const client: unknown = standIn(real, {
      ...clientMembers(session),
      on: listens("on"),
      once: listens("once"),
      addListener: listens("addListener"),
      prependListener: listens("prependListener"),
      release: () => {
        if (isReleased) throw new Error("Release called on client which has already been released to the pool.");
        isReleased = true;
        for (const [event, listener] of listeners) real.removeListener(event, listener);
        session.leave();
      },
    });
    return client;
  }

  #clientOf(client: Client): Source {
    const session = new Session(() => this.#now());
    return standIn(client, {
      ...clientMembers(session),
      end: (callback?: Callback) => answered(this.#running ? Promise.resolve() : client.end(), callback),
    }) as Source;
  }
}

function isPool(source: FacadeSource): source is Pool {
  return "totalCount" in source;
}

function clientMembers(session: Session): Record<string, unknown> {
  return {
    query: (input: unknown, values: unknown, callback: unknown) => session.query(input, values, callback),
    getTransactionStatus: () => session.status,
    connect: (callback?: Callback) => answered(Promise.resolve(), callback),
    end: (callback?: Callback) => answered(Promise.resolve(), callback),
  };
}

/** Returns `target` with other members. A member that the code under test sets is kept here, and not on `target`. */
function standIn<T extends object>(target: T, own: Record<string, unknown>): T {
  const members = new Map<string | symbol, unknown>(Object.entries(own));
  return new Proxy(target, {
    get(_, name) {
      if (members.has(name)) return members.get(name);
      const value = Reflect.get(target, name, target) as unknown;
      const isMethod = typeof value === "function" && name !== "constructor" && typeof name === "string";
      return isMethod && !/^[A-Z]/.test(name) ? (value as Listener).bind(target) : value;
    },
    set: (_, name, value) => Boolean(members.set(name, value)),
    has: (_, name) => members.has(name) || name in target,
  });
}

/** Answers by the callback if there is one, else returns the promise. */
function answered<T>(promise: Promise<T>, callback: ((error: never, value?: T) => void) | undefined): unknown {
  if (!callback) return promise;
  const done = callback as (error: unknown, value?: unknown) => void;
  promise.then(
    (value) => queueMicrotask(() => done(undefined, value)),
    (error: unknown) => queueMicrotask(() => done(error)),
  );
  return undefined;
}

// -- a session of the code under test ---------------------------------------------------------------------------------

/**
 * One connection, as the code under test sees it. Its statements run in order, and a transaction that it begins has the
 * test's connection until it ends.
 */
class Session {
  readonly #now: () => Running;
  /** The turn of the open transaction. */
  #turn: Turn | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(now: () => Running) {
    this.#now = now;
  }

  get status(): "I" | "T" | "E" | null {
    return this.#turn ? this.#now().real.getTransactionStatus() : "I";
  }

  query(input: unknown, values: unknown, callback: unknown): unknown {
    if (typeof values === "function") [values, callback] = [undefined, values];
    if (typeof (input as Submittable | null)?.submit === "function")
      return this.#submit(input as Submittable, values, callback);
    let config = input as string | QueryConfig;
    if (typeof config === "object" && config?.callback) {
      callback ??= config.callback;
      const copy = Object.create(Object.getPrototypeOf(config) as object, Object.getOwnPropertyDescriptors(config));
      config = Object.assign(copy as QueryConfig, { callback: undefined });
    }
    const given = (values ?? undefined) as unknown[] | undefined;
    const text = typeof config === "string" ? config : (config?.text ?? "");
    const run = () => {
      const running = this.#now();
      const all = given ?? (config as QueryConfig | undefined)?.values;
      return this.#run(running, text, all, () => running.ask(config, given));
    };
    return answered(this.#next(run), callback as Callback | undefined);
  }

  /** Releases the client. An open transaction is rolled back, because a pool would close its connection. */
  leave(): void {
    void this.#next(async () => {
      if (this.#turn) await this.#undo(this.#now());
    }).catch(() => {});
  }

  /** Runs after all earlier calls. */
  #next<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#last.then(run);
    this.#last = result.catch(() => {});
    return result;
  }

  /** Runs a cursor or a stream, which reports to its reader by itself. */
  #submit(query: Submittable, values: unknown, callback: unknown): Submittable {
    const run = () => {
      const running = this.#now();
      return this.#run(running, query.text ?? "", undefined, () => running.submit(query, values, callback));
    };
    this.#next(run).catch((error: Error) => query.handleError(error, undefined as never)); // it was never sent
    return query;
  }

  async #run(
    running: Running,
    text: string,
    values: unknown[] | undefined,
    send: () => Promise<unknown>,
  ): Promise<unknown> {
    const statements = typeof text === "string" ? statementsOf(text) : [];
    if (!statements.some(({ control }) => control)) return await this.#plain(running, send);
    if (statements.length === 1) return await this.#control(running, statements[0]!);
    if (values?.length) return await this.#plain(running, () => running.ask("select 1; select 2", values)); // fails
    const results: unknown[] = [];
    for (const statement of statements)
      results.push(
        statement.control
          ? await this.#control(running, statement)
          : await this.#plain(running, () => running.ask(statement.text)),
      );
    return results;
  }

  /** Runs a statement, which is a transaction by itself unless one is open. */
  async #plain(running: Running, send: () => Promise<unknown>): Promise<unknown> {
    if (this.#turn) return await this.#turn.counts(send());
    const turn = await running.turns.take();
    try {
      return await turn.counts(alone(running, send));
    } finally {
      turn.release();
    }
  }

  // -- BEGIN, COMMIT, ROLLBACK ----------------------------------------------------------------------------------------

  async #control(running: Running, statement: Statement): Promise<unknown> {
    const { control, isReadOnly, chains } = statement;
    if (control === "begin") return await this.#begin(running, isReadOnly);
    // Without a transaction the server only warns.
    if (control === "characteristics")
      return tagged(await this.#asks(running, this.#turn && isReadOnly ? READ_ONLY : ""), "SET");
    if (control === "prepare")
      throw new UsageError("TRANSACTION_OPEN", "PREPARE TRANSACTION cannot be undone, so it cannot run in a test.");
    if (!this.#turn) return tagged(await running.ask(""), control === "commit" ? "COMMIT" : "ROLLBACK");
    // An error comes before ReadyForQuery, and only ReadyForQuery tells whether the transaction has failed. So wait for
    // it.
    await this.#asks(running, "");
    const keeps = control === "commit" && !running.hasFailed;
    const command = keeps ? await this.#commit(running) : await this.#undo(running);
    if (chains) await this.#begin(running, isReadOnly);
    return tagged(await running.ask(""), command);
  }

  /** Begins a transaction. Its isolation level is always the test's. */
  async #begin(running: Running, isReadOnly: boolean): Promise<unknown> {
    if (this.#turn) return tagged(await this.#asks(running, ""), "BEGIN"); // the server only warns
    this.#turn = await running.turns.take();
    const result = await this.#asks(running, `savepoint ${SAVEPOINT}`);
    if (isReadOnly) await this.#asks(running, READ_ONLY);
    return tagged(result, "BEGIN");
  }

  async #commit(running: Running): Promise<string> {
    try {
      await this.#asks(running, KEEP);
    } catch (error) {
      await this.#undo(running);
      throw error;
    }
    this.#over();
    return "COMMIT";
  }

  async #undo(running: Running): Promise<string> {
    try {
      await this.#asks(running, UNDO);
    } finally {
      this.#over();
    }
    return "ROLLBACK";
  }

  #over(): void {
    this.#turn?.release();
    this.#turn = undefined;
  }

  #asks(running: Running, text: string): Promise<unknown> {
    const asked = running.ask(text);
    return this.#turn ? this.#turn.counts(asked) : asked;
  }
}

/** Runs a statement in a savepoint of its own, as autocommit would run it. */
async function alone(running: Running, send: () => Promise<unknown>): Promise<unknown> {
  await running.ask(`savepoint ${SAVEPOINT}`);
  try {
    const result = await send();
    // A cursor reports its error to its reader and not here.
    await running.ask(running.hasFailed ? UNDO : KEEP);
    return result;
  } catch (error) {
    await running.ask(UNDO).catch(() => {}); // fails only if the connection is lost
    throw error;
  }
}

const READ_ONLY = "set local transaction_read_only = on";
const KEEP = `${SETTLE}; release savepoint ${SAVEPOINT}`;
const UNDO = `rollback to savepoint ${SAVEPOINT}; release savepoint ${SAVEPOINT}`;

/** Returns the result with the command that the code under test has sent. */
function tagged(result: unknown, command: string): unknown {
  return Object.assign(result as object, { command });
}
