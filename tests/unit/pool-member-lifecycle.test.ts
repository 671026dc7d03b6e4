// What is done with one connection of a pool, from its connect to its end, and the user's hooks around that: each step
// with each of its outcomes, on a stand-in connection that only records what is done with it.
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Options } from "../../js/config/options.ts";
import type { Member } from "../../js/pool/member.ts";
import { resolvePool, type PoolConfig } from "../../js/pool/options.ts";
import { MemberLifecycle } from "../../js/pool/member-lifecycle.ts";
import { connectionLost } from "../../js/runtime/contract.ts";
import { fromErrorResponse, UsageError, type PgzError } from "../../js/util/errors.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { FakeConnection, LOST } from "../support/fake-connection.ts";
import { newServer } from "../support/memory-session.ts";
import { settle } from "../support/pool-world.ts";

const opening = vi.hoisted(() => ({
  open: undefined as unknown as (config: object, giveUp: AbortController) => unknown,
}));
vi.mock("../../js/login/startup.ts", () => ({
  openConnection: (config: object, giveUp: AbortController) => opening.open(config, giveUp),
}));

const clock = new FakeClock();
beforeAll(() => void clock.install());
afterAll(() => clock.uninstall());
beforeEach(() => {
  clock.reset();
  newServer();
});

const lost = connectionLost("by the test", { hasNoEffect: true });
const wrongPassword = fromErrorResponse({ severity: "FATAL", code: "28P01", message: "no" }, { isStartup: true });
const tooMany = fromErrorResponse({ severity: "FATAL", code: "53300", message: "later" }, { isStartup: true });
const thrown = new Error("by the hook");

interface Kept {
  readonly lifecycle: MemberLifecycle;
  /** What the pool and the observer were told. */
  readonly told: unknown[];
  readonly connections: FakeConnection[];
  /** The options of each connect, some of which come from `beforeConnect`. */
  readonly connects: Options[];
}

/** `connection` creates the next connection. */
function keep(pool: Partial<PoolConfig>, connection = () => new FakeConnection(), isObserved = true): Kept {
  const told: unknown[] = [];
  const connections: FakeConnection[] = [];
  const connects: Options[] = [];
  const observer = {
    onHookError: ({ hook, error }: { hook: string; error: unknown }) => void told.push([hook, error]),
  };
  const config = resolveConfig({ user: "fake", host: "fake", ...(isObserved && { observer }) });
  opening.open = (given) => {
    connects.push(given as Options);
    const made = connection();
    connections.push(made);
    return Promise.resolve(made);
  };
  const lifecycle = new MemberLifecycle({
    config,
    counters: { queries: 0, errors: 0, rows: 0, bytes: 0, running: 0 },
    pool: { ...resolvePool({}, undefined, false), ...pool },
    configWith: (given) => ({ ...config, ...given }) as typeof config,
    emit: (event) => void told.push(event),
    demoted: (member) => void told.push(["demoted", member]),
  });
  return { lifecycle, told, connections, connects };
}

/** The same with one connection, which has been made. */
async function opened(pool: Partial<PoolConfig>, isObserved = true) {
  const kept = keep(pool, undefined, isObserved);
  const member = await kept.lifecycle.open(0);
  return { ...kept, member, connection: kept.connections[0]! };
}

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.fail("it did not reject"),
    (error: unknown) => error,
  );
}

// -- connecting -------------------------------------------------------------------------------------------------------

test("a connection is made and reported, and lives for maxLifetime less up to a tenth", async () => {
  const { lifecycle, told, connections, connects } = keep({ maxLifetime: 10_000, sharing: 3 });
  const dice = vi.spyOn(Math, "random").mockReturnValue(0.5);
  const member = await lifecycle.open(7);
  dice.mockRestore();
  expect(member.expiresAt - clock.now).toBe(9_500);
  expect([member.generation, member.since, member.state]).toEqual([7, clock.now, "busy"]);
  expect(told).toEqual(["connect"]);
  expect(connects[0]!.applicationName).toBe("pgz-edge");
  expect(connections[0]!.staysRead).toBe(true);
  const forEver = keep({ maxLifetime: 0, healthCheckInterval: 0 });
  expect((await forEver.lifecycle.open(0)).expiresAt).toBe(Infinity);
  expect(forEver.connections[0]!.staysRead).toBe(false);
});

