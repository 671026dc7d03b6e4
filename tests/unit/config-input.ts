// Shared by the tests of options: a resolved input, the error of a refused input, and a binding.
import { expect } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Config, ConnectInput, Options } from "../../js/config/options.ts";
import { UsageError } from "../../js/util/errors.ts";

export const URL_ = "postgres://ada:secret@db.example.com/app";
export const of = (input: ConnectInput, overrides?: Options) => resolveConfig(input, {}, overrides);
/** The password that a login to the only server uses. */
export const passwordOf = async (config: Config) => (await config.password(config)).password;
export const refused = (input: unknown, overrides?: unknown) => {
  try {
    resolveConfig(input as ConnectInput, {}, (overrides ?? {}) as Options);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return error as UsageError;
  }
  throw new Error("was accepted");
};

const binding = {
  connectionString: "postgres://ada:secret@localhost:5432/app?sslmode=disable",
  ip: "240.0.167.88",
  host: "localhost",
  connect: () => {},
};
const isOwn = (name: PropertyKey) => name !== "connect" && Object.hasOwn(binding, name);
/** A Hyperdrive binding in Node, as getPlatformProxy of wrangler 4.164 gives it: `connect` is not its own property. */
export const standIn = new Proxy(Object.create(null) as { connectionString: string }, {
  get: (_, name) => Reflect.get(binding, name) as unknown,
  has: (_, name) => name in binding,
  ownKeys: () => Object.keys(binding).filter(isOwn),
  getOwnPropertyDescriptor: (_, name) =>
    isOwn(name) ? { value: undefined, enumerable: true, configurable: true } : undefined,
});
