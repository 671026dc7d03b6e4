// `pgz-edge/vpc`: connections of a Worker through a binding that opens sockets, as a network of Workers VPC does.
//
// An entry of its own: a Worker without it pays nothing for it. Knows only where the driver of Workers has its sockets.
import * as driver from "../index.ts";
import type { Connector } from "../index.ts";

/** A network of Workers VPC, or any other binding with this `connect`. It gives a socket, or a promise of one. */
export interface SocketBinding {
  connect(
    address: { hostname: string; port: number },
    options: { secureTransport: "off" | "on" | "starttls"; allowHalfOpen: boolean },
  ): object | Promise<object>;
}

/** What js/entrypoints/workerd.ts exports beside index.ts. */
interface OfWorkers {
  readonly connectorOf?: (open: SocketBinding["connect"]) => Connector;
}

/**
 * Returns a connector for option `connect` that opens its sockets through `binding`, to the host and port of the
 * connection string. What an isolate has learned of a server is kept by host, port and database, so two servers with
 * one address in two networks need different names. `host=orders hostaddr=10.0.0.5` gives such a server a name.
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
  return async (options) => {
    // It would be taken for a connection within one machine, which needs no TLS.
    if (options.path !== undefined)
      throw new driver.UsageError("UNSUPPORTED_ON_RUNTIME", "A binding has no Unix sockets: give the host's name.");
    let failure: Error | undefined;
    const connect = connectorOf(async (address, wanted) => {
      try {
        // As a method, because workerd refuses a `connect` without its binding.
        const socket = await binding.connect(address, wanted);
        if (!("opened" in Object(socket) && "readable" in socket && "writable" in socket))
          throw new Error("the binding gave no socket");
        return socket;
      } catch (cause) {
        throw (failure = failed(address, cause));
      }
    });
    return connect(options).catch((error: unknown) => {
      throw failure ?? error;
    });
  };
}

/** A tunnel that is down may come back. What the runtime's own `connect` throws is a name that can never be one. */
function failed({ hostname, port }: { hostname: string; port: number }, cause: unknown): Error {
  const reason = cause instanceof Error ? cause.message.replace(/\.$/, "") : String(cause);
  const facts = { stage: "tcp", hasNoEffect: true, retryable: true, cause } as const;
  return new driver.ConnectionError("CONNECT_FAILED", `Could not connect to ${hostname}:${port}: ${reason}.`, facts);
}
