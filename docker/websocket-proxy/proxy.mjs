// A WebSocket in front of PostgreSQL, for runtimes without TCP: the binary messages of `/…?address=host:port` are the
// bytes of a TCP connection to that address. Neon's drivers speak this protocol too.
//
//   ALLOW=db.internal:5432,replica.internal:5432 PORT=8080 node proxy.mjs
//
// It connects only to addresses in ALLOW: a proxy that takes any address would open the network in which it runs. It
// speaks plain HTTP unless it has a certificate (the files TLS_CERT and TLS_KEY), because TLS is mostly the task of the
// load balancer in front of it. It does not inspect the bytes: the password and the rows pass through unchanged.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect } from "node:net";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { WebSocketServer } from "ws";

/** Bytes queued for a client at which reading from its server pauses, and the longest message of a client in bytes. */
const WAITING = 1 << 20;
const LONGEST_MESSAGE = 16 << 20;

/** Milliseconds of silence before the system probes whether the client is still connected. */
const KEEP_ALIVE = 60_000;

/** Resolves with `{ port, stop }` when it listens. `allow`: addresses, as `host:port`. `tls`: `{ cert, key }` (PEM). */
export async function startProxy({ allow, port = 0, host = "0.0.0.0", tls, connectTimeout = 10_000 }) {
  const allowed = new Set(allow);
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: LONGEST_MESSAGE });
  const explain = (_, response) => response.writeHead(426).end("This is a proxy for WebSockets.\n");
  const server = tls ? createTlsServer(tls, explain) : createServer(explain);
  server.on("upgrade", (request, client, head) => {
    client.on("error", () => {}); // "close" follows, and is handled
    client.setKeepAlive(true, KEEP_ALIVE); // otherwise the session of a lost client never ends
    const address = new URL(request.url, "http://proxy").searchParams.get("address") ?? "";
    if (!allowed.has(address)) return refuse(client, "403 Forbidden", "This address is not one of ALLOW.");
    const colon = address.lastIndexOf(":");
    const target = { host: address.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(address.slice(colon + 1)) };
    const tcp = connect({ ...target, noDelay: true, allowHalfOpen: true, timeout: connectTimeout });
    const failed = () => refuse(client, "502 Bad Gateway", "The server cannot be reached.");
    const late = () => tcp.destroy(new Error("timeout"));
    client.once("close", late);
    tcp.once("error", failed).once("timeout", late);
    tcp.once("connect", () => {
      client.off("close", late);
      tcp.off("error", failed).off("timeout", late).setTimeout(0);
      sockets.handleUpgrade(request, client, head, (socket) => join(socket, tcp));
    });
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  const stop = () => {
    for (const socket of sockets.clients) socket.terminate();
    return new Promise((resolve) => server.close(resolve));
  };
  return { port: server.address().port, stop };
}

function refuse(client, status, reason) {
  client.end(`HTTP/1.1 ${status}\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n${reason}\n`);
}

/**
 * Connects the two sides, with back-pressure in both directions, and passes on the end of each. After a client closes,
 * its remaining bytes are sent on, then the server's connection is destroyed. Merely ending that connection would leave
 * a server that is blocked in a write waiting for ever, with its query.
 */
function join(socket, tcp) {
  tcp.on("data", (bytes) => {
    socket.send(bytes, () => socket.bufferedAmount < WAITING && tcp.resume());
    if (socket.bufferedAmount >= WAITING) tcp.pause();
  });
  tcp.on("end", () => socket.close(1000));
  tcp.on("error", () => socket.close(1011, "the server's connection broke"));
  socket.on("message", (bytes) => {
    if (!tcp.write(bytes)) socket.pause();
  });
  tcp.on("drain", () => socket.resume());
  socket.on("error", () => tcp.destroy());
  socket.on("close", (code) => (code === 1006 ? tcp.destroy() : tcp.destroySoon()));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const allow = (process.env.ALLOW ?? "").split(",").filter(Boolean);
  if (!allow.length) {
    console.error("Set ALLOW to the addresses that may be connected to: ALLOW=db.internal:5432");
    process.exit(1);
  }
  const { PORT = "8080", TLS_CERT, TLS_KEY } = process.env;
  const tls = TLS_CERT && { cert: readFileSync(TLS_CERT), key: readFileSync(TLS_KEY) };
  const { port } = await startProxy({ allow, port: Number(PORT), tls });
  console.log(`proxy on port ${port} for ${allow.join(", ")}`);
}
