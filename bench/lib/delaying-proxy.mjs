// A TCP proxy that makes a distance: on each way a piece arrives half a round trip later, in its order, however large
// it is. It also counts what the client says.
//
// A connection to it is made at once, as loopback does; over a distance it takes a round trip before the client may say
// anything. So what a client says in that time leaves when the round trip is over.
//
// A write is a piece as it arrives here, so two writes that loopback joins count as one. A flight begins when the
// client speaks behind an answer that has reached it.
import { once } from "node:events";
import { connect, createServer } from "node:net";

/**
 * `{ url, delay, take, close }`: `delay(ms)` sets the round trip, 0 at first; `take` gives `{ flights, writes,
 * wire_bytes }` since it was last asked, of all connections. No two proxies of a process have the same port, so what a
 * client has learned of one server it does not know of the next.
 */
export async function delayingProxy(url) {
  const target = new URL(url);
  const sockets = new Set();
  const counts = { flights: 0, writes: 0, wire_bytes: 0 };
  let roundTrip = 0;

  // Half open: the end of one way travels like its bytes, and does not overtake those of the other.
  const server = await listenOnNewPort((client) => {
    const { hostname: host, port } = target;
    const real = connect({ host, port: Number(port), noDelay: true, allowHalfOpen: true });
    const open = performance.now() + roundTrip;
    let asking = false;
    const toServer = delayed(real);
    const toClient = delayed(client, () => (asking = false));
    client.on("data", (piece) => {
      counts.writes++;
      counts.wire_bytes += piece.length;
      if (!asking) counts.flights++;
      asking = true;
      toServer(piece, Math.max(performance.now(), open) + roundTrip / 2);
    });
    real.on("data", (piece) => {
      counts.wire_bytes += piece.length;
      toClient(piece, performance.now() + roundTrip / 2);
    });
    client.on("end", () => toServer(undefined, performance.now() + roundTrip / 2));
    real.on("end", () => toClient(undefined, performance.now() + roundTrip / 2));
    for (const [one, other] of [
      [client, real],
      [real, client],
    ]) {
      sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => sockets.delete(one));
    }
  });
  const proxied = new URL(url);
  proxied.hostname = "127.0.0.1";
  proxied.port = String(server.address().port);
  return {
    url: proxied.href,
    delay: (milliseconds) => void (roundTrip = milliseconds),
    take() {
      const taken = { ...counts };
      for (const name of Object.keys(counts)) counts[name] = 0;
      return taken;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Writes each piece to the socket when it is due, and ends the socket behind the last one (`undefined`). */
function delayed(socket, onArrival = () => {}) {
  const waiting = [];
  const next = () => {
    const { piece, due } = waiting[0];
    at(due, () => {
      waiting.shift();
      onArrival();
      if (piece === undefined) socket.end();
      else socket.write(piece);
      if (waiting.length > 0) next();
    });
  };
  return (piece, due) => {
    waiting.push({ piece, due });
    if (waiting.length === 1) next();
  };
}

/** Timers are late by a millisecond or two, which at 5 ms is a third of a round trip: the last two are spent asking. */
function at(due, work) {
  const left = due - performance.now();
  if (left <= 0) work();
  else if (left > 2) setTimeout(at, left - 2, due, work);
  else setImmediate(at, due, work);
}

const used = new Set();

/** A server on a port that no one here had before. One that comes again is held until another is found. */
async function listenOnNewPort(onConnection) {
  const server = createServer({ noDelay: true, allowHalfOpen: true }, onConnection);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address();
  if (!used.has(port)) {
    used.add(port);
    return server;
  }
  const other = await listenOnNewPort(onConnection);
  server.close();
  return other;
}
