// The example with a standby: orders are read from the standby, and a client that has written an order sees it, however
// far the standby has replayed. In real workerd, by two Hyperdrive bindings.
import { beforeAll, expect, test } from "vitest";
import { logFile } from "../servers/index.mjs";
import { startStandbys, type ClusterOfServers } from "../servers/standbys.mjs";
import { startDemo, type DemoWorker } from "./demo-server.ts";

let servers: ClusterOfServers;
let worker: DemoWorker;
beforeAll(async () => {
  servers = await startStandbys({ count: 1, log: logFile("demo-standby") });
  const demo = await startDemo(Promise.resolve({ server: servers.primary.descriptor, stop: servers.stop } as never));
  const standbyUrl = new URL(demo.sample.appUrl);
  standbyUrl.port = String(servers.standbys[0]!.descriptor.port);
  await servers.standbys[0]!.catchUp(servers.primary);
  worker = await demo.worker({ standbyUrl: standbyUrl.href });
});

test("a client sees its own order before the standby has it", async () => {
  const [standby] = servers.standbys as [ClusterOfServers["standbys"][0]];
  const { acme } = worker;
  const ids = async (cookie?: string) => {
    const response = await acme("/api/orders?limit=10&after=0", cookie ? { headers: { cookie } } : {});
    expect(response.status).toBe(200);
    return ((await response.json()) as { items: { id: number }[] }).items.map(({ id }) => id);
  };
  await ids();
  await standby.pause();
  const body = JSON.stringify({ reference: `STANDBY-${process.pid}`, customer: "Ada", total: "19.90" });
  const made = await acme("/api/orders", { method: "POST", body, headers: { "content-type": "application/json" } });
  expect(made.status).toBe(201);
  const { id } = (await made.json()) as { id: number };
  const cookie = made.headers.get("set-cookie")!;
  expect(cookie).toMatch(/^position=[0-9a-z]+-1-[0-9a-z]+; Path=\/api; /);
  const shown = async (headers?: HeadersInit) => (await acme(`/api/orders/${id}`, headers ? { headers } : {})).status;
  // A client that does not know of the order reads from the standby. The client that made it reads from the primary.
  expect(await shown()).toBe(404);
  expect(await shown({ cookie: cookie.split(";")[0]! })).toBe(200);
  expect(await shown({ cookie: "position=nonsense" })).toBe(200);
  await standby.resume();
  await standby.catchUp(servers.primary);
  expect(await shown()).toBe(200);
});
