// A test's transaction over a client or a pool of this driver, and the object that replaces the source in the test.
//
// Knows the members of a client, a pool and a lease: which of them are the test's, and which are the pool's own. Must
// not know how one call runs (calls.ts).
import { PgzError, UsageError } from "../index.ts";
import type { AcquireOptions, Client, Isolation, Pool, Transaction } from "../index.ts";
import { callsOf, refused, refuseControl, scopeOf, type Calls, type Host, type Method } from "./calls.ts";
import { FAILED_TRANSACTION, SETTLE } from "./settle.ts";
import { Turns, type Turn } from "./turns.ts";

/** A transaction around a test, and the object that the test uses instead of its source. */
export interface Around<Source> {
  readonly db: Source;
  begin(): Promise<void>;
  /** Rolls everything back. Rejects if the connection was lost. */
  end(): Promise<void>;
}

/** Members of a source that do not affect what a test writes. `listen` has a connection of its own. */
const PASSED: ReadonlySet<string> = new Set([
  ...["stats", "options", "on", "off", "resize", "reset", "waitIdle", "listen", "constructor", "config", "counters"],
]);

/** The state of one test: its transaction, and the queue of turns on it. */
interface Running {
  readonly transaction: Transaction;
  readonly turns: Turns;
  readonly session: SessionFacts;
}

interface SessionFacts {
  readonly processId: number;
  readonly parameters: Readonly<Record<string, string>>;
}

export class DriverTest<Source extends Client | Pool> implements Around<Source> {
  readonly db: Source;
  readonly #source: Source;
  readonly #isolation: Isolation | undefined;
  #running: Running | undefined;
  #rollBack: ((reason: UsageError) => void) | undefined;
  #over: Promise<unknown> | undefined;

  constructor(source: Source, isolation: Isolation | undefined) {
    this.#source = source;
    this.#isolation = isolation;
    this.db = this.#standIn();
  }

  async begin(): Promise<void> {
    if (this.#running)
      throw new UsageError(
        "TRANSACTION_OPEN",
        "Another test is using this database: tests that run at the same time must each use withRollback().",
      );
    const transaction = await new Promise<Transaction>((begun, failed) => {
      const hold = (tx: Transaction) =>
        new Promise<never>((_, rollBack) => {
          this.#rollBack = rollBack;
          begun(tx);
        });
      this.#over = this.#source.transaction(hold, { isolation: this.#isolation });
      this.#over.catch(failed);
    });
    try {
      this.#running = { transaction, turns: new Turns(), session: await factsOf(transaction) };
    } catch (error) {
      await this.#end();
      throw error;
    }
  }

  async end(): Promise<void> {
    this.#running?.turns.close(testIsOver);
    this.#running = undefined;
    await this.#end();
  }

  async #end(): Promise<void> {
    const rolledBack = testIsOver();
    this.#rollBack?.(rolledBack);
    const over = this.#over;
    this.#rollBack = this.#over = undefined;
    await over?.catch((reason: unknown) => {
      if (reason !== rolledBack) throw reason;
    });
  }

  // -- the stand-in ---------------------------------------------------------------------------------------------------

  #now(): Running {
    if (this.#running) return this.#running;
    throw noTest();
  }

