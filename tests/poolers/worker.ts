// The tenants' workload in a Worker whose Hyperdrive binding leads to PgBouncer: one lane of one tenant per request, as
// an application's requests would be.
//   POST { load, number, lane, prepare }  ->  Outcome
//   GET                                   ->  whether the binding is a link that never leaves the runtime, and
//                                             whether listen() is refused there, without consent and with it
import * as pgz from "pgz-edge";
import { connectRecognised, runLane, type Load } from "./workload.ts";

export interface Task {
  load: Load;
  number: number;
  lane: number;
  prepare: "auto" | "unnamed";
}

const driver = pgz as unknown as typeof import("../../js/index.ts");

export default {
  async fetch(request: Request, env: { HYPERDRIVE: { connectionString: string; host: string } }): Promise<Response> {
    if (request.method === "GET") {
      const client = driver.createClient(env.HYPERDRIVE);
      const listen = (options?: object) =>
        client.listen("news", options).then(
          (listener) => listener.close().then(() => "listens"),
          ({ code }: { code?: string }) => code,
        );
      return Response.json({
        local: env.HYPERDRIVE.host.endsWith(".hyperdrive.local"),
        listen: [await listen(), await listen({ sessionPooling: true })],
      });
    }
    const { load, number, lane, prepare } = (await request.json()) as Task;
    const connect = () =>
      connectRecognised(async (observer) => {
        const client = driver.createClient(env.HYPERDRIVE, { prepare, applicationName: load.prefix, observer });
        // This query leaves with the last message of authentication, since the binding's link is local. The driver
        // cannot know yet that it is behind a pooler.
        await client.query("select 1 as early");
        return client;
      });
    return Response.json(await runLane(driver, connect, load, number, lane, true));
  },
};