test.each([
  ["four fifths of the time that its server gives it", 900_000, 3_600_000, 720_000],
  ["the same without maxLifetime", 900_000, 0, 720_000],
  ["maxLifetime, if that is less", 900_000, 60_000, 60_000],
  ["maxLifetime, if its server does not end it", Infinity, 3_600_000, 3_600_000],
  ["at least a second, as a wrong clock would make the pool connect without end", 0, 3_600_000, 1_000],
  ["at least a second after an expiry in the past", -3_600_000, 3_600_000, 1_000],
])("a connection is used for %s, less up to a tenth", async (_, left, maxLifetime, most) => {
  const dice = vi.spyOn(Math, "random").mockReturnValue(0.5);
  const { lifecycle } = keep({ maxLifetime }, () =>
    Object.assign(new FakeConnection(), { expiresAt: clock.now + left }),
  );
  const member = await lifecycle.open(0);
  dice.mockRestore();
  expect(Math.round(member.expiresAt - clock.now)).toBe(most * 0.95);
});

test("beforeConnect returns options for one connect, or none", async () => {
  let n = 0;
  const { lifecycle, connects } = keep({ beforeConnect: () => (n++ ? undefined : { applicationName: "once" }) });
  await lifecycle.open(0);
  await lifecycle.open(0);
  expect(connects.map(({ applicationName }) => applicationName)).toEqual(["once", "pgz-edge"]);
});

test("afterConnect waits for the login", async () => {
  let letIn = (_: unknown) => {};
  const connection = new FakeConnection();
  connection.startup.done = new Promise((resolve) => (letIn = resolve));
  let runs = 0;
  const { lifecycle, told } = keep({ afterConnect: () => void runs++ }, () => connection);
  const open = lifecycle.open(0);
  await settle();
  expect([runs, told]).toEqual([0, []]);
  letIn(undefined);
  const member = await open;
  expect([runs, told, member.sessionChanges.change]).toEqual([1, ["connect"], "none"]);
  expect(connection.log).toEqual([]);
  // The timer of the hook's deadline ends with the hook.
  expect(clock.timers).toEqual([]);
});

test("settings of afterConnect do not count as session changes of a borrower", async () => {
  const member: Member = await keep({}).lifecycle.open(0);
  const { lifecycle } = keep({ afterConnect: () => void (member.sessionChanges.change = "resets"), reset: "always" });
  await lifecycle.clean(member);
  expect(member.sessionChanges.change).toBe("none");
});

/** How a connect fails, and which waiters that fails: before the first successful connect, and after it. */
const failures: [string, Partial<PoolConfig>, wrong: (made: FakeConnection) => void, unknown, string, string][] = [
  ["beforeConnect throws", { beforeConnect: () => Promise.reject(thrown) }, () => {}, thrown, "first", "first"],
  ["no server", {}, () => fail(lost), lost, "all", "none"],
  ["a server that is full", {}, () => fail(tooMany), tooMany, "none", "none"],
  ["a wrong password", {}, () => fail(wrongPassword), wrongPassword, "all", "all"],
  ["something else", {}, () => fail(thrown), thrown, "all", "all"],
  ["afterConnect throws", { afterConnect: () => Promise.reject(thrown) }, () => {}, thrown, "first", "first"],
  [
    "afterConnect throws what could be tried again",
    { afterConnect: () => Promise.reject(tooMany) },
    () => {},
    tooMany,
    "first",
    "first",
  ],
  [
    "a login fails that afterConnect waits for",
    { afterConnect: () => {} },
    (made) => (made.startup.done = Promise.reject(wrongPassword)),
    wrongPassword,
    "all",
    "all",
  ],
];

function fail(error: PgzError | Error): never {
  throw error;
}

