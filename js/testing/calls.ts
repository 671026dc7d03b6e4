// The calls of a client, a pool, a lease or a scope in a test. Each runs in a savepoint of its own, in place of its own
// transaction.
//
// Knows the driver's public calls and which of them outlive their promise. Must not know which call has the turn, nor
// how the test's transaction begins and ends (driver.ts).
import { AbortError, PgzError, TimeoutError, UsageError, sql } from "../index.ts";
import type {
  BatchOptions,
  Client,
  Column,
  Pool,
  Prepared,
  Query,
  QueryInput,
  Rows,
  Scope,
  ScopeOptions,
  SqlValue,
  Transaction,
  TransactionOptions,
  Truncation,
} from "../index.ts";
import { controlIn } from "./control.ts";

/** Runs calls one after another, and checks their texts. */
export interface Host {
  /** The source, whose errors for wrong arguments are thrown. It runs nothing. */
  readonly source: Client | Pool | Scope;
  /** Runs `work` in a savepoint of its own, which is kept when `work` returns and rolled back when it throws. */
  run<T>(work: (inner: Transaction) => Promise<T>): Promise<T>;
  /** Throws if the text has a statement that cannot run here. */
  check(text: string): void;
}

type Arguments = readonly unknown[];
/** Any call of the driver. Its overloads are left to the caller. */
export type Method = (...given: Arguments) => unknown;
export type Calls = Record<string, Method>;

const methodOf = (target: object, name: string): Method =>
  ((target as Record<string, Method>)[name] as Method).bind(target);

/** Calls that are over when their promise settles. */
const PROMISES = ["query", "first", "exec", "json", "simple", "describe", "notify", "copyFrom", "copyFromRows"];
/** Calls whose first argument is SQL that runs. A text for COPY can neither begin nor end a transaction. */
const WITH_SQL: ReadonlySet<string> = new Set([
  ...["query", "first", "exec", "json", "simple", "stream", "respond", "rows", "cursor", "prepare"],
]);

/** Returns the SQL text among a call's arguments, or `""` if there is none. */
function textOf([input, ...values]: Arguments): string {
  if (typeof input === "string") return input;
  if (Array.isArray(input)) return sql(input as unknown as TemplateStringsArray, ...(values as SqlValue[])).text;
  const { text } = (input ?? {}) as { text?: unknown };
  return typeof text === "string" ? text : "";
}

/** Throws for a text that would end the test's transaction, or begin another one in it. */
export function refuseControl(text: string): void {
  const found = controlIn(text);
  if (!found || found.control === "characteristics") return;
  throw new UsageError(
    "TRANSACTION_OPEN",
    `In a test ${found.text.slice(0, 40)} cannot run as SQL, because the test is a transaction: call transaction().`,
  );
}

/** Returns all calls that a client, a pool, a lease and a scope share. */
export function callsOf(host: Host): Calls {
  const calls: Calls = {};
  for (const name of PROMISES) calls[name] = checked(host, name, (given) => promised(host, name, given));
  Object.assign(calls, {
    batch: (...given: Arguments) => batch(host, given as [readonly QueryInput[], BatchOptions?]),
    stream: checked(host, "stream", (given) => opened(host, (inner) => methodOf(inner, "stream")(...given) as never)),
    respond: checked(host, "respond", (given) => respond(host, given)),
    copyTo: (...given: Arguments) => opened(host, (inner) => methodOf(inner, "copyTo")(...given) as never),
    prepare: checked(host, "prepare", (given) => prepare(host, given)),
    transaction: (...given: Arguments) => transaction(host, given),
  });
  return {
    ...Object.fromEntries(Object.entries(calls).map(([name, call]) => [name, withCaller(call)])),
    rows: (...given) => loopOf(host, "rows", given),
    copyToRows: (...given) => loopOf(host, "copyToRows", given),
    cursor: (...given) => cursor(host, given),
  };
}

/**
 * Adds the frames of the test to an error's stack. The driver finds them by the promises that await a call, and here a
 * queue is in between.
 */
function withCaller(call: Method): Method {
  return async (...given) => {
    const { stack }: { stack?: unknown } = new Error();
    try {
      return await call(...given);
    } catch (error) {
      // A tool may have replaced Error.prepareStackTrace. The first two lines are "Error" and this function.
      const frames = typeof stack === "string" ? stack.split("\n").slice(2) : [];
      if (error instanceof PgzError && frames[0] && !error.stack?.includes(frames[0])) {
        const whole = [error.stack, ...frames].join("\n");
        Object.defineProperty(error, "stack", { value: whole, configurable: true, writable: true });
      }
      throw error;
    }
  };
}

