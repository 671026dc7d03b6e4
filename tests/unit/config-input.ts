// What the tests of options share: an input resolved, and the error where it is refused.
import { expect } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { ConnectInput, Options } from "../../js/config/options.ts";
import { UsageError } from "../../js/util/errors.ts";

export const URL_ = "postgres://ada:secret@db.example.com/app";
export const of = (input: ConnectInput, overrides?: Options) => resolveConfig(input, {}, overrides);
export const refused = (input: unknown, overrides?: unknown) => {
  try {
    resolveConfig(input as ConnectInput, {}, (overrides ?? {}) as Options);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return error as UsageError;
  }
  throw new Error("was accepted");
};
