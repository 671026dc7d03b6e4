// The calls of a client, a pool, a lease or a scope in a test: each runs in a savepoint of its own, which stands for the
// transaction that it would be.
//
// Knows the driver's public calls and which of them outlive their promise. Must not know whose turn it is, nor how the
// test's transaction begins and ends (driver.ts).
import { AbortError, TimeoutError, UsageError, sql } from "../../index.ts";
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
  Transaction,
  TransactionOptions,
  Truncation,
} from "../../index.ts";
import { controlIn } from "./control.ts";

/** What runs one call after the other, and checks its text. */
export interface Host {
  /** Whose errors of arguments are given: it runs nothing. */
  readonly source: Client | Pool | Scope;
  /** `work` has a savepoint for itself, which is kept when it returns and undone when it throws. */
  run<T>(work: (inner: Transaction) => Promise<T>): Promise<T>;
  /** Throws for a statement that cannot run here. */
  check(text: string): void;
}

type Arguments = readonly unknown[];
/** Any call of the driver's: their overloads are the caller's affair. */
export type Method = (...given: Arguments) => unknown;
export type Calls = Record<string, Method>;

const methodOf = (target: object, name: string): Method =>
  ((target as Record<string, Method>)[name] as Method).bind(target);

/** Calls whose promise is their end. */
const PROMISES = ["query", "exec", "json", "simple", "describe", "notify", "copyFrom", "copyFromRows"];
/** Calls whose first argument is SQL that runs. Texts of COPY begin and end no transaction. */
export const WITH_SQL: ReadonlySet<string> = new Set([
  ...["query", "exec", "json", "simple", "stream", "respond", "rows", "cursor", "prepare"],
]);

/** The text of what a call was given, if it is one. */
export function textOf([input, ...values]: Arguments): string {
  if (typeof input === "string") return input;
  if (Array.isArray(input)) return sql(input as unknown as TemplateStringsArray, ...values).text;
  const { text } = (input ?? {}) as { text?: unknown };
  return typeof text === "string" ? text : "";
}

/** Refuses what would end the test's transaction, or begin another one in it. */
export function refuseControl(text: string): void {
  const found = controlIn(text);
  if (!found || found.control === "characteristics") return;
  throw new UsageError(
    "TRANSACTION_OPEN",
    `In a test ${found.text.slice(0, 40)} cannot run as SQL, because the test is a transaction: call transaction().`,
  );
}

/** All calls that a client, a pool, a lease and a scope share. */
export function callsOf(host: Host): Calls {
  const calls: Calls = {};
  for (const name of PROMISES) calls[name] = checked(host, name, (given) => promised(host, name, given));
  return {
    ...calls,
    batch: (...given) => batch(host, given as [readonly QueryInput[], BatchOptions?]),
    stream: checked(host, "stream", (given) => opened(host, (inner) => methodOf(inner, "stream")(...given) as never)),
    respond: checked(host, "respond", (given) => respond(host, given)),
    copyTo: (...given) => opened(host, (inner) => methodOf(inner, "copyTo")(...given) as never),
    rows: (...given) => loopOf(host, "rows", given),
    copyToRows: (...given) => loopOf(host, "copyToRows", given),
    cursor: (...given) => cursor(host, given),
    prepare: checked(host, "prepare", (given) => prepare(host, given)),
    transaction: (...given) => transaction(host, given),
  };
}

/** A call that rejects, and does not throw, when its SQL cannot run here. */
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

/** Items that are not atomic are transactions of their own, each of which may fail: so each has a savepoint. */
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
      if (!Array.isArray(values)) return await prepared[name](values, options); // its own error
      const query: Query = prepared.bind(...(values as unknown[]));
      return await promised(host, name, [query, options]);
    };
  const close = () => prepared.close();
  const { text, parameterTypes, fields } = prepared;
  const bind = (...values: unknown[]) => prepared.bind(...values);
  return { text, parameterTypes, fields, bind, query: run("query"), exec: run("exec"), close, [Symbol.dispose]: close };
}

// -- what is read after the call has resolved -----------------------------------------------------------------------

/** The reader has left: what the statement did is undone, as when its own transaction is cancelled. */
const LEFT = Symbol("left");

/** What is open within a savepoint. */
interface Held<T> {
  readonly value: T;
  /** Ends the savepoint and resolves when it has ended; undoes it when something is `wrong`. */
  end(wrong?: unknown): Promise<void>;
}

/** Opens something in a savepoint that is ended by hand. */
function held<T>(host: Host, open: (inner: Transaction) => T | Promise<T>): Promise<Held<T>> {
  return new Promise((resolve, reject) => {
    let close!: () => void;
    let fail!: (reason: unknown) => void;
    const ended = new Promise<void>((closed, failed) => ([close, fail] = [closed, failed]));
    ended.catch(() => {}); // the test may end before anybody waits
    const over = host.run(async (inner) => {
      const value = await open(inner);
      const end = async (wrong?: unknown) => {
        if (wrong === undefined) close();
        else fail(wrong);
        await over.catch((error: unknown) => {
          if (wrong === undefined) throw error; // else the reader knows
        });
      };
      resolve({ value, end });
      await ended;
    });
    over.catch(reject);
  });
}