/** Returns a call that rejects, instead of throwing, if its SQL cannot run here. */
function checked(host: Host, name: string, run: (given: Arguments) => Promise<unknown>): Method {
  return async (...given) => {
    if (WITH_SQL.has(name)) host.check(textOf(given));
    return await run(given);
  };
}

function promised(host: Host, name: string, given: Arguments): Promise<unknown> {
  return host.run((inner) => methodOf(inner, name)(...given) as Promise<unknown>);
}

// -- batches, statements ---------------------------------------------------------------------------------------------

/** With `atomic: false` each item is a transaction of its own, which may fail. So each gets a savepoint. */
async function batch(host: Host, [queries, options = {}]: [readonly QueryInput[], BatchOptions?]): Promise<unknown> {
  if (Array.isArray(queries)) for (const query of queries as unknown[]) host.check(textOf([query]));
  const together = (items: readonly QueryInput[], how: BatchOptions) =>
    host.run((inner) => inner.batch(items, how)) as Promise<unknown[]>;
  if (!Array.isArray(queries) || options?.atomic !== false) return await together(queries, options);
  const settled: PromiseSettledResult<unknown>[] = [];
  for (const query of queries as QueryInput[]) {
    const [item] = await Promise.allSettled([together([query], { ...options, atomic: true })]);
    settled.push(item.status === "fulfilled" ? { status: item.status, value: item.value[0] } : item);
  }
  return settled;
}

/** The statement outlives the savepoint in which it was parsed, so its runs are calls of the host. */
async function prepare(host: Host, given: Arguments): Promise<unknown> {
  const prepared = (await host.run((inner) => methodOf(inner, "prepare")(...given) as Promise<Prepared>)) as Prepared;
  const run =
    (name: "query" | "exec") =>
    async (values: readonly unknown[] = [], options: object = {}) => {
      if (!Array.isArray(values)) return await prepared[name](values, options); // throws its own error
      const query: Query = prepared.bind(...(values as unknown[]));
      return await promised(host, name, [query, options]);
    };
  const close = () => prepared.close();
  const { text, parameterTypes, fields } = prepared;
  const bind = (...values: unknown[]) => prepared.bind(...values);
  return { text, parameterTypes, fields, bind, query: run("query"), exec: run("exec"), close, [Symbol.dispose]: close };
}

// -- what is read after the call has resolved -----------------------------------------------------------------------

/** The reader has left. The statement is then rolled back, as when its own transaction is cancelled. */
const LEFT = Symbol("left");

/** A value that is open within a savepoint. */
interface Held<T> {
  readonly value: T;
  /** Ends the savepoint, or rolls it back if `wrong` is given. Resolves when the savepoint has ended. */
  end(wrong?: unknown): Promise<void>;
}

/** Opens a value in a savepoint, which the caller ends. */
function held<T>(host: Host, open: (inner: Transaction) => T | Promise<T>): Promise<Held<T>> {
  return new Promise((resolve, reject) => {
    let close!: () => void;
    let fail!: (reason: unknown) => void;
    const ended = new Promise<void>((closed, failed) => ([close, fail] = [closed, failed]));
    ended.catch(() => {}); // the test may end before it is awaited
    const over = host.run(async (inner) => {
      const value = await open(inner);
      const end = async (wrong?: unknown) => {
        if (wrong === undefined) close();
        else fail(wrong);
        await over.catch((error: unknown) => {
          if (wrong === undefined) throw error; // otherwise the reader has the error
        });
      };
      resolve({ value, end });
      await ended;
    });
    over.catch(reject);
  });
}

/** Returns a stream that ends its savepoint when it ends. */
async function opened(
  host: Host,
  open: (inner: Transaction) => Promise<ReadableStream<Uint8Array>>,
): Promise<ReadableStream<Uint8Array>> {
  const { value, end } = await held(host, open);
  return withEnd(value, end);
}

async function respond(host: Host, given: Arguments): Promise<Response> {
  const { value, end } = await held(host, (inner) => methodOf(inner, "respond")(...given) as Promise<Response>);
  const { status, statusText, headers } = value;
  return new Response(value.body && withEnd(value.body, end), { status, statusText, headers });
}

function withEnd(stream: ReadableStream<Uint8Array>, end: Held<unknown>["end"]): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
        } catch (error) {
          await end(error);
          throw error;
        }
        await end();
        controller.close();
      },
      async cancel(reason) {
        await reader.cancel(reason);
        await end(LEFT);
      },
    },
    { highWaterMark: 0 },
  );
}

/**
 * Returns the rows of a query for a loop. Like the driver's own call it checks its arguments at once, and runs when a
 * loop starts.
 */
