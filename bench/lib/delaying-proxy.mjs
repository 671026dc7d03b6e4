// A TCP proxy that simulates distance: a piece arrives half a round trip later in each direction, in order, whatever
// its size. It also counts the client's traffic.
//
// Loopback connects to the proxy at once. Over a real distance connecting takes a round trip before the client may send
// anything, so the client's bytes of that time are sent once that round trip is over.
//
// A write is a piece as it arrives here, so two writes that loopback joins count as one. A flight begins when the
// client sends something after an answer has reached it.
import { once } from "node:events";
import { connect, createServer } from "node:net";

/**
 * Returns `{ url, delay, take, close }`. `delay(ms)` sets the round trip, which is 0 at first. `take` returns `{
 * flights, writes, sent, wire_bytes }` of all connections since the last `take`; `sent` is the client's part of the
 * bytes. No two proxies of a process have the same
 * port, so a client does not apply to one what it has learned about another.
 */
export async function delayingProxy(url) {
  const target = new URL(url);
  const sockets = new Set();
  const counts = { flights: 0, writes: 0, sent: 0, wire_bytes: 0 };
  let roundTrip = 0;

  // Half open: the end of one direction is delayed like its bytes, and does not overtake the other direction.
  const server = await listenOnNewPort((client) => {
    const { hostname: host, port } = target;
    const real = connect({ host, port: Number(port), noDelay: true, allowHalfOpen: true });
    const open = performance.now() + roundTrip;
    let asking = false;
    const toServer = delayed(real);
    const toClient = delayed(client, () => (asking = false));
    client.on("data", (piece) => {
      counts.writes++;
      counts.sent += piece.length;
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

/** Writes each piece to the socket when it is due, and ends the socket after the last one (`undefined`). */
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

/**
 * Timers are late by a millisecond or two, which is a third of a round trip of 5 ms. So the last two milliseconds are
 * spent polling.
 */
function at(due, work) {
  const left = due - performance.now();
  if (left <= 0) work();
  else if (left > 2) setTimeout(at, left - 2, due, work);
  else setImmediate(at, due, work);
}

const used = new Set();

/**
 * Returns a server on a port that this process has not used before. A repeated port stays open until another is found,
 * so that it is not assigned again.
 */
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
