// `pgz-edge/testing`: a transaction around each test, which is rolled back (docs/testing.md).
//
// Knows which kind of source it was given, and the hooks of the test runners. Must not know how calls run in a test
// (testing/).
import { UsageError, type Client, type Isolation, type Pool } from "../index.ts";
import { DriverTest, type Around } from "./testing/driver.ts";
import { FacadeTest, type FacadeSource } from "./testing/facade.ts";

/** What tests may use: a client or a pool of pgz-edge, or a `Client` or `Pool` of pgz-edge/pg. */
export type TestSource = Client | Pool | FacadeSource;

/** Options of {@link withRollback} and {@link rollbackEachTest}. */
export interface RollbackOptions {
  /**
   * The isolation level of the transaction around a test, and so of all transactions inside of it: what they ask for
   * themselves changes nothing. Default: the session's.
   */
  readonly isolation?: Isolation | undefined;
}

/**
 * The hooks of a test runner: of vitest, Jest, `bun:test` and `@std/testing/bdd` the functions of these names, of
 * `node:test` the module, `Deno.test` itself.
 */
export interface TestHooks {
  beforeEach(hook: () => Promise<void>): unknown;
  afterEach(hook: () => Promise<void>): unknown;
  /** Given, it closes the source when all tests of the file have run. */
  afterAll?(hook: () => Promise<void>): unknown;
  /** The same, by its name in `node:test`. */
  after?(hook: () => Promise<void>): unknown;
}

/**
 * Runs `work` in a transaction and rolls it back, whether it returns or throws. `db` is used as the source itself. Each
 * call of it has its own connection and transaction, so several may run at the same time.
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
    // Why the test has failed says more than why its end has.
    await around.end().catch(() => {});
    throw error;
  }
  await around.end();
  return result;
}

/**
 * A database for the tests of a file: what each of them writes is rolled back at its end. Used as `source` itself, from
 * `beforeEach` to `afterEach`; before and after that, what shall stay is written by the source.
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
  // Not by reference: runners look at how many parameters a hook has.
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