function loopOf(host: Host, name: "rows" | "copyToRows", given: Arguments): Rows<unknown> {
  if (WITH_SQL.has(name)) host.check(textOf(given));
  methodOf(host.source, name)(...given); // only checks: no loop starts
  return new TestRows(host, (inner) => methodOf(inner, name)(...given) as Rows<unknown>) as unknown as Rows<unknown>;
}

class TestRows {
  readonly #host: Host;
  readonly #open: (inner: Transaction) => Rows<unknown>;
  /** The rows of the latest loop. */
  #rows: Rows<unknown> | undefined;

  constructor(host: Host, open: (inner: Transaction) => Rows<unknown>) {
    this.#host = host;
    this.#open = open;
  }

  get fields(): readonly Column[] {
    return this.#rows?.fields ?? [];
  }

  get command(): string {
    return this.#rows?.command ?? "";
  }

  get rowCount(): number | null {
    return this.#rows?.rowCount ?? null;
  }

  get truncated(): Truncation | undefined {
    return this.#rows?.truncated;
  }

  batches(size: number): AsyncIterable<unknown[]> {
    this.#model().batches(size); // only checks
    return {
      [Symbol.asyncIterator]: () =>
        looped<unknown[], Rows<unknown>>(this.#host, this.#opening, (rows) => rows.batches(size)),
    };
  }

  [Symbol.asyncIterator](): AsyncIterator<unknown> {
    return looped(this.#host, this.#opening, (rows) => rows);
  }

  readonly #opening = (inner: Transaction) => (this.#rows = this.#open(inner));

  #model(): Rows<unknown> {
    return this.#host.source.rows("select");
  }
}

function cursor(host: Host, given: Arguments): AsyncGenerator<unknown> {
  host.check(textOf(given));
  methodOf(host.source, "cursor")(...given); // only checks: a cursor starts at its first next()
  return looped(
    host,
    (inner) => methodOf(inner, "cursor")(...given) as AsyncIterable<unknown>,
    (batches) => batches,
    "kept",
  );
}

async function* looped<Item, T>(
  host: Host,
  open: (inner: Transaction) => T,
  each: (value: T) => AsyncIterable<Item>,
  whenLeft: "undone" | "kept" = "undone",
): AsyncGenerator<Item, void, undefined> {
  const { value, end } = await held(host, open);
  let wrong: unknown = whenLeft === "undone" ? LEFT : undefined;
  try {
    yield* each(value);
    wrong = undefined;
  } catch (error) {
    wrong = error;
    throw error;
  } finally {
    await end(wrong);
  }
}

// -- transactions ----------------------------------------------------------------------------------------------------

/** Returns the maximum number of runs of a transaction, by the driver's option `retry`. */
const attemptsOf = (retry: boolean | number | undefined): number => (retry === true ? 3 : retry || 1);

const isConflict = (error: unknown): boolean => {
  for (let inner = error, depth = 0; inner && depth < 10; inner = (inner as { cause?: unknown }).cause, depth++)
    if (["40001", "40P01"].includes((inner as { code?: string }).code ?? "")) return true;
  return false;
};

async function transaction(host: Host, given: Arguments): Promise<unknown> {
  const [work, options = {}] = given as [(tx: Transaction) => unknown, TransactionOptions?];
  if (typeof work !== "function") return await (methodOf(host.source, "transaction")(work) as Promise<unknown>);
  const most = attemptsOf(options.retry);
  for (let attempt = 1; ; attempt++)
    try {
      return await bounded(options, (ended) =>
        host.run(async (inner) => {
          // PostgreSQL resets this setting at the end of the savepoint.
          if (options.readOnly) await inner.simple("set local transaction_read_only = on");
          return await Promise.race([work(transactionOf(inner, (text) => host.check(text), host)), ended]);
        }),
      );
    } catch (error) {
      if (attempt >= most || !isConflict(error)) throw error;
    }
}

/** Ends the transaction when `signal` aborts or `timeout` is over. The running statement is cancelled. */
async function bounded<T>(
  { signal, timeout }: TransactionOptions,
  run: (ended: Promise<never>) => Promise<T>,
): Promise<T> {
  if (signal?.aborted) throw new AbortError(signal.reason);
  let end!: (error: unknown) => void;
  const ended = new Promise<never>((_, reject) => (end = reject));
  ended.catch(() => {});
  const aborted = () => end(new AbortError(signal!.reason));
  const late = () => end(new TimeoutError("QUERY_TIMEOUT", `The call took longer than ${timeout} ms (timeout).`));
  signal?.addEventListener("abort", aborted);
  const timer = timeout ? setTimeout(late, timeout) : undefined;
  try {
    return await run(ended);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", aborted);
  }
}

/**
 * Returns the argument of a transaction's callback. It is the transaction of a savepoint, but has `last` like a
 * transaction that commits.
 */
function transactionOf(inner: Transaction, check: (text: string) => void, host: Host): Transaction {
  let isOver = false;
  const own: Calls = {
    last: async (...given) => {
      check(textOf(given));
      const result = methodOf(inner, "query")(...given) as Promise<unknown>;
      isOver = true;
      return await result;
    },
    transaction: (work, ...rest) => {
      if (typeof work !== "function") return methodOf(inner, "transaction")(work, ...rest);
      const wrapped = (nested: Transaction) => (work as Method)(nestedOf(nested, check));
      return methodOf(inner, "transaction")(wrapped, ...rest);
    },
  };
  if ("settings" in host) own["simple"] = (...given) => methodOf(host.source, "simple")(...given); // refuses by itself
  return guarded(inner, own, check, () => isOver);
}

/** Returns the argument of a nested transaction's callback. Its `last` refuses, as the driver's does. */
function nestedOf(nested: Transaction, check: (text: string) => void): Transaction {
  const own: Calls = {
    transaction: (work, ...rest) => {
      if (typeof work !== "function") return methodOf(nested, "transaction")(work, ...rest);
      const wrapped = (deeper: Transaction) => (work as Method)(nestedOf(deeper, check));
      return methodOf(nested, "transaction")(wrapped, ...rest);
    },
  };
  return guarded(nested, own, check, () => false);
}

function guarded(inner: Transaction, own: Calls, check: (text: string) => void, isOver: () => boolean): Transaction {
  return new Proxy(inner, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== "function" || typeof name !== "string") return value;
      const call = own[name] ?? (value as Method).bind(target);
      return (...given: Arguments) => {
        if (isOver()) return refused(name, new UsageError("TRANSACTION_FINISHED", "last() was called: it commits."));
        try {
          if (WITH_SQL.has(name)) check(textOf(given));
          if (name === "batch" && Array.isArray(given[0]))
            for (const query of given[0] as unknown[]) check(textOf([query]));
        } catch (error) {
          return refused(name, error);
        }
        return call(...given);
      };
    },
  });
}