for (const [name, pool, wrong, error, first, later] of failures)
  test.each([
    [false, first],
    [true, later],
  ])(`${name}; has connected before: %s`, async (hasConnected, ends) => {
    let isWrong = false;
    const { lifecycle, told, connections } = keep(
      {
        ...pool,
        ...(pool.beforeConnect && { beforeConnect: () => (isWrong ? pool.beforeConnect!() : undefined) }),
        ...(pool.afterConnect && { afterConnect: (lease) => (isWrong ? pool.afterConnect!(lease) : undefined) }),
      },
      () => {
        const made = new FakeConnection();
        if (isWrong) wrong(made);
        return made;
      },
    );
    if (hasConnected) await lifecycle.open(0);
    isWrong = true;
    const cause = await rejection(lifecycle.open(0));
    expect(lifecycle.judge(cause)).toEqual({ error, ends });
    expect(told).toEqual(hasConnected ? ["connect"] : []);
    const made = connections.slice(hasConnected ? 1 : 0);
    if (pool.afterConnect) expect(made.map(({ log }) => log)).toEqual([["close"]]);
    lifecycle.unreported(cause);
    const hook = Object.keys(pool)[0];
    expect(told.slice(hasConnected ? 1 : 0)).toEqual(ends === "first" ? [[hook, error]] : []);
  });

test.each([
  ["a retryable error", tooMany, "none"],
  ["a permanent error", wrongPassword, "first"],
])("afterConnect throws %s when its connection has ended", async (_, error, ends) => {
  const connection = new FakeConnection();
  const afterConnect = () => {
    connection.closed = LOST;
    throw error;
  };
  const { lifecycle } = keep({ afterConnect }, () => connection);
  expect(lifecycle.judge(await rejection(lifecycle.open(0)))).toEqual({ error, ends });
});

test("a hook that never ends fails its connect after 5 s", async () => {
  const { lifecycle, connections } = keep({ afterConnect: () => new Promise(() => {}) });
  const rejected = rejection(lifecycle.open(0));
  await settle();
  expect(clock.timers).toEqual([5_000]);
  await clock.advance(5_000, settle);
  expect(lifecycle.judge(await rejected)).toMatchObject({ error: { code: "HOOK_TIMEOUT" }, ends: "first" });
  expect(connections[0]!.log).toEqual(["close"]);
});

test("connects in progress are aborted with the pool, and completed ones are not", async () => {
  const { lifecycle } = keep({});
  const closed = new UsageError("POOL_CLOSED", "closed");
  const aborts: AbortSignal[] = [];
  opening.open = (_, { signal }) => {
    aborts.push(signal);
    return aborts.length === 1
      ? new FakeConnection()
      : new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
  };
  await lifecycle.open(0);
  const waiting = rejection(lifecycle.open(0));
  await settle();
  lifecycle.abortConnects(closed);
  expect(await waiting).toBe(closed);
  expect(aborts.map(({ aborted }) => aborted)).toEqual([false, true]);
});

// -- returned connections ---------------------------------------------------------------------------------------------

const backs: [string, Partial<PoolConfig>, (member: Member) => unknown, string[] | undefined][] = [
  ["nothing to do", {}, () => {}, undefined],
  ["reset: always", { reset: "always" }, () => {}, ["set session"]],
  ["a setting", {}, (member: Member) => (member.sessionChanges.change = "resets"), ["set session"]],
  ["a setting, reset: never", { reset: "never" }, (member: Member) => (member.sessionChanges.change = "resets"), []],
  ["afterRelease", { afterRelease: () => {} }, () => {}, []],
  ["a call that runs", {}, (member: Member) => ((member.connection as { isBusy: boolean }).isBusy = true), ["destroy"]],
];

test.each(backs)("a returned connection is cleaned as needed: %s", async (_, pool, leave, wanted) => {
  const { lifecycle, member, connection } = await opened(pool);
  leave(member);
  const cleaning = lifecycle.clean(member);
  expect(cleaning === undefined).toBe(wanted === undefined);
  await cleaning;
  expect(connection.log.map((step) => wanted?.find((start) => step.startsWith(start)))).toEqual(wanted ?? []);
  expect(member.isDoomed).toBe(false);
});

test.each([
  [() => undefined, false],
  [() => true, false],
  [() => false, true],
  [() => Promise.resolve(false), true],
  [() => fail(thrown), true],
  [() => Promise.reject(thrown), true],
])("the result of afterRelease decides whether the connection is kept: %s", async (afterRelease, isDoomed) => {
  const { lifecycle, told, member } = await opened({ afterRelease });
  await lifecycle.clean(member);
  expect([member.isDoomed, told]).toEqual([isDoomed, ["connect"]]);
});

