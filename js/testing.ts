// `pgz-edge/testing`: a transaction around each test, which is rolled back (docs/testing.md).
//
// Knows which kind of source it was given, and the hooks of the test runners. Must not know how calls run in a test
// (testing/).
import { UsageError, type Client, type Isolation, type Pool } from "./index.ts";
import { DriverTest, type Around } from "./testing/driver.ts";
import { FacadeTest, type FacadeSource } from "./testing/facade.ts";

/** The sources that tests may use: a client or a pool of pgz-edge, or a `Client` or `Pool` of pgz-edge/pg. */
export type TestSource = Client | Pool | FacadeSource;

/** Options of {@link withRollback} and {@link rollbackEachTest}. */
export interface RollbackOptions {
  /**
   * The isolation level of the transaction around a test, and so of all transactions inside it. A level that these
   * request has no effect. Default: the session's level.
   */
  readonly isolation?: Isolation | undefined;
}

/**
 * The hooks of a test runner. Pass the functions of these names from vitest, Jest, `bun:test` or `@std/testing/bdd`,
 * the module `node:test`, or `Deno.test` itself.
 */
export interface TestHooks {
  beforeEach(hook: () => Promise<void>): unknown;
  afterEach(hook: () => Promise<void>): unknown;
  /** If given, the source is closed after all tests of the file. */
  afterAll?(hook: () => Promise<void>): unknown;
  /** Like `afterAll`, by its name in `node:test`. */
  after?(hook: () => Promise<void>): unknown;
}

/**
 * Runs `work` in a transaction and rolls it back, whether `work` returns or throws. Use `db` like the source itself.
 * Each call of `withRollback` has its own connection and transaction, so several may run at the same time.
 *
 * @throws UsageError `INVALID_OPTION`
 * @example
 * await withRollback(pool, async (db) => {
 *   await createUser(db, "Ann");
 *   assert.equal(await countUsers(db), 1);
 * });
 */
export async function withRollback<Source extends TestSource, Result>(
  source: Source,
  work: (db: Source) => Result | Promise<Result>,
  options: RollbackOptions = {},
): Promise<Result> {
  const around = aroundOf(source, options);
  await around.begin();
  let result: Result;
  try {
    result = await work(around.db);
  } catch (error) {
    // The test's own error says more than a failed rollback.
    await around.end().catch(() => {});
    throw error;
  }
  await around.end();
  return result;
}

/**
 * Returns a database for the tests of a file. What a test writes is rolled back at the end of the test. Use it like
 * `source` itself, from `beforeEach` to `afterEach`. Before and after that, use the source to write rows that must
 * stay.
 *
 * @throws UsageError `INVALID_OPTION`
 * @example
 * import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
 *
 * const db = rollbackEachTest(createPool(url), { beforeEach, afterEach, afterAll });
 *
 * test("a user has a name", async () => {
 *   await createUser(db, "Ann");
 *   expect(await countUsers(db)).toBe(1);
 * });
 */
export function rollbackEachTest<Source extends TestSource>(
  source: Source,
  hooks: TestHooks,
  options: RollbackOptions = {},
): Source {
  if (typeof hooks?.beforeEach !== "function" || typeof hooks.afterEach !== "function")
    throw new UsageError("INVALID_OPTION", "rollbackEachTest needs the runner's hooks: { beforeEach, afterEach }.");
  const around = aroundOf(source, options);
  // Wrapped in functions without parameters, because runners look at how many parameters a hook has.
  hooks.beforeEach(() => around.begin());
  hooks.afterEach(() => around.end());
  const last = hooks.afterAll ?? hooks.after;
  last?.call(hooks, () => close(source));
  return around.db;
}

function aroundOf<Source extends TestSource>(source: Source, options: RollbackOptions): Around<Source> {
  for (const name of Object.keys(options))
    if (name !== "isolation")
      throw new UsageError("UNKNOWN_OPTION", `pgz-edge/testing has no option "${name}", only isolation.`);
  const { isolation } = options;
  const has = (name: string) => typeof (source as unknown as Record<string, unknown> | null)?.[name] === "function";
  if (has("transaction") && has("close"))
    return new DriverTest(source as Client & Pool, isolation) as unknown as Around<Source>;
  if (has("connect") && has("query") && has("end"))
    return new FacadeTest(source as FacadeSource, isolation) as unknown as Around<Source>;
  throw new UsageError(
    "INVALID_OPTION",
    "A test needs what createPool or createClient gives, or a Pool or Client of pgz-edge/pg.",
  );
}

async function close(source: TestSource): Promise<void> {
  if ("end" in source) await source.end();
  else await source.close();
}