/** Calls that do not return a promise. */
const SYNCHRONOUS: ReadonlySet<string> = new Set(["rows", "cursor", "copyToRows", "scope"]);

/** Refuses as the call itself would: throws, or returns a promise that rejects. */
export function refused(name: string, error: unknown): Promise<never> {
  if (SYNCHRONOUS.has(name)) throw error;
  return Promise.reject(error as Error);
}

// -- scopes ----------------------------------------------------------------------------------------------------------

export const VALUES_OF = `select array(
  select pg_catalog.current_setting(n, true) from pg_catalog.unnest($1::pg_catalog.text[]) n) as v`;

/**
 * Returns the calls of a scope. The scope's settings are set in the call's savepoint, and set back at its end: SET
 * LOCAL does not end with a savepoint that is kept.
 */
export function scopeOf(host: Host, options: ScopeOptions): Calls {
  const real = (host.source as Client).scope(options); // only checks: it runs nothing
  const entries: [string, string][] = Object.entries(options.settings ?? {}).map(([name, to]) => [name, String(to)]);
  if (options.role !== undefined) entries.push(["role", options.role]);
  const names = entries.map(([name]) => name);
  const set = (values: readonly unknown[], isBack: boolean) => {
    const list = names.map((name, index) => [name, values[index]] as const);
    const ordered = isBack ? list.reverse() : list; // the login's role may set what the scope's may not
    return ordered.map(([name, value]) => sql`select pg_catalog.set_config(${name}, ${value ?? ""}, true)`);
  };
  const scope: Host & { settings: true } = {
    settings: true,
    source: real,
    check: (text) => {
      real.rows(text); // throws NOT_IN_SCOPE; no loop starts
      host.check(text);
    },
    run: (work) =>
      host.run(async (inner) => {
        const { rows } = await inner.query<{ v: readonly unknown[] }>(VALUES_OF, [names]);
        await inner.batch(
          set(
            entries.map(([, value]) => value),
            false,
          ),
        );
        const result = await work(inner);
        await inner.batch(set(rows[0]!.v, true));
        return result;
      }),
  };
  const calls = callsOf(scope);
  const refusing = ["simple", "copyFrom", "copyFromRows", "copyTo", "copyToRows"].map(
    (name) => [name, methodOf(real, name)] as const,
  );
  return { ...calls, ...Object.fromEntries(refusing) };
}
