// A man in the middle: accepts a client's TLS with another certificate, and speaks TLS to the server. A login that is
// bound to the server's certificate (SCRAM-SHA-256-PLUS) fails through it; any other login succeeds.
//
// It also offers a way to the server without TLS, for a driver that uses TLS wherever it is offered, because only a
// plain link can be read. Knows SSLRequest and its answers, and no other message; must not know which driver comes.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import tls from "node:tls";

/** `{ certificate, key }`: files of another certificate than the server's. */
export function startBetween({ host, port }, { certificate, key }) {
  const context = tls.createSecureContext({ cert: readFileSync(certificate), key: readFileSync(key) });

  return listen(async (client, keep) => {
    const raw = keep(connect({ host, port, noDelay: true }));
    const request = await read(client);
    raw.write(request);
    if (String(await read(raw)) !== "S") return client.destroy();
    const server = keep(tls.connect({ socket: raw, rejectUnauthorized: false }));
    await once(server, "secureConnect");
    client.write("S");
    const plain = keep(new tls.TLSSocket(client, { isServer: true, secureContext: context }));
    plain.pipe(server).pipe(plain);
    plain.on("close", () => server.destroy());
    server.on("close", () => plain.destroy());
  });
}

/** SSLRequest is refused here, and the rest goes on to the server. */
export function startWithoutTls({ host, port }) {
  return listen(async (client, keep) => {
    let first = await read(client);
    if (first.length === 8) {
      client.write("N");
      first = await read(client);
    }
    const server = keep(connect({ host, port, noDelay: true }));
    server.write(first);
    client.pipe(server).pipe(client);
  });
}

async function listen(join) {
  const sockets = new Set();
  const keep = (socket) => {
    sockets.add(socket);
    socket.on("error", () => socket.destroy()).on("close", () => sockets.delete(socket));
    return socket;
  };
  const server = createServer({ noDelay: true }, (client) => {
    join(keep(client), keep).catch(() => client.destroy());
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    port: server.address().port,
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** The next bytes, and nothing is read behind them. */
async function read(socket) {
  socket.resume();
  const [piece] = await once(socket, "data");
  socket.pause();
  socket.removeAllListeners("data");
  return piece;
}