test("afterRelease is not called for an ended connection, and one that ends during a hook is not lent", async () => {
  const afterRelease = vi.fn();
  const { lifecycle, member, connection } = await opened({ afterRelease });
  connection.closed = LOST;
  await lifecycle.clean(member);
  expect(afterRelease).not.toHaveBeenCalled();
  expect(member.isDoomed).toBe(false);
  const ending: Kept = keep({ beforeAcquire: () => void (ending.connections[0]!.closed = LOST) });
  expect(await ending.lifecycle.agrees(await ending.lifecycle.open(0), "beforeAcquire")).toBe(false);
});

test.each([true, false])("after a reset afterConnect runs again; observed: %s", async (isObserved) => {
  let runs = 0;
  const afterConnect = () => (++runs === 3 ? fail(thrown) : undefined);
  const { lifecycle, told, member, connection } = await opened({ reset: "always", afterConnect }, isObserved);
  await lifecycle.clean(member);
  expect([runs, connection.log.length, told]).toEqual([2, 1, ["connect"]]);
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  await lifecycle.clean(member);
  const printed = warn.mock.calls;
  warn.mockRestore();
  expect(connection.log.slice(-1)).toEqual(["close"]);
  expect(told.slice(1)).toEqual(isObserved ? [["afterConnect", thrown]] : []);
  expect(printed).toEqual(isObserved ? [] : [["pgz-edge: the hook afterConnect threw: Error: by the hook"]]);
});

test.each([
  ['row ["on"]', true],
  ['row ["off"]', false],
] as const)("a server that refused a write is asked for its role: %s; demoted: %s", async (answer, isDemoted) => {
  const { lifecycle, told, member, connection } = await opened({});
  connection.config.targetSessionAttrs = "read-write";
  connection.answers = { SHOW: answer };
  expect(lifecycle.clean(member)).toBe(undefined);
  connection.refusedWrite = true;
  await lifecycle.clean(member);
  expect(told.slice(1)).toEqual(isDemoted ? [["demoted", member]] : []);
  expect(Boolean(connection.closed)).toBe(isDemoted);
  connection.config.targetSessionAttrs = "any";
  connection.closed = undefined;
  connection.refusedWrite = true;
  expect(lifecycle.clean(member)).toBe(undefined);
});

test("a server is not asked for its role if its connection has ended", async () => {
  const { lifecycle, told, member, connection } = await opened({ reset: "always" });
  connection.config.targetSessionAttrs = "primary";
  connection.refusedWrite = true;
  connection.answers = { "set session": "error" };
  await lifecycle.clean(member);
  expect(connection.log.slice(1)).toEqual(["close"]);
  expect(told).toEqual(["connect"]);
});

// -- closing ----------------------------------------------------------------------------------------------------------

test("beforeClose is called for an open connection, and cannot keep it open", async () => {
  const beforeClose = vi.fn(() => fail(thrown));
  const { lifecycle, told, connections } = keep({ beforeClose });
  const [open, ended] = [await lifecycle.open(0), await lifecycle.open(0)];
  connections[1]!.closed = LOST;
  await lifecycle.close(open);
  expect(beforeClose).toHaveBeenCalledTimes(1);
  await lifecycle.close(ended);
  expect(beforeClose).toHaveBeenCalledTimes(1);
  expect(connections.map(({ log }) => log)).toEqual([["close"], []]);
  expect(told).toEqual(["connect", "connect", "remove", "remove"]);
});

test.each([
  ["a borrower", (member: Member) => (member.borrowers = 1)],
  ["a call that runs", (member: Member) => ((member.connection as { isBusy: boolean }).isBusy = true)],
])("beforeClose is not called during %s", async (_, beside) => {
  const beforeClose = vi.fn();
  const { lifecycle, member, connection } = await opened({ beforeClose });
  beside(member);
  await lifecycle.close(member);
  expect(beforeClose).not.toHaveBeenCalled();
  expect(connection.log).toEqual(["close"]);
});

test("the calls of a hook end with the hook", async () => {
  let query: Promise<unknown> | undefined;
  const connection = new FakeConnection();
  connection.stopping = new Promise(() => {});
  const { lifecycle } = keep(
    { beforeAcquire: (lease) => void (query = rejection(lease.exec("select 1"))) },
    () => connection,
  );
  const member = await lifecycle.open(0);
  const agreed = lifecycle.agrees(member, "beforeAcquire");
  await settle();
  expect(await query).toMatchObject({ code: "LEASE_RELEASED" });
  connection.stopping = undefined;
  void agreed;
});
