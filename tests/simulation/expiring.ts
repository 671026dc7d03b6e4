// Hours of virtual time in which logins expire: a token service gives tokens that are valid for a while, the server
// rejects older ones and ends each session after its limit, and a pool has calls all the time.
//
// What must hold: no call fails, the server ends no session, no login uses an expired token, and the service never has
// two requests at the same time. Where the pool is not told of the limit, some of this must fail, otherwise the check
// would show nothing.
//
// Knows the pool's options for it. Must not know how the pool does it.
import { driver } from "./driver.ts";
import { Network } from "./network.ts";
import { described } from "./session.ts";
import { Server } from "./server/server.ts";
import { World } from "./world.ts";

const HOUR = 3_600_000;
const MINUTE = 60_000;

export interface Hour {
  readonly name: string;
  /** Milliseconds for which a session may last. */
  readonly limit: number;
  /** Whether the password function reports when its session ends. */
  readonly tells: boolean;
  readonly maxLifetime?: number;
  /** Milliseconds that the service takes to respond. */
  readonly takes: number;
  /** Milliseconds at the start of each quarter of an hour during which the service refuses. */
  readonly isDownFor?: number;
  /** Whether calls must fail, or the server must end sessions. */
  readonly mustFail?: true;
}

export const hours: readonly (Hour & { run(): Promise<string[]> })[] = (
  [
    { name: "tokens of 15 minutes that end their sessions", limit: 15 * MINUTE, tells: true, takes: 200 },
    { name: "tokens of 2 minutes, and a slow service", limit: 2 * MINUTE, tells: true, takes: 4_000 },
    { name: "a service that is down now and then", limit: 5 * MINUTE, tells: true, takes: 50, isDownFor: 20_000 },
    { name: "a server's limit, by maxLifetime", limit: 10 * MINUTE, tells: false, takes: 0, maxLifetime: 8 * MINUTE },
    { name: "a limit that nobody tells", limit: 10 * MINUTE, tells: false, takes: 0, mustFail: true },
  ] satisfies Hour[]
).map((hour) => ({ ...hour, run: () => new Expiring(hour).run() }));

class Expiring {
  readonly #world = new World(4, false);
  readonly #server: Server;
  readonly #network: Network;
  readonly #faults: string[] = [];
  readonly #hour: Hour;
  #asking = 0;
  #asked = 0;
  #calls = 0;
  /** The number of sessions that the server has ended. */
  #ended = 0;
  #isOver = false;

  constructor(hour: Hour) {
    this.#hour = hour;
    const world = this.#world;
    const accepts = (token: string) => world.now - Number(token.slice("token ".length)) < hour.limit;
    this.#server = new Server(world, world.dice("server"), {
      version: 18,
      authentication: "password",
      maxConnections: 20,
      roles: { app: { password: "", accepts } },
      thinkTime: () => 1,
    });
    const weather = { latency: 5, jitter: 1, split: "whole" } as const;
    const dice = (purpose: string) => world.dice(purpose);
    this.#network = new Network(
      world,
      dice,
      weather,
      [],
      () => {},
      () => {},
    );
    this.#network.addHost("expiring.test", this.#server);
  }

  /** Returns what did not hold. */
  async run(): Promise<string[]> {
    const world = this.#world;
    this.#endOld();
    const end = await world.run(() => this.#main());
    if (end.kind === "failed") this.#faults.push(described(end.error));
    if (end.kind === "stuck") this.#faults.push(`stuck after ${world.now} ms and ${world.events} events`);
    await world.runFor(MINUTE);
    if (this.#network.open) this.#faults.push(`${this.#network.open} sockets are left`);
    if (world.timers) this.#faults.push(`${world.timers} timers are left`);
    if (this.#ended) this.#faults.push(`the server ended ${this.#ended} sessions`);
    if (this.#calls < 5_000) this.#faults.push(`only ${this.#calls} calls`);
    if (!this.#hour.mustFail) return this.#faults;
    return this.#faults.some((fault) => fault.startsWith("the server ended")) ? [] : ["nothing failed"];
  }

  async #main(): Promise<void> {
    const { maxLifetime } = this.#hour;
    const pool = driver.createPool({
      host: "expiring.test",
      user: "app",
      sslmode: "disable",
      allowCleartextPassword: true,
      password: () => this.#password(),
      connect: this.#network.connector({ readsWhileIdle: true }),
      max: 4,
      ...(maxLifetime && { maxLifetime }),
    });
    await Promise.all([0, 1, 2, 3, 4, 5].map((number) => this.#user(pool, number)));
    const { connects } = pool.stats();
    const least = Math.floor(HOUR / this.#hour.limit);
    if (connects < least) this.#faults.push(`${connects} connects in an hour, with sessions of ${this.#hour.limit} ms`);
    if (!this.#hour.isDownFor && this.#asked > connects)
      this.#faults.push(`${this.#asked} questions for ${connects} connects`);
    await pool.close();
    this.#isOver = true;
  }

  /** Runs short calls, transactions, and now and then a call of ten seconds. */
  async #user(pool: ReturnType<typeof driver.createPool>, number: number): Promise<void> {
    const world = this.#world;
    const dice = world.dice(`user ${number}`);
    while (world.now < HOUR) {
      const seconds = dice.oneIn(50) ? 10 : dice.below(20) / 100;
      const call = dice.oneIn(3)
        ? pool.transaction(async (tx) => {
            await tx.query("select pg_sleep($1)", [seconds]);
            return tx.query("select 1::int4 as n");
          })
        : pool.query("select pg_sleep($1)", [seconds]);
      await call.then(
        () => this.#calls++,
        (error: unknown) => this.#faults.push(`at ${world.now} ms: ${described(error)}`),
      );
      // Some pauses are so long that the pool has nothing to do for a while.
      await sleep(dice.oneIn(200) ? 100_000 : dice.below(2_000));
    }
  }

  async #password(): Promise<string | driver.PasswordAnswer> {
    const { limit, tells, takes, isDownFor = 0 } = this.#hour;
    this.#asked++;
    if (this.#asking++) this.#faults.push("asked twice at the same time");
    const { now } = this.#world;
    try {
      if (takes) await sleep(takes);
      if (now % (15 * MINUTE) < isDownFor && now > MINUTE) throw new Error("the token service is down");
      const password = `token ${now}`;
      return tells ? { password, expiresAt: Date.now() - (this.#world.now - now) + limit } : password;
    } finally {
      this.#asking--;
    }
  }

  /** Acts as a server that ends sessions which last too long. */
  #endOld(): void {
    this.#world.after(250, () => {
      for (const { processId, startedAt } of this.#server.backends) {
        if (this.#world.now - startedAt < this.#hour.limit) continue;
        this.#ended++;
        this.#server.terminate(processId);
      }
      if (!this.#isOver) this.#endOld();
    });
  }
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, milliseconds));
}
