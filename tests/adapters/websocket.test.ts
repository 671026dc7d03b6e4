// The cases of websocket-cases.ts on this runtime, with the build that users get.
import { expect, test } from "vitest";
// @ts-expect-error it has no types of its own
import { WebSocket as WsOfNode } from "ws";
import { runtime, testServers } from "../integration/servers.ts";
import { cases, type Setting } from "./websocket-cases.ts";

const pgz = (await import(`../../dist/${runtime}.js` as string)) as typeof import("../../js/index.ts");
const { webSocket } = (await import(
  "../../dist/websocket.js" as string
)) as typeof import("../../js/runtime/websocket.ts");
const { servers, webSockets } = testServers();
const [server] = servers;
const url = `${server!.url.split("?")[0]}?sslmode=disable`;
// Node has no WebSocket before version 22.
const WebSocket = runtime === "node" ? (WsOfNode as unknown as NonNullable<Setting["WebSocket"]>) : undefined;
const setting = { pgz, webSocket, url, tls: server!.tls, ...(WebSocket && { WebSocket }) };

for (const [name, run] of Object.entries(cases))
  test(`${runtime}: ${name}`, () => run({ ...setting, proxy: webSockets.plain }));

if (runtime === "node")
  test("over wss: sslmode=require needs no TLS inside", async () => {
    class Trusting extends WsOfNode {
      constructor(address: string) {
        super(address, { ca: server!.caPem });
      }
    }
    const connect = webSocket(webSockets.tls, { WebSocket: Trusting as unknown as NonNullable<Setting["WebSocket"]> });
    await using db = pgz.createClient(url.replace("disable", "require"), { connect });
    const { rows } = await db.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()");
    expect(rows).toEqual([{ ssl: false }]);
  });

if (runtime === "node")
  test("without a WebSocket an error says so, and Neon's proxy is the default", async () => {
    if (!globalThis.WebSocket) expect(() => webSocket()).toThrow(/There is no WebSocket here/);
    const asked: string[] = [];
    class Refusing extends EventTarget {
      binaryType = "";
      constructor(address: string) {
        super();
        asked.push(address);
        setTimeout(() => this.dispatchEvent(new Event("close")));
      }
      send() {}
      close() {}
    }
    const connect = webSocket(undefined, { WebSocket: Refusing });
    await expect(
      pgz.createClient("postgres://u:p@ep-1.neon.tech/d", { connect }).query("select 1"),
    ).rejects.toMatchObject({
      code: "CONNECT_FAILED",
    });
    expect(asked).toEqual(["wss://ep-1.neon.tech/v2"]);
  });
