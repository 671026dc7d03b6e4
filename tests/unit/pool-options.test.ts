// The options of a pool: defaults, rules, and which options are the pool's own.
import { expect, test } from "vitest";
import { poolOptionNames, resolvePool, splitOptions, type PoolInput, type PoolOptions } from "../../js/pool/options.ts";
import type { UsageError } from "../../js/util/errors.ts";
import { standIn } from "./config-input.ts";

const numbers = {
  ...{ max: 10, min: 0, idleTimeout: 300_000, maxLifetime: 3_600_000, acquireTimeout: 30_000 },
  ...{ healthCheckInterval: 30_000, maxConnecting: 5, leakThreshold: 60_000 },
};

test("the defaults are as documented, and different on Workers", () => {
  const plain = resolvePool({}, undefined, false);
  expect(plain).toMatchObject({ ...numbers, reset: "auto", sharing: 1 });
  expect(resolvePool({}, 7, true)).toMatchObject({
    ...numbers,
    ...{ max: 5, maxLifetime: 720_000, healthCheckInterval: 0, reset: "auto", sharing: 7 },
  });
  expect(resolvePool({ reset: "always" }, 7, false)).toMatchObject({ reset: "always", sharing: 1 });
  expect(Object.isFrozen(plain)).toBe(true);
  expect(Object.keys(plain).sort()).toEqual([...poolOptionNames(), "sharing"].sort());
});

const hook = () => {};
const good: Record<string, unknown[]> = {
  max: [1, 100_000],
  min: [0, 100_000],
  maxConnecting: [1, 100_000],
  ...Object.fromEntries(
    ["idleTimeout", "maxLifetime", "acquireTimeout", "healthCheckInterval", "leakThreshold"].map((name) => [
      name,
      [0, 2 ** 31 - 1],
    ]),
  ),
  reset: ["auto", "always", "never"],
  holdProcess: [true, false],
  ...Object.fromEntries(
    ["beforeConnect", "afterConnect", "beforeAcquire", "afterRelease", "beforeClose"].map((name) => [name, [hook]]),
  ),
};
const wrong: Record<string, unknown[]> = {
  ...Object.fromEntries(Object.keys(good).map((name) => [name, [null, "x", -1, 1.5, NaN, 2 ** 31, true, {}]])),
  max: [0, 100_001, "10"],
  min: [-1, 100_001],
  maxConnecting: [0, 100_001],
  holdProcess: [null, "x", -1, 1.5, NaN, {}],
};

test("each option has a rule", () => {
  expect(Object.keys(good).sort()).toEqual([...poolOptionNames()].sort());
});

test.each(Object.entries(good))("%s accepts its valid values, and undefined is the default", (name, values) => {
  const others = name === "min" ? { max: 100_000 } : {};
  for (const value of values)
    expect(resolvePool({ ...others, [name]: value }, undefined, false)).toMatchObject({ [name]: value });
  const plain = resolvePool({}, undefined, false);
  expect(resolvePool({ [name]: undefined }, undefined, false)).toEqual(plain);
});

test.each(Object.entries(wrong))("%s refuses invalid values", (name, values) => {
  for (const value of values) {
    const refused = () => resolvePool({ [name]: value }, undefined, false);
    expect(refused, `${name}: ${String(value)}`).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    expect(refused).toThrow(`"${name}"`);
  }
});

test("the pool's own options are separated from those of its connections, wherever they are given", () => {
  const input = { connectionString: "postgres://u@h/d", max: 3, reset: "never", timeout: 5 } as const;
  const options: PoolOptions = { max: 4, applicationName: "a", afterConnect: hook };
  expect(splitOptions(input, options)).toEqual({
    given: { max: 4, reset: "never", afterConnect: hook },
    input: { connectionString: "postgres://u@h/d", timeout: 5 },
    overrides: { applicationName: "a" },
  });
  expect(splitOptions("postgres://u@h/d", {})).toEqual({ given: {}, input: "postgres://u@h/d", overrides: {} });
  const bare = Object.assign(Object.create(null) as object, { max: 2, user: "u" }) as PoolInput;
  expect(splitOptions(bare, {})).toMatchObject({ given: { max: 2 }, input: { user: "u" } });
});

test("only plain objects are read as options, and a binding is passed on unchanged", () => {
  class Binding {
    readonly connectionString = "postgres://u@h/d";
    readonly max = 3;
  }
  const binding = new Binding();
  expect(splitOptions(binding, {})).toEqual({ given: {}, input: binding, overrides: {} });
  expect(splitOptions(binding, {}).input).toBe(binding);
  expect(splitOptions(standIn, {}).input).toBe(standIn);
  for (const nothing of [null, undefined, 5] as never[]) expect(splitOptions(nothing, {}).input).toBe(nothing);
});

test.each([
  [{ maximum: 3 }, {}],
  [{}, { maximum: 3 }],
])("a name that is no option of pool or connection is refused", (input, options) => {
  const refused = (): unknown => splitOptions(input as PoolInput, options as PoolOptions);
  expect(refused).toThrow(expect.objectContaining({ code: "UNKNOWN_OPTION" }) as UsageError);
  expect(refused).toThrow('"maximum"');
});

test("min is at most max, which is smaller on Workers", () => {
  expect(() => resolvePool({ min: 20 }, undefined, false)).toThrow('Option "min" must be at most "max", which is 10.');
  expect(() => resolvePool({ min: 6 }, undefined, true)).toThrow('Option "min" must be at most "max", which is 5.');
  expect(resolvePool({ min: 5 }, undefined, true)).toMatchObject({ min: 5, max: 5 });
});
