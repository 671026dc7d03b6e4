// Runtimes without TCP: pages, service workers, functions at an edge. A client there needs option `connect`.
//
// Must not know PostgreSQL.
import { UsageError } from "../util/errors.ts";
import type { Connector } from "./contract.ts";

export const connect: Connector = () =>
  Promise.reject(
    new UsageError(
      "UNSUPPORTED_ON_RUNTIME",
      "There is no TCP here: set option connect, to webSocket() of pgz-edge/websocket for one (docs/websocket.md). " +
        'In a Worker of Cloudflare the bundler has to resolve the condition "workerd" (docs/bundlers.md).',
    ),
  );
