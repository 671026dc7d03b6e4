// Passwords from functions: the arguments of a function, which logins share its answer, and what happens if it is slow,
// fails, or returns nonsense.
import { expect, test, vi } from "vitest";
import { createClient } from "../../js/api/client.ts";
import { serversOf } from "../../js/config/hosts.ts";
import type { LoginAttempt, Options } from "../../js/config/options.ts";
import { createPool } from "../../js/pool/pool.ts";
import { AuthenticationError, TimeoutError } from "../../js/util/errors.ts";
import { Server } from "../simulation/server/server.ts";
import { clock, listen, newDice } from "../support/model-host.ts";
import { until } from "../support/until.mjs";
import { of } from "./config-input.ts";

const CAUSE = new Error("thrown late");
const roles = { app: { password: "right" } };
const place: Options = { host: "memory", user: "app", database: "app", sslmode: "disable" };

function newServer(): Server {
  const server = new Server(clock, newDice(), {
    version: 18,
    authentication: "scram-sha-256",
    maxConnections: 50,
    roles,
  });
  listen(server);
  return server;
}

test("a function gets host, port, user and database of each attempt, and is called for each login", async () => {
  const told: LoginAttempt[] = [];
  const password = async (attempt: LoginAttempt) => `token ${told.push(attempt)}`;
  const config = of({ host: "one,two", port: "1,2", user: "ada", database: "app", password });
  const [one, two] = serversOf(config);
  expect(told).toEqual([]);
  expect(await config.password(one!)).toMatchObject({ password: "token 1" });
  expect(await config.password(two!)).toMatchObject({ password: "token 2" });
  expect(await config.password(one!)).toMatchObject({ password: "token 3" });
  expect(told).toEqual([
    { host: "one", port: 1, user: "ada", database: "app" },
    { host: "two", port: 2, user: "ada", database: "app" },
    { host: "one", port: 1, user: "ada", database: "app" },
  ]);
});

test("logins to the same server that wait for a password share one call, and its failure", async () => {
  let settle!: { resolve: (text: string) => void; reject: (error: Error) => void };
  const password = vi.fn(() => new Promise<string>((resolve, reject) => (settle = { resolve, reject })));
  const config = of({ host: "one,two", user: "ada", password });
  const [one, two] = serversOf(config);
  const waiting = [config.password(one!), config.password(one!), config.password(two!)];
  expect(password).toHaveBeenCalledTimes(2);
  settle.resolve("second");
  await expect(waiting[2]).resolves.toMatchObject({ password: "second" });
  const joined = config.password(one!);
  expect(password).toHaveBeenCalledTimes(2);
  void config.password(two!).catch(() => {});
  expect(password).toHaveBeenCalledTimes(3);
  settle.reject(new Error("not this one"));
  await expect(Promise.race([joined, Promise.resolve("still waiting")])).resolves.toBe("still waiting");
});

test.each(["throws", "rejects"])(
  "a function that %s gives all waiting logins a typed error with its own as cause",
  async (way) => {
    const cause = new Error("vault is sealed");
    const password = vi.fn(() => {
      if (way === "throws") throw cause;
      return Promise.reject(cause);
    });
    const config = of({ user: "ada", password });
    const errors = await Promise.all([1, 2, 3].map(() => config.password(config).catch((error: unknown) => error)));
    expect(password).toHaveBeenCalledTimes(1);
    for (const error of errors) {
      expect(error).toBeInstanceOf(AuthenticationError);
      expect(error).toMatchObject({ code: "PASSWORD_FUNCTION_FAILED", retryable: true, cause });
      expect((error as Error).message).toBe('Option "password" threw: vault is sealed.');
    }
  },
);

const throws = {
  get(): never {
    throw CAUSE;
  },
};
const throwing = (name: string, rest = {}) => Object.defineProperty(rest, name, throws);

test.each<[string, () => unknown]>([
  ["password", () => throwing("password")],
  ["expiresAt", () => throwing("expiresAt", { password: "a" })],
  ["value of expiresAt", () => ({ password: "a", expiresAt: { valueOf: throws.get } })],
  ["proxy", () => new Proxy({}, { get: (_, name) => (name === "then" ? undefined : throws.get()) })],
  ["then", () => throwing("then")],
])("a result whose %s throws gives a typed error with that as cause", async (_, password) => {
  const config = of({ user: "ada", password: password as never });
  const error = await config.password(config).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(AuthenticationError);
  expect(error).toMatchObject({ code: "PASSWORD_FUNCTION_FAILED", retryable: true, cause: CAUSE });
});

test("a result is read once, when it has come", async () => {
  const expiresAt = new Date("2030-01-01");
  const until = Number(expiresAt);
  const config = of({ user: "ada", password: () => Promise.resolve({ password: "a", expiresAt }) });
  const found = await config.password(config);
  expiresAt.setTime(NaN);
  expect(found).toEqual({ password: "a", expiresAt: until });
});

