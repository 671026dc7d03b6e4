// Runs a job: small sessions in Node, Deno, Bun and workerd alike.
//
// Knows the public API and web standards only, and what holds for every session: each promise settles in time, with the
// right rows or with a typed error that shows no password.
import type * as pgz from "../../js/index.ts";
import {
  STATEMENTS,
  type BadServerJob,
  type CancelJob,
  type CutJob,
  type Job,
  type Outcome,
  type Script,
  type Settled,
  type Statement,
  type Target,
  type Way,
} from "./jobs.ts";
import { Timers } from "./timers.ts";
import { everything } from "./uncaught.ts";

type Driver = typeof pgz;
/** The object that makes a session's calls. */
type Caller = Pick<pgz.Client, "query" | "batch" | "transaction">;
/** A client, or a pool of one connection. */
type Calls = pgz.Client | pgz.Pool;

/** Milliseconds after which a promise counts as hanging. The limits for sessions are much shorter. */
const HUNG = 30_000;

/** Pools that outlive a job, as in a Durable Object, keyed by port. */
export type Kept = Map<number, pgz.Pool>;

export async function runJob(driver: Driver, job: Job, kept?: Kept): Promise<Outcome> {
  // The sessions of the other kinds run beside each other, so their timers cannot be told apart.
  const timers = job.kind === "bad server" || job.kind === "cancel" ? new Timers() : undefined;
  return ran(new Session(driver, job.target, timers), job, kept).finally(() => timers?.stop());
}

function ran(session: Session, job: Job, kept?: Kept): Promise<Outcome> {
  switch (job.kind) {
    case "cut":
      return job.script === "pool" ? session.cutPool(job, kept) : session.cut(job);
    case "next":
      return session.nextOfPool(kept);
    case "bad server":
      return session.badServer(job);
    case "cancel":
      return session.cancel(job);
  }
}