/** A stream that ends its savepoint when it ends. */
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

/** The rows of a query for a loop. As the driver's, it checks what it is given at once and runs when a loop starts. */
function loopOf(host: Host, name: "rows" | "copyToRows", given: Arguments): Rows<unknown> {
  if (WITH_SQL.has(name)) host.check(textOf(given));
  methodOf(host.source, name)(...given); // only checks: nobody loops over it
  return new TestRows(host, (inner) => methodOf(inner, name)(...given) as Rows<unknown>) as unknown as Rows<unknown>;
}

class TestRows {
  readonly #host: Host;
  readonly #open: (inner: Transaction) => Rows<unknown>;
  /** Of the latest loop. */
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
  methodOf(host.source, "cursor")(...given); // only checks: it starts with its first next()
  return looped(
    host,
    (inner) => methodOf(inner, "cursor")(...given) as AsyncIterable<unknown>,
    (batches) => batches,
  );
}

async function* looped<Item, T>(
  host: Host,
  open: (inner: Transaction) => T,
  each: (value: T) => AsyncIterable<Item>,
): AsyncGenerator<Item, void, undefined> {
  const { value, end } = await held(host, open);
  let wrong: unknown = LEFT;
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

/** How often a transaction runs in all, as `retry` of the driver says. */
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
          // PostgreSQL gives it back its value at the end of the savepoint.
          if (options.readOnly) await inner.simple("set local transaction_read_only = on");
          return await Promise.race([work(transactionOf(inner, (text) => host.check(text), host)), ended]);
        }),
      );
    } catch (error) {
      if (attempt >= most || !isConflict(error)) throw error;
    }
}

/** Ends the transaction when `signal` aborts or `timeout` is over: what it runs is cancelled. */
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
 * The argument of a transaction's callback. It is the transaction of a savepoint, and can do what one that commits can:
 * call `last`.
 */
export function transactionOf(inner: Transaction, check: (text: string) => void, host: Host): Transaction {
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
      return inner.transaction((nested) => (work as Method)(nestedOf(nested, check)));
    },
  };
  if ("settings" in host) own["simple"] = (...given) => methodOf(host.source, "simple")(...given); // its own refusal
  return guarded(inner, own, check, () => isOver);
}

/** Inside of that: its `last` refuses, as the driver's does. */
function nestedOf(nested: Transaction, check: (text: string) => void): Transaction {
  const own: Calls = {
    transaction: (work, ...rest) => {
      if (typeof work !== "function") return methodOf(nested, "transaction")(work, ...rest);
      return nested.transaction((deeper) => (work as Method)(nestedOf(deeper, check)));
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

/** Calls that give something else than a promise. */
const SYNCHRONOUS: ReadonlySet<string> = new Set(["rows", "cursor", "copyToRows", "scope"]);

/** As the call itself refuses: by throwing, or with a promise. */
export function refused(name: string, error: unknown): Promise<never> {
  if (SYNCHRONOUS.has(name)) throw error;
  return Promise.reject(error as Error);
}

// -- scopes ----------------------------------------------------------------------------------------------------------

/**
 * The calls of a scope. Its settings are set in the call's savepoint, and set back at its end: of SET LOCAL nothing ends
 * with a savepoint that is kept.
 */
export function scopeOf(host: Host, options: ScopeOptions): Calls {
  const real = (host.source as Client).scope(options); // or its error; it runs nothing
  const entries: [string, string][] = Object.entries(options.settings ?? {}).map(([name, to]) => [name, String(to)]);
  if (options.role !== undefined) entries.push(["role", options.role]);
  const names = entries.map(([name]) => name);
  const set = (values: readonly unknown[], isBack: boolean) => {
    const list = names.map((name, index) => [name, values[index]] as const);
    const ordered = isBack ? list.reverse() : list; // the login's role may set what the scope's may not
    return ordered.map(([name, value]) => sql`select pg_catalog.set_config(${name}, ${value ?? ""}, true)`);
  };
  const before = "select array(select pg_catalog.current_setting(n, true) from pg_catalog.unnest($1::text[]) n) as v";
  const scope: Host & { settings: true } = {
    settings: true,
    source: real,
    check: (text) => {
      real.rows(text); // throws NOT_IN_SCOPE; nobody loops over it
      host.check(text);
    },
    run: (work) =>
      host.run(async (inner) => {
        const { rows } = await inner.query<{ v: readonly unknown[] }>(before, [names]);
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