test("a function that does not answer is called again once the login that called it has given up", async () => {
  const password = vi.fn(() => new Promise<string>(() => {}));
  const config = of({ user: "ada", password });
  const [first, second] = [new AbortController(), new AbortController()];
  void config.password(config, first.signal);
  void config.password(config, second.signal);
  second.abort();
  void config.password(config, first.signal);
  expect(password).toHaveBeenCalledTimes(1);
  first.abort();
  void config.password(config);
  expect(password).toHaveBeenCalledTimes(2);
});

test("a late answer does not end the call that followed it", async () => {
  const answers: ((text: string) => void)[] = [];
  const password = vi.fn(() => new Promise<string>((resolve) => void answers.push(resolve)));
  const config = of({ user: "ada", password });
  const first = new AbortController();
  const late = config.password(config, first.signal);
  first.abort();
  const next = config.password(config);
  answers[0]!("late");
  expect(await late).toMatchObject({ password: "late" });
  void config.password(config);
  expect(password).toHaveBeenCalledTimes(2);
  answers[1]!("next");
  expect(await next).toMatchObject({ password: "next" });
});

test.each([
  ["with NUL", "a\0b"],
  ["no text", 5],
  ["nothing", undefined],
  ["null", null],
  ["an object without a password", { expiresAt: 2e12 }],
])("a function that returns %s is refused", async (_, given) => {
  const config = of({ user: "ada", password: () => given as string });
  await expect(config.password(config)).rejects.toMatchObject({ code: "INVALID_OPTION" });
});

test("the expiry is milliseconds or a Date, and seconds and texts are refused", async () => {
  const answer = (expiresAt: unknown) => {
    const config = of({ user: "ada", password: () => ({ password: "x", expiresAt: expiresAt as Date }) });
    return config.password(config);
  };
  const date = new Date("2030-01-01");
  expect(await answer(date)).toEqual({ password: "x", expiresAt: date.getTime() });
  expect(await answer(date.getTime())).toEqual({ password: "x", expiresAt: date.getTime() });
  expect(await answer(undefined)).toEqual({ password: "x", expiresAt: Infinity });
  for (const wrong of [date.getTime() / 1000, "2030-01-01", new Date("no date"), null])
    await expect(answer(wrong)).rejects.toMatchObject({ code: "INVALID_OPTION" });
});

// -- with a server ----------------------------------------------------------------------------------------------------

test("connections that a pool makes together call the function once", async () => {
  newServer();
  let answer = (_: string) => {};
  const password = vi.fn(() => new Promise<string>((resolve) => (answer = resolve)));
  await using pool = createPool({ ...place, password }, { max: 5 });
  const calls = [1, 2, 3, 4, 5].map((n) => pool.query("select pg_sleep(0.01), $1::int4 as n", [n]));
  await until(() => pool.stats().connecting === 5 && password.mock.calls.length > 0);
  answer("right");
  await Promise.all(calls);
  await until(() => pool.stats().connects === 5); // a fast connection may have run the calls of two
  expect(password).toHaveBeenCalledTimes(1);
});

test("connects share that call despite other options of beforeConnect, except for another password", async () => {
  newServer();
  let answer = (_: string) => {};
  const password = vi.fn(() => new Promise<string>((resolve) => (answer = resolve)));
  let n = 0;
  const beforeConnect = () => (n++ < 2 ? { applicationName: `number ${n}` } : { password: "right" });
  await using pool = createPool({ ...place, password }, { max: 3, beforeConnect });
  const acquired = [1, 2, 3].map(() => pool.acquire());
  await until(() => n === 3 && password.mock.calls.length > 0);
  answer("right");
  const leases = await Promise.all(acquired);
  const name = "select current_setting('application_name') as name";
  const names = await Promise.all(leases.map(async (lease) => (await lease.query(name)).rows[0]!["name"]));
  for (const lease of leases) await lease.release();
  expect(names.sort()).toEqual(["number 1", "number 2", "pgz-edge"]);
  expect(password).toHaveBeenCalledTimes(1);
});

test("a function slower than connectTimeout is CONNECT_TIMEOUT, and a later call may succeed", async () => {
  newServer();
  let isSlow = true;
  const password = vi.fn(() => (isSlow ? new Promise<string>(() => {}) : "right"));
  await using db = createClient({ ...place, password, connectTimeout: 30 });
  const late = await db.query("select 1 as n").catch((error: unknown) => error);
  expect(late).toBeInstanceOf(TimeoutError);
  expect(late).toMatchObject({ code: "CONNECT_TIMEOUT", retryable: true });
  isSlow = false;
  expect((await db.query("select 1::int4 as n")).rows).toEqual([{ n: 1 }]);
  expect(password).toHaveBeenCalledTimes(2);
});
