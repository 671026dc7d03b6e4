// The configuration of a new client or pool: what it takes from the runtime, and what it refuses.
import { beforeEach, expect, test } from "vitest";
import { configured, configuredForPool } from "../../js/api/configured.ts";
import { installRuntime, type Runtime } from "../../js/runtime/runtime.ts";

const install = (traits: Partial<Runtime>) =>
  installRuntime({
    name: "node",
    module: () => new Uint8Array(),
    connect: () => Promise.reject(),
    ...traits,
  } as Runtime);

beforeEach(() => install({}));

test.each([
  ["node", 1 << 30],
  ["workerd", 8 << 20],
])("on %s a message may have %d bytes", (name, bytes) => {
  install({ name });
  expect(configured({ host: "h", user: "u" }).maxMessageBytes).toBe(bytes);
});

test("missing options are taken from the runtime's environment", () => {
  const variables: Record<string, string> = { PGHOST: "db.example", PGUSER: "ada", PGDATABASE: "sums" };
  install({ environment: (name) => variables[name] });
  expect(configured({})).toMatchObject({ host: "db.example", user: "ada", database: "sums" });
  expect(configured({ user: "bob" }, { database: "other" })).toMatchObject({ user: "bob", database: "other" });
  expect(configured({ user: "bob" }, { environment: false })).toMatchObject({ host: "localhost", database: "bob" });
});

test("the options win over the connection string", () => {
  expect(configured("postgres://ada@h/sums", { user: "bob", timeout: 7 })).toMatchObject({
    ...{ user: "bob", database: "sums", timeout: 7 },
  });
});

test("pool options in a connection string are read for a pool only", () => {
  const url = "postgres://ada@h/sums?pool_timeout=3";
  expect(configuredForPool(url).pool).toEqual({ acquireTimeout: 3_000 });
  expect(configured(url).pool).toEqual({});
});

test.each([[5], ["text"], [null], [true], [() => {}]])("options that are not an object are refused: %s", (options) => {
  expect(() => configured("postgres://ada@h/sums", options as never)).toThrow(
    expect.objectContaining({ name: "UsageError", code: "INVALID_OPTION" }),
  );
});
