// A TCP proxy that counts a client's traffic, for runs that are not timed. A write is a piece as it arrives here, so
// two writes that loopback joins count as one. A round trip is a change of direction from the client to the server.
import { connect, createServer } from "node:net";

/**
 * Returns `{ url, take, close }`. `take` returns `{ writes, round_trips, sent, received }` of all connections since the
 * last `take`.
 */
export async function countingProxy(url) {
  const target = new URL(url);
  const zero = () => ({ writes: 0, round_trips: 0, sent: 0, received: 0 });
  let counts = zero();
  const sockets = new Set();
  const server = createServer({ noDelay: true }, (client) => {
    const real = connect({ host: target.hostname, port: Number(target.port), noDelay: true });
    let asking = false;
    client.on("data", (chunk) => {
      counts.writes++;
      counts.sent += chunk.length;
      if (!asking) counts.round_trips++;
      asking = true;
      if (!real.write(chunk)) client.pause();
    });
    real.on("data", (chunk) => {
      counts.received += chunk.length;
      asking = false;
      if (!client.write(chunk)) real.pause();
    });
    real.on("drain", () => client.resume());
    client.on("drain", () => real.resume());
    for (const [one, other] of [
      [client, real],
      [real, client],
    ]) {
      sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  const proxied = new URL(url);
  proxied.hostname = "127.0.0.1";
  proxied.port = String(server.address().port);
  const take = () => {
    const taken = counts;
    counts = zero();
    return taken;
  };
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { url: proxied.href, take, close };
}
