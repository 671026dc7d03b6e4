// The proxy of docker/websocket-proxy in front of the tests' servers, with ws: and with wss:.
import { readFileSync } from "node:fs";
import { startProxy } from "../../docker/websocket-proxy/proxy.mjs";
import { certificates } from "./certificates.mjs";

/** An allowed address on which nothing listens. */
export const nowhere = "127.0.0.1:9";

export async function startProxies(servers) {
  const { certificate, key } = certificates().server;
  const allow = [nowhere, ...servers.map(({ host, port }) => `${host}:${port}`)];
  const tls = { cert: readFileSync(certificate), key: readFileSync(key) };
  const [plain, secure] = await Promise.all([startProxy({ allow }), startProxy({ allow, tls })]);
  return {
    urls: { plain: `ws://127.0.0.1:${plain.port}/`, tls: `wss://localhost:${secure.port}/` },
    stop: () => Promise.all([plain.stop(), secure.stop()]),
  };
}
