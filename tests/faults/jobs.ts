// What the driver does while a server fails: small sessions that run in Node, Deno, Bun and workerd alike, each settled
// against a clock.
//
// Knows the public API and web standards only. A job goes in as JSON and comes out as JSON, so that a Worker can run it
// for a test that lives outside; what to make of an outcome is the test's business (suite.ts), except what holds for
// every session: each promise settles within 2 s, with the right rows or with a typed error that shows no password.
import type * as pgz from "../../js/index.ts";

type Driver = typeof pgz;

export interface Target {
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
  sslmode: "disable" | "prefer" | "require" | "verify-full";
  ca?: string;
}

export interface CutJob {
  kind: "cut";
  target: Target;
}

export interface BadServerJob {
  kind: "bad server";
  target: Target;
  options: Record<string, unknown>;
  /** How the statement is run: all rows at once, or as a stream. */
  by: "query" | "stream";
  /** Milliseconds between connecting and the statement, for servers that misbehave while nobody asks. */
  idle: number;
  /** Run on the first client after the failure. */
  again: boolean;
  /** Milliseconds for each promise of the first client. */
  deadline: number;
}

export interface CancelJob {
  kind: "cancel";
  target: Target;
  options: Record<string, unknown>;
  by: "timeout" | "signal" | "close";
}

export type Job = CutJob | BadServerJob | CancelJob;

/** What became of one promise. */
export interface Settled {
  /** "" for a value, else the error's code ("(empty)" when that is ""), or "pending", or "untyped". */
  code: string;
  /** The error's class. */
  name: string;
  text: string;
  ms: number;
  retryable?: boolean;
}

export interface Outcome {
  /** What no session may do; "" when all is well. */
  problem: string;
  /** One per step, in order; those after the end of the session are missing. */
  steps: Record<string, Settled>;
  /** The first step that failed otherwise than the script wants it; "" when none did. */
  failed: string;
  /** Start to the last promise, without the next connection. */
  ms: number;
  /** Start to end, the next connection with it. */
  total: number;
  /** What the client says of itself after `idle` milliseconds. */
  state?: string;
  /** What a stream gave before its end. */
  streamed?: string;
}

const DEADLINE = 2000;

