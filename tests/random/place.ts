// Where a random session of a test runs: its server, and how to inspect the server over another connection.
import type * as pgz from "../../js/index.ts";
import { context, type Runtime } from "../integration/context.ts";
import type { Place } from "./session.ts";
import type { Task } from "./suite.ts";

export function placeOf(runtime: Runtime, driver: typeof pgz, { server, tls, servers, isPooled }: Task): Place {
  const { options, side } = context(runtime, driver, { server, tls }, servers);
  return {
    driver,
    options,
    side,
    name: `${runtime}_${tls ? "tls" : "plain"}`,
    isPooled,
    hasOwnBody: runtime === "workerd",
  };
}
