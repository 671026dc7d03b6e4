// `pgz-edge/otel/workers`: spans of workerd, for Workers whose traces Cloudflare collects.
//
// Imports the namespace, not the name: an older workerd has no `tracing`, and would refuse the module.
import * as workers from "cloudflare:workers";
import type { Observer } from "../index.ts";
import { nativeTracing, type NativeTracing, type NativeTracingOptions } from "../adapters/native-tracing.ts";

export type { NativeTracingOptions } from "../adapters/native-tracing.ts";

/**
 * An observer that makes a span of the runtime for each call, as a child of the span that is active where the call is
 * made. It does nothing if the runtime has no tracing.
 *
 * @example
 * const db = createClient(env.HYPERDRIVE, { observer: workersTracing() });
 */
export function workersTracing(options: NativeTracingOptions = {}): Observer {
  const { tracing } = workers as { tracing?: NativeTracing };
  return nativeTracing(tracing, options);
}