const allRows = [
  { n: 1, label: "one" },
  { n: 2, label: null },
  { n: 3, label: 'three "quoted"' },
];
const allPairs = [{ pair: { a: 1, b: "one" } }, { pair: null }, { pair: { a: 3, b: "three, four" } }];
const linesOf = (rows: unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
const allLines = linesOf([1, 2, 3, 4, 5].map((id) => ({ id, body: id === 4 ? null : `line ${id}\nof five` })));

class Session {
  readonly #driver: Driver;
  readonly #target: Target;
  readonly #outcome: Outcome = { problem: "", steps: {}, failed: "", timer: 0, total: 0 };
  readonly #from = performance.now();
  /** Of a session that runs alone. */
  readonly #timers: Timers | undefined;
  /** Called when the first step has failed. */
  #onFailure: (() => void) | undefined;

  constructor(driver: Driver, target: Target, timers?: Timers) {
    this.#driver = driver;
    this.#target = target;
    this.#timers = timers;
  }

  /** Runs the whole script against a server that ends the connection somewhere in it. */
  async cut({ script, alone }: CutJob): Promise<Outcome> {
    const client = await this.#connected(script);
    if (client) {
      const steps = {
        described: this.#described,
        text: this.#text,
        early: this.#rows,
        batch: this.#batches,
        transaction: this.#transactions,
        scope: this.#scoped,
      };
      await steps[script as keyof typeof steps].call(this, client);
      await this.#step("close", client.close());
    }
    return alone ? this.#ended() : this.#next();
  }

  /** Does the same with a pool, which then makes its next call, in another job when the pool is kept. */
  async cutPool({ patience, pipelining, alone }: CutJob, kept?: Kept): Promise<Outcome> {
    const pool = this.#driver.createPool(this.#target, {
      max: 1,
      pipelining,
      ...(patience ? { timeout: patience, connectTimeout: patience * 0.8 } : {}),
      ...(kept ? { healthCheckInterval: 30_000 } : {}),
    });
    // With one connection, the bytes have the same order each time. A silent connection then keeps its place for some
    // time, so the next call needs a second connection.
    if (patience) this.#onFailure = () => pool.resize(2);
    await this.#pooled(pool, pipelining ? {} : { timeout: patience });
    if (!alone && !kept) return this.#nextOf(pool);
    if (alone) await this.#step("close", pool.close());
    else kept?.set(this.#target.port, pool);
    return this.#ended();
  }

  nextOfPool(kept?: Kept): Promise<Outcome> {
    const pool = kept?.get(this.#target.port);
    if (!pool) throw new Error(`no pool is kept of port ${this.#target.port}`);
    kept?.delete(this.#target.port);
    return this.#nextOf(pool);
  }

  async #connected(script: Script): Promise<pgz.Client | undefined> {
    const { connect, createClient } = this.#driver;
    // The predicted login must be right, and the scripted server does not offer SCRAM-SHA-256-PLUS.
    const early = { requireAuth: "scram-sha-256", channelBinding: "disable", earlyQuery: true } as const;
    if (script === "early") return createClient({ ...this.#target, ...early });
    return this.#step("connect", connect({ ...this.#target, firstRun: script === "described" ? "describe" : "text" }));
  }

  async #described(client: pgz.Client): Promise<void> {
    await this.#rows(client);
    await this.#stream("stream", client, STATEMENTS.stream, allLines);
    await this.#step("error", client.query("select 1 / 0 as boom"), "22012");
    await this.#together("together", client);
    await this.#batch("batch", client);
  }

  async #text(client: pgz.Client): Promise<void> {
    await this.#rows(client);
    await this.#stream("stream", client, STATEMENTS.stream, allLines);
    await this.#together("together", client);
    await this.#query("pairs", client, STATEMENTS.pairs, allPairs);
    await this.#query("pairs, known", client, STATEMENTS.pairs, allPairs);
    await this.#together("together, known", client);
  }

  #rows(client: Caller): Promise<void> {
    return this.#query("query", client, this.#statement("rows"), allRows);
  }

  async #batches(client: pgz.Client): Promise<void> {
    await this.#batch("batch", client);
    await this.#batch("batch, known", client);
  }

  async #batch(name: string, client: Caller): Promise<void> {
    const results = await this.#step(
      name,
      client.batch([this.#echo(`${name} 1`), this.#statement("rows"), this.#echo(`${name} 2`)]),
    );
    this.#compare(
      name,
      results?.map(({ rows }) => rows),
      [[{ echo: `${name} 1` }], allRows, [{ echo: `${name} 2` }]],
    );
  }

  async #transactions(client: pgz.Client): Promise<void> {
    await this.#transaction("transaction", client);
    await this.#transaction("transaction, known", client);
  }

  async #transaction(name: string, client: Caller): Promise<void> {
    const results = await this.#step(
      name,
      client.transaction(async (tx) => [
        await tx.query(this.#echo(`${name} 1`)),
        ...(await Promise.all([tx.query(this.#echo(`${name} 2`)), tx.last(this.#statement("rows"))])),
      ]),
    );
    this.#compare(
      name,
      results?.map(({ rows }) => rows),
      [[{ echo: `${name} 1` }], [{ echo: `${name} 2` }], allRows],
    );
  }

  async #scoped(client: pgz.Client): Promise<void> {
    const scope = client.scope({ settings: { "app.tenant": 7 } });
    await this.#rows(scope);
    await this.#together("together", scope);
    await this.#batch("batch", scope);
    const isolated = await this.#step("isolated", scope.batch([this.#echo("1"), this.#echo("2")], { atomic: false }));
    this.#compare(
      "isolated",
      isolated?.map((item) => (item.status === "fulfilled" ? item.value.rows : item.reason)),
      [[{ echo: "1" }], [{ echo: "2" }]],
    );
    await this.#transaction("transaction", scope);
  }

  /** If the transaction has no deadline, its statements have theirs. */
  async #pooled(pool: pgz.Pool, transaction: pgz.TransactionOptions): Promise<void> {
    await this.#rows(pool);
    await this.#stream("stream", pool, this.#statement("rows"), linesOf(allRows));
    await this.#writesTogether("together", pool);
    await this.#writes(
      "transaction",
      ["transaction 1", "transaction 2"],
      pool.transaction(async (tx) => {
        await tx.query(this.#write("transaction 1"));
        await tx.last(this.#write("transaction 2"));
      }, transaction),
    );
    const lease = await this.#step("acquire", pool.acquire());
    if (lease) {
      const [first, last] = [lease.query(this.#write("lease 1")), lease.query(this.#write("lease 2"))];
      last.catch(() => {});
      await this.#writes("lease", ["lease 1"], first);
      await this.#writes("lease: last", ["lease 2"], last);
      await this.#step("release", lease.release());
    }
    await this.#writes("batch", ["batch 1", "batch 2"], pool.batch([this.#write("batch 1"), this.#write("batch 2")]));
  }

  /** Runs one statement against a server that does one thing wrong. */
  async badServer({ options, way, of, idle, again }: BadServerJob): Promise<Outcome> {
    const firstRun = way.startsWith("described") ? "describe" : "text";
    // A timed flush is no wait, and would fire in a stall of the machine: it may not count.
    const connecting = this.#driver.connect(this.#with({ firstRun, flushInterval: 600_000, ...options }));
    const client = await this.#step("connect", connecting);
    if (client) {
      if (idle > 0) {
        await new Promise<void>((resolve) => this.#after(idle, resolve));
        this.#outcome.state = client.stats().state;
      }
      await this.#ask(client, way, of);
      this.#outcome.timer = this.#fired;
      if (again) await this.#query("again", client, "select 42 as answer", [{ answer: 42 }]);
      await this.#step("close", client.close());
    } else {
      this.#outcome.timer = this.#fired;
    }
    return this.#next();
  }

  /** Runs the step "query", in the given way. */
  async #ask(client: pgz.Client, way: Way, of: Statement): Promise<void> {
    const query = this.#statement(of);
    switch (way) {
      case "described":
      case "text":
        return this.#query("query", client, query);
      case "described stream":
      case "stream":
        return this.#stream("query", client, STATEMENTS.stream);
      case "together":
        return this.#besides(client, query);
      case "batch": {
        const results = await this.#step("query", client.batch([this.#echo("1"), query, this.#echo("2")]));
        return this.#show("query", results?.[1]?.rows);
      }
      case "begin":
      case "last": {
        const results = await this.#step(
          "query",
          client.transaction(async (tx) => {
            if (way === "last") await tx.query(this.#echo("before"));
            return way === "last" ? tx.last(query) : tx.query(query);
          }),
        );
        return this.#show("query", results?.rows);
      }
    }
  }

  /** Runs the statement between two calls on the same connection, the first of which must not suffer. */
  async #besides(client: pgz.Client, query: pgz.Query): Promise<void> {
    const calls = [
      client.query(this.#echo("before")),
      client.query(query),
      client.query(this.#echo("behind")),
    ] as const;
    for (const call of calls) call.catch(() => {});
    this.#compare("before", (await this.#step("before", calls[0]))?.rows, [{ echo: "before" }]);
    this.#show("query", (await this.#step("query", calls[1]))?.rows);
    this.#compare("behind", (await this.#step("behind", calls[2]))?.rows, [{ echo: "behind" }]);
  }

  /** Runs an endless statement and cancels it in the given way. */
  async cancel({ options, by }: CancelJob): Promise<Outcome> {
    const { sql, connect } = this.#driver;
    const client = await this.#step("connect", connect(this.#with(options)));
    if (!client) return this.#next();
    const controller = new AbortController();
    const query = client.query(
      sql`select pg_sleep(60)`,
      by === "timeout" ? { timeout: 100 } : { signal: controller.signal },
    );
    query.catch(() => {});
    if (by !== "timeout") await new Promise<void>((resolve) => this.#after(100, resolve));
    if (by === "signal") controller.abort(new Error("the test's own reason"));
    const closing = by === "close" ? client.close() : undefined;
    await this.#step("cancelled", query);
    this.#outcome.timer = this.#fired;
    if (closing) await this.#step("close", closing);
    else {
      // The driver waits 2 s for a server that ignores the cancel, then it closes the connection.
      await this.#query("again", client, "select 42 as answer", [{ answer: 42 }]);
      await this.#step("close", client.close());
    }
    return this.#next();
  }

  /** null in a job means `undefined`, which JSON does not have. */
  #with(options: Record<string, unknown>): pgz.ConnectInput {
    return {
      ...this.#target,
      ...Object.fromEntries(Object.entries(options).map(([name, value]) => [name, value ?? undefined])),
    };
  }

  /** Uses a new client with a new socket to the same address, where the server is honest now. */
  #next(): Promise<Outcome> {
    const client = this.#driver.createClient(this.#target);
    return this.#goesOn(async () => {
      await this.#query("next", client, "select 42 as answer", [{ answer: 42 }]);
      await this.#step("next close", client.close());
    });
  }

  /** Uses the same pool. Its end does not wait for a silent server. */
  #nextOf(pool: pgz.Pool): Promise<Outcome> {
    return this.#goesOn(async () => {
      await this.#query("next", pool, "select 42 as answer", [{ answer: 42 }]);
      await this.#writes("next write", ["next 1"], pool.query(this.#write("next 1")));
      await this.#step("next close", pool.close({ timeout: 50 }));
    });
  }

  async #goesOn(work: () => Promise<void>): Promise<Outcome> {
    const { failed } = this.#outcome;
    await work();
    if (this.#outcome.failed !== failed) this.#problem(`what came next failed: ${JSON.stringify(this.#outcome.steps)}`);
    this.#outcome.failed = failed;
    return this.#ended();
  }

  #ended(): Outcome {
    this.#outcome.total = performance.now() - this.#from;
    return this.#outcome;
  }

  #write(entry: string): pgz.Query {
    return this.#driver.sql`insert into scripted_ledger values (${entry})`;
  }

  #statement(name: Statement): pgz.Query {
    return { text: STATEMENTS[name], values: name === "rows" ? [0] : [] };
  }

  #echo(text: string): pgz.Query {
    return this.#driver.sql`select ${text}::text as echo`;
  }

  async #query(name: string, client: Caller, query: pgz.QueryInput, wanted?: unknown): Promise<void> {
    const result = await this.#step(name, client.query(query));
    if (wanted !== undefined) this.#compare(name, result?.rows, wanted);
    else this.#show(name, result?.rows);
  }

  #compare(name: string, found: unknown, wanted: unknown): void {
    const text = JSON.stringify(found);
    if (found !== undefined && text !== JSON.stringify(wanted)) this.#problem(`${name}: wrong rows ${text}`);
  }

  #show(name: string, rows: unknown): void {
    if (rows !== undefined) this.#settled(name).text = JSON.stringify(rows);
  }

  /** Calls in flight together, one of which fails. */
  async #together(name: string, client: Caller): Promise<void> {
    const echo = (text: string) => client.query(this.#echo(text));
    const [first, failing, last] = [echo(`${name} 1`), client.query("select 1 / 0 as boom"), echo(`${name} 2`)];
    for (const call of [first, failing, last]) call.catch(() => {});
    this.#compare(name, (await this.#step(name, first))?.rows, [{ echo: `${name} 1` }]);
    await this.#step(`${name}: failing`, failing, "22012");
    this.#compare(name, (await this.#step(`${name}: last`, last))?.rows, [{ echo: `${name} 2` }]);
  }

  /** The same with calls that write. */
  async #writesTogether(name: string, client: Caller): Promise<void> {
    const write = (text: string) => client.query(this.#write(text));
    const [first, failing, last] = [write(`${name} 1`), client.query("select 1 / 0 as boom"), write(`${name} 2`)];
    for (const call of [first, failing, last]) call.catch(() => {});
    await this.#writes(name, [`${name} 1`], first);
    await this.#step(`${name}: failing`, failing, "22012");
    await this.#writes(`${name}: last`, [`${name} 2`], last);
  }

  async #writes(name: string, entries: string[], call: Promise<unknown>): Promise<void> {
    await this.#step(name, call);
    this.#settled(name).writes = entries;
  }

  /** Checks that a stream has whole lines, and ends cleanly only after the last. */
  async #stream(name: string, client: Calls, query: pgz.QueryInput, wanted?: string): Promise<void> {
    const lines = wanted ?? allLines;
    const stream = await this.#step(name, client.stream(query, { format: "ndjson" }));
    if (!stream) return;
    const decoder = new TextDecoder();
    const reader = stream.getReader();
    let text = "";
    const read = async () => {
      for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read())
        text += decoder.decode(chunk.value, { stream: true });
      return text;
    };
    const whole = await this.#step(name, read());
    this.#outcome.streamed = text;
    if (text !== "" && !text.endsWith("\n")) this.#problem(`${name}: the last line is not whole: ${text}`);
    if (!lines.startsWith(text)) this.#problem(`${name}: wrong lines: ${text}`);
    if (wanted !== undefined && whole !== undefined && whole !== wanted)
      this.#problem(`${name}: a clean end behind ${JSON.stringify(text)}`);
  }

  /** The longest delay of the timers that have fired. 0 where they are not watched. */
  get #fired(): number {
    return this.#timers?.longest ?? 0;
  }

  /** A timer of the test's own. */
  #after(delay: number, run: () => void): ReturnType<typeof setTimeout> {
    return this.#timers ? this.#timers.start(run, delay) : setTimeout(run, delay);
  }

  #settled(name: string): Settled {
    return this.#outcome.steps[name] ?? { wanted: "", code: "missing", name: "", text: "", ms: 0, timer: 0 };
  }

  /** Waits for one promise. `wanted` is the code that the script expects of an honest server. */
  async #step<T>(name: string, promise: Promise<T>, wanted = ""): Promise<T | undefined> {
    const from = performance.now();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<"late">((resolve) => (timer = this.#after(HUNG, () => resolve("late"))));
    const found = await Promise.race([
      promise.then(
        (value) => ({ value }),
        (error: unknown) => ({ error }),
      ),
      late,
    ]);
    clearTimeout(timer);
    const settled: Settled = {
      wanted,
      code: "",
      name: "",
      text: "",
      ms: performance.now() - from,
      timer: this.#fired,
    };
    this.#outcome.steps[name] = settled;
    if (found === "late") {
      promise.catch(() => {});
      settled.code = "pending";
      this.#problem(`${name} did not settle within ${HUNG} ms`);
    } else if ("error" in found) {
      this.#inspect(name, settled, found.error);
    }
    if (settled.code !== wanted) this.#fail(name);
    return typeof found === "object" && "value" in found ? found.value : undefined;
  }

  #fail(name: string): void {
    if (this.#outcome.failed) return;
    this.#outcome.failed = name;
    this.#onFailure?.();
  }

  #inspect(name: string, settled: Settled, error: unknown): void {
    const { PgzError } = this.#driver;
    const all = everything(error);
    settled.text = all;
    if (!(error instanceof PgzError) || typeof error.code !== "string") {
      settled.code = "untyped";
      return this.#problem(`${name} rejected with no error of the driver: ${all}`);
    }
    settled.code = error.code || "(empty)";
    settled.name = error.name;
    settled.retryable = error.retryable;
    settled.hasNoEffect = error.hasNoEffect;
    if (error.transaction !== undefined) settled.transaction = error.transaction;
    const { password } = this.#target;
    if (all.includes(password) || all.includes(btoa(password)))
      this.#problem(`${name}: the error shows the password: ${all}`);
  }

  #problem(text: string): void {
    this.#outcome.problem ||= text;
  }
}