  /** Runs calls of the source itself. Each takes a turn. */
  readonly #host: Host = {
    source: undefined as never,
    check: refuseControl,
    run: async (work) => {
      const { turns, transaction } = this.#now();
      const turn = await turns.take();
      try {
        return await savepoint(transaction, turn, work);
      } finally {
        turn.release();
      }
    },
  };

  #standIn(): Source {
    const source = this.#source;
    const host: Host = { ...this.#host, source };
    const own: Calls = {
      ...callsOf(host),
      scope: (options) => scopeOf(host, options as never),
      // The code under test may close the source after each of its calls, and a test may make several such calls.
      close: async () => (this.#running ? undefined : await source.close()),
    };
    if ("acquire" in source) own["acquire"] = (options) => this.#acquire(options as AcquireOptions | undefined);
    if ("drain" in source) own["drain"] = own["close"]!;
    if ("parameterStatus" in source) own["parameterStatus"] = (name) => this.#now().session.parameters[name as string];
    return new Proxy(source, {
      get(target, name) {
        if (name === Symbol.asyncDispose) return own["close"];
        const method = typeof name === "string" ? own[name] : undefined;
        if (method) return method;
        const value = Reflect.get(target, name, target) as unknown;
        if (typeof name === "symbol" || PASSED.has(name)) return bound(value, target);
        return typeof value === "function" ? () => refused(name, unknownMember(name)) : value;
      },
    });
  }

  // -- leases ---------------------------------------------------------------------------------------------------------

  /**
   * Returns a lease: the calls of a source, until it is released. Other callers may use the connection between two of
   * its calls.
   */
  async #acquire({ signal, until }: AcquireOptions = {}): Promise<unknown> {
    const { turns, session } = this.#now();
    (await turns.take(signal)).release();
    let isReleased = false;
    let last: Promise<unknown> = Promise.resolve();
    const host: Host = {
      source: this.#source,
      check: refuseControl,
      run: (work) => {
        if (isReleased) throw released();
        const call = this.#host.run(work);
        last = call.catch(() => {});
        return call;
      },
    };
    const release = async () => {
      isReleased = true;
      await last;
    };
    until?.addEventListener("abort", () => void release(), { once: true });
    return {
      ...callsOf(host),
      scope: (options: unknown) => scopeOf(host, options as never),
      processId: session.processId,
      parameterStatus: (name: string) => session.parameters[name],
      release,
      [Symbol.asyncDispose]: release,
    };
  }
}

function released(): UsageError {
  return new UsageError("LEASE_RELEASED", "The lease was released: acquire another.");
}

const bound = (value: unknown, target: object): unknown =>
  typeof value === "function" && value !== target.constructor ? (value as Method).bind(target) : value;

/** Runs `work` in a savepoint, and checks at its end what COMMIT would check. */
function savepoint<T>(transaction: Transaction, turn: Turn, work: (inner: Transaction) => Promise<T>): Promise<T> {
  return transaction.transaction(async (inner) => {
    const result = await work(counted(inner, turn));
    try {
      await inner.simple(SETTLE);
    } catch (error) {
      throw (error as PgzError).code === FAILED_TRANSACTION ? rolledBack(error) : error;
    }
    return result;
  });
}

/** Counts each call for its turn. */
function counted(inner: Transaction, turn: Turn): Transaction {
  return new Proxy(inner, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== "function") return value;
      return (...given: unknown[]) => {
        // A nested transaction may be idle, like the one around it. Only its calls count.
        const [work, ...rest] = given;
        if (name === "transaction" && typeof work === "function") {
          const wrapped = (nested: Transaction) => (work as Method)(counted(nested, turn));
          return (value as Method).apply(target, [wrapped, ...rest]);
        }
        const result = (value as Method).apply(target, given);
        return result instanceof Promise ? turn.counts(result) : result;
      };
    },
  });
}

export const FACTS = `select pg_catalog.pg_backend_pid() as pid, name, pg_catalog.current_setting(name, true) as setting
  from pg_catalog.unnest($1::pg_catalog.text[]) as names (name)`;

/** Reads what the server reports about the session. A lease and a client have these values without a query. */
async function factsOf(transaction: Transaction): Promise<SessionFacts> {
  const names =
    "server_version server_encoding client_encoding application_name default_transaction_read_only in_hot_standby " +
    "is_superuser session_authorization DateStyle IntervalStyle TimeZone integer_datetimes " +
    "standard_conforming_strings scram_iterations search_path";
  const { rows } = await transaction.query<{ pid: number; name: string; setting: string | null }>(FACTS, [
    names.split(" "),
  ]);
  const known = rows.filter(({ setting }) => setting !== null).map(({ name, setting }) => [name, setting!]);
  return { processId: rows[0]!.pid, parameters: Object.fromEntries(known) as Record<string, string> };
}

export function noTest(): UsageError {
  return new UsageError(
    "TRANSACTION_FINISHED",
    "No test is running: this database works only from beforeEach to afterEach. To write rows that must stay, use " +
      "the pool itself.",
  );
}

export function testIsOver(): UsageError {
  return new UsageError("TRANSACTION_FINISHED", "The test is over, and its transaction is rolled back.");
}

function unknownMember(name: string): UsageError {
  return new UsageError(
    "INVALID_OPTION",
    `pgz-edge/testing does not know "${name}", whose effects might not be rolled back.`,
  );
}

function rolledBack(cause: unknown): PgzError {
  return new PgzError(
    "TRANSACTION_ROLLED_BACK",
    "A statement had failed, so COMMIT rolled back: " +
      "let its error leave the callback, or run it in a nested transaction.",
    { cause },
  );
}
