// `pgz-edge/vpc`: connections of a Worker through a binding that opens sockets, as those of Workers VPC do. There the
// platform checks the certificate of the server by the settings of the service, with a CA of your own too.
//
// An entry of its own: a Worker without it pays nothing for it. Knows only where the driver of Workers has its sockets.
import * as driver from "../index.ts";
import type { Connector } from "../index.ts";

/** A binding of Workers VPC. Any binding with this `connect` will do. */
export interface SocketBinding {
  connect(
    address: { hostname: string; port: number },
    options: { secureTransport: "off" | "on" | "starttls"; allowHalfOpen: boolean },
  ): object;
}

/** What js/entrypoints/workerd.ts exports beside index.ts. */
interface OfWorkers {
  readonly connectorOf?: (open: SocketBinding["connect"]) => Connector;
}

/**
 * Returns a connector for option `connect` that opens its sockets through `binding`. Host and port are those of the
 * connection string; a binding of one service goes to that service, whatever they are.
 *
 * @throws UsageError `INVALID_OPTION` for what is no such binding, `UNSUPPORTED_ON_RUNTIME` elsewhere than on Workers
 *
 * @example
 * const db = createClient({ connectionString: env.DATABASE_URL, connect: vpc(env.DB) });
 */
export function vpc(binding: SocketBinding): Connector {
  const connectorOf = (driver as OfWorkers).connectorOf; // by its name, so that bundlers drop what is not used
  if (!connectorOf) throw new driver.UsageError("UNSUPPORTED_ON_RUNTIME", "Bindings with sockets are on Workers only.");
  if (typeof binding?.connect !== "function")
    throw new driver.UsageError(
      "INVALID_OPTION",
      "vpc() takes a binding that opens sockets, and there is none: is its name in wrangler.jsonc?",
    );
  // Called on its binding: taken off it, workerd refuses it.
  return connectorOf((address, options) => binding.connect(address, options));
}