export function runJob(driver: Driver, job: Job): Promise<Outcome> {
  const session = new Session(driver, job.target);
  switch (job.kind) {
    case "cut":
      return session.cut();
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
export const allLines = [1, 2, 3, 4, 5]
  .map((id) => `${JSON.stringify({ id, body: id === 4 ? null : `line ${id}\nof five` })}\n`)
  .join("");

class Session {
  readonly #driver: Driver;
  readonly #target: Target;
  readonly #outcome: Outcome = { problem: "", steps: {}, failed: "", ms: 0, total: 0 };
  readonly #from = performance.now();

  constructor(driver: Driver, target: Target) {
    this.#driver = driver;
    this.#target = target;
  }

  /** The whole script against a server that ends the connection somewhere in it. */
  async cut(): Promise<Outcome> {
    const { sql } = this.#driver;
    const client = await this.#step("connect", this.#driver.connect(this.#target));
    if (client) {
      await this.#query("query", client, sql`select n, label from scripted_rows where n > ${0}`, allRows);
      await this.#stream("stream", client, sql`select id, body from scripted_stream`, allLines);
      await this.#step("error", client.query(sql`select 1 / 0 as boom`), "22012");
      await this.#together(client);
      await this.#query("query again", client, sql`select ${"Grüße"}::text as echo`, [{ echo: "Grüße" }]);
      await this.#step("close", client.close());
    }
    this.#outcome.ms = performance.now() - this.#from;
    return this.#next();
  }

  /** One statement against a server that does one thing wrong. */
  async badServer({ options, by, idle, again, deadline }: BadServerJob): Promise<Outcome> {
    const { sql } = this.#driver;
    const client = await this.#step("connect", this.#driver.connect(this.#with(options)), "", deadline);
    if (client) {
      if (idle > 0) {
        await new Promise((resolve) => setTimeout(resolve, idle));
        this.#outcome.state = client.stats().state;
      }
      if (by === "query") await this.#query("query", client, sql`select n, label from scripted_rows where n > ${0}`);
      else await this.#stream("stream", client, sql`select id, body from scripted_stream`);
      this.#outcome.ms = performance.now() - this.#from - idle;
      if (again) await this.#query("again", client, sql`select 42 as answer`, [{ answer: 42 }]);
      await this.#step("close", client.close());
    } else {
      this.#outcome.ms = performance.now() - this.#from;
    }
    return this.#next();
  }

  /** A statement that never ends, and how it is given up. */
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
    if (by !== "timeout") await new Promise((resolve) => setTimeout(resolve, 100));
    if (by === "signal") controller.abort(new Error("the test's own reason"));
    const closing = by === "close" ? client.close() : undefined;
    await this.#step("cancelled", query);
    this.#outcome.ms = performance.now() - this.#from;
    if (closing) await this.#step("close", closing);
    else {
      // A server that ignores the cancel has 2 s, then the connection is given up.
      await this.#query("again", client, sql`select 42 as answer`, [{ answer: 42 }], DEADLINE + 500);
      await this.#step("close", client.close());
    }
    return this.#next();
  }

  /** null in a job stands for `undefined`, which JSON does not have. */
  #with(options: Record<string, unknown>): pgz.ConnectInput {
    return {
      ...this.#target,
      ...Object.fromEntries(Object.entries(options).map(([name, value]) => [name, value ?? undefined])),
    };
  }

  /** A new client on a new socket, against the same address: the server is honest now. */
  async #next(): Promise<Outcome> {
    const { failed } = this.#outcome;
    const client = this.#driver.createClient(this.#target);
    await this.#query("next", client, this.#driver.sql`select 42 as answer`, [{ answer: 42 }]);
    await this.#step("next close", client.close());
    if (this.#outcome.failed !== failed)
      this.#problem(`the next connection failed: ${JSON.stringify(this.#outcome.steps)}`);
    this.#outcome.failed = failed;
    this.#outcome.total = performance.now() - this.#from;
    return this.#outcome;
  }

  async #query(
    name: string,
    client: pgz.Client,
    query: pgz.Query,
    wanted?: unknown,
    deadline = DEADLINE,
  ): Promise<void> {
    const result = await this.#step(name, client.query(query), "", deadline);
    if (result && wanted !== undefined && JSON.stringify(result.rows) !== JSON.stringify(wanted))
      this.#problem(`${name}: wrong rows ${JSON.stringify(result.rows)}`);
    if (result && wanted === undefined) this.#settled(name).text = JSON.stringify(result.rows);
  }

  /** Calls that are on the wire together, one of which fails. */
  async #together(client: pgz.Client): Promise<void> {
    const { sql } = this.#driver;
    const echo = (text: string) => client.query(sql`select ${text}::text as echo`);
    const [first, failing, last] = [echo("first"), client.query(sql`select 1 / 0 as boom`), echo("last")];
    for (const call of [first, failing, last]) call.catch(() => {});
    await this.#step("together", first);
    await this.#step("together, failing", failing, "22012");
    const result = await this.#step("together, last", last);
    if (result && JSON.stringify(result.rows) !== '[{"echo":"last"}]') this.#problem("together: wrong rows");
  }

  /** Whole lines, and a clean end only behind the last one. */
  async #stream(name: string, client: pgz.Client, query: pgz.Query, wanted?: string): Promise<void> {
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
    if (!allLines.startsWith(text)) this.#problem(`${name}: wrong lines: ${text}`);
    if (wanted !== undefined && whole !== undefined && whole !== wanted)
      this.#problem(`${name}: a clean end behind ${JSON.stringify(text)}`);
  }

  #settled(name: string): Settled {
    return this.#outcome.steps[name] ?? { code: "missing", name: "", text: "", ms: 0 };
  }

  /** Waits for one promise. `wanted`: the code that the script expects of an honest server. */
  async #step<T>(name: string, promise: Promise<T>, wanted = "", deadline = DEADLINE): Promise<T | undefined> {
    const from = performance.now();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<"late">((resolve) => (timer = setTimeout(() => resolve("late"), deadline)));
    const found = await Promise.race([
      promise.then(
        (value) => ({ value }),
        (error: unknown) => ({ error }),
      ),
      late,
    ]);
    clearTimeout(timer);
    const settled: Settled = { code: "", name: "", text: "", ms: performance.now() - from };
    this.#outcome.steps[name] = settled;
    if (found === "late") {
      promise.catch(() => {});
      settled.code = "pending";
      this.#problem(`${name} did not settle within ${deadline} ms`);
    } else if ("error" in found) {
      this.#inspect(name, settled, found.error);
    }
    if (settled.code !== wanted) this.#outcome.failed ||= name;
    return typeof found === "object" && "value" in found ? found.value : undefined;
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
    const { password } = this.#target;
    if (all.includes(password) || all.includes(btoa(password)))
      this.#problem(`${name}: the error shows the password: ${all}`);
  }

  #problem(text: string): void {
    this.#outcome.problem ||= text;
  }
}

/** All that a log could show of an error. */
function everything(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = Object.getOwnPropertyNames(error)
    .filter((key) => key !== "cause")
    .map((key) => `${key}=${String((error as unknown as Record<string, unknown>)[key])}`);
  return [String(error), ...own, ...(error.cause === undefined ? [] : [`cause: ${everything(error.cause)}`])].join(
    " | ",
  );
}

/** Errors that nobody caught, of this runtime, from now on. */
export function watchUncaught(): string[] {
  const found: string[] = [];
  const scope = globalThis as {
    addEventListener?: (type: string, listener: (event: { reason?: unknown; error?: unknown }) => void) => void;
  };
  const host = globalThis.process as { on?: (event: string, listener: (error: unknown) => void) => void } | undefined;
  if (host?.on) {
    for (const event of ["unhandledRejection", "uncaughtException"])
      host.on(event, (error) => found.push(`${event}: ${everything(error)}`));
  } else {
    for (const type of ["unhandledrejection", "error"])
      scope.addEventListener?.(type, (event) => found.push(`${type}: ${everything(event.reason ?? event.error)}`));
  }
  return found;
}
