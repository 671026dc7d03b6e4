// Starts the servers of all suites, and decides which servers a suite sees.
import { existsSync } from "node:fs";
import { at, environment, say } from "./command.mjs";

/**
 * Starts PostgreSQL, the side connection and the fault host, and with `others` PgBouncer and the WebSocket proxies, for
 * all suites. PGZ_TEST_SERVERS holds their addresses. Rejects with the reason if they cannot start.
 */
export async function startServersOfAll({ majors, others = false }) {
  const stops = [];
  const stop = async () => {
    for (const one of stops.reverse()) await one();
  };
  try {
    const { startServers } = await import("../servers/index.mjs");
    const { startSidecar } = await import("../servers/sidecar.mjs");
    const { startProxies } = await import("../servers/websockets.mjs");
    const { servers, pgbouncer, stop: stopServers } = await startServers({ majors, pgbouncer: others });
    const all = [...servers, ...(others ? [pgbouncer] : [])];
    stops.push(stopServers);
    say(`the suite "node" runs in Node ${process.versions.node}`);
    const side = await startSidecar(all);
    stops.push(side.stop);
    const proxies = others ? await startProxies(all) : undefined;
    if (proxies !== undefined) stops.push(proxies.stop);
    const faults = existsSync(at("tests/faults/host.mjs"))
      ? await (await import("../faults/host.mjs")).startFaultHost()
      : undefined;
    if (faults !== undefined) stops.push(faults.stop);
    for (const { name, host, port, own } of all) {
      say(
        own
          ? `server ${name} at ${host}:${port}`
          : `server ${name} is the one of DATABASE_URL; cases that need our own roles run on the others only`,
      );
    }
    environment.PGZ_TEST_SERVERS = JSON.stringify({
      servers,
      pgbouncer,
      side: side.url,
      webSockets: proxies?.urls,
      faults: faults?.url,
    });
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

export function onlyNewestServer() {
  const { servers, ...rest } = JSON.parse(environment.PGZ_TEST_SERVERS);
  return { PGZ_TEST_SERVERS: JSON.stringify({ ...rest, servers: servers.slice(0, 1) }) };
}

/** Only npm's 18, which is then the newest for the tests that start servers of their own. */
export function onlyServer18() {
  const { servers, ...rest } = JSON.parse(environment.PGZ_TEST_SERVERS);
  const only = servers.filter(({ own, major }) => own && major === 18);
  return { PGZ_TEST_SERVERS: JSON.stringify({ ...rest, servers: only }), PGZ_TEST_NEWEST: "18" };
}

export function onlyOldestServer() {
  const { servers, ...rest } = JSON.parse(environment.PGZ_TEST_SERVERS);
  return { PGZ_TEST_SERVERS: JSON.stringify({ ...rest, servers: servers.filter(({ own }) => own).slice(-1) }) };
}

export function onlyPlainServer() {
  const { servers, ...rest } = JSON.parse(environment.PGZ_TEST_SERVERS);
  return { PGZ_TEST_SERVERS: JSON.stringify({ ...rest, servers: [{ ...servers[0], tls: false }], quick: true }) };
}
