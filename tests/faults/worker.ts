// The fault jobs inside a Worker: one session per request, because a socket belongs to its request, or with a pool that
// a Durable Object keeps.
//   POST / job -> outcome     POST /case { name, server, tls, servers } -> { error }     GET /uncaught -> [text, …]
//   POST /object job -> outcome, by the one Durable Object
import * as packaged from "pgz-edge";
import { context, type Server, type TestServers } from "../integration/context.ts";
import type { Job } from "./jobs.ts";
import { runJob, type Kept } from "./run-job.ts";
import { watchUncaught } from "./uncaught.ts";
import { wireCases } from "./wire-cases.ts";

export interface CaseTask {
  name: string;
  server: Server;
  tls: boolean;
  servers: TestServers;
}

const driver = packaged as unknown as typeof import("../../js/index.ts");
const uncaught = watchUncaught();

export default {
  async fetch(request: Request, { POOLS }: { POOLS?: DurableObjectNamespace }): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/object" && POOLS) return POOLS.get(POOLS.idFromName("one")).fetch(request);
    if (pathname === "/uncaught") return Response.json(uncaught);
    if (pathname === "/case") return Response.json({ error: await wireCase((await request.json()) as CaseTask) });
    return Response.json(await runJob(driver, (await request.json()) as Job));
  },
};

export class Pools {
  readonly #kept: Kept = new Map();

  async fetch(request: Request): Promise<Response> {
    return Response.json(await runJob(driver, (await request.json()) as Job, this.#kept));
  }
}

/** "" when the case passed. */
async function wireCase({ name, server, tls, servers }: CaseTask): Promise<string> {
  try {
    const found = wireCases.find((one) => one.name === name);
    if (!found) throw new Error(`no case is named ${name}`);
    await found.run(context("workerd", driver, { server, tls }, servers));
    return "";
  } catch (error) {
    return error instanceof Error ? (error.stack ?? String(error)) : String(error);
  }
}
