// A configuration for this runtime: its limits, and its environment for values that the caller has not given.
//
// Knows the runtime and the configuration. Must not know connections.
import { resolveConfig } from "../config/config.ts";
import { checkObject } from "../config/rules.ts";
import type { Config, ConnectInput, Options } from "../config/options.ts";
import { runtime } from "../runtime/runtime.ts";
import { UsageError } from "../util/errors.ts";

/** @throws UsageError as `resolveConfig` */
export function configured(input: ConnectInput, options?: Options): Config {
  return resolved(input, false, options);
}

/** As `configured`, for a pool, which takes its own options from the connection string too. */
export function configuredForPool(input: ConnectInput, options?: Options): Config {
  return resolved(input, true, options);
}

function resolved(input: ConnectInput, isPool: boolean, options?: Options): Config {
  if (options !== undefined) checkObject(options);
  const { name, environment, passfile } = runtime();
  return resolveConfig(input, { isWorkerd: name === "workerd", environment, passfile, isPool }, options);
}

/**
 * For classes that users of other drivers make with `new`. `make` is the call that makes them here.
 *
 * @throws UsageError `INVALID_OPTION`
 */
export function checkConfigured(config: Config, make: string): Config {
  // A user passes a URL or options instead, and those have no `hosts`.
  if ("hosts" in Object(config)) return config;
  throw new UsageError("INVALID_OPTION", `It is made without "new": ${make}.`);
}
