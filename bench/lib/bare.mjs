// Uses a logged-in session without a driver. The driver first connects through this module and runs the work to be
// repeated; its bytes and the server's are recorded. After that the driver is silent, and the bare socket has the
// session: it sends the same bytes again and waits for as many bytes as were recorded. On request it checks that they
// are the same bytes.
import net from "node:net";
import { connectPgz } from "./pgz-edge.mjs";

/** `{ client, record, learn, exchange }` */
export async function openBare(url) {
  const target = new URL(url);
  let onChunk = () => {};
  // Bun's support for `onread` was not tried, so Bun gets events.
  const buffer = Buffer.allocUnsafe(65536);
  const onread = globalThis.Bun
    ? {}
    : { onread: { buffer, callback: (length, bytes) => (onChunk(bytes.subarray(0, length)), true) } };
  const socket = net.connect({ host: target.hostname, port: Number(target.port), noDelay: true, ...onread });
  if (globalThis.Bun) socket.on("data", (chunk) => onChunk(chunk));
  await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  socket.on("error", (error) => {
    throw error;
  });

  const sent = [];
  const received = [];
  const server = net.createServer({ noDelay: true }, (driver) => {
    server.close(); // only one session
    driver.on("data", (chunk) => {
      sent.push(chunk);
      socket.write(chunk);
    });
    onChunk = (chunk) => {
      const copy = Buffer.from(chunk);
      received.push(copy);
      driver.write(copy);
    };
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  target.hostname = "127.0.0.1";
  target.port = String(server.address().port);
  const client = await connectPgz(target.href);
  const forward = onChunk;

  /** Records the bytes that the driver sends and receives during `work`: `{ flight, answer }`. */
  const record = async (work) => {
    onChunk = forward;
    sent.length = received.length = 0;
    await work(client);
    return { flight: Buffer.concat(sent), answer: Buffer.concat(received) };
  };

  /**
   * Sends the recorded `flight` in one write and waits for as many bytes as were received then. Resolves with their
   * number. `same` also compares the bytes.
   */
  const exchange = ({ flight, answer }, { same = false } = {}) =>
    new Promise((resolve, reject) => {
      let bytes = 0;
      const got = [];
      onChunk = (chunk) => {
        bytes += chunk.length;
        if (same) got.push(Buffer.from(chunk));
        if (bytes < answer.length) return;
        if (bytes > answer.length || (same && !Buffer.concat(got).equals(answer)))
          reject(new Error("the server answered otherwise"));
        else resolve(bytes);
      };
      socket.write(flight);
    });

  /**
   * Records a statement's text as a simple query, without the driver. The end of its result must not look like
   * ReadyForQuery.
   */
  const learn = (text) =>
    new Promise((resolve) => {
      const body = Buffer.from(`${text}\0`);
      const flight = Buffer.concat([Buffer.from("Q"), Buffer.alloc(4), body]);
      flight.writeInt32BE(body.length + 4, 1);
      let length = 0;
      let tail = Buffer.alloc(0);
      onChunk = (chunk) => {
        length += chunk.length;
        tail = Buffer.concat([tail, chunk.subarray(-6)]).subarray(-6);
        if (tail[0] === 0x5a && tail.readInt32BE(1) === 5) resolve({ flight, answer: { length } });
      };
      socket.write(flight);
    });
  return { client, record, learn, exchange };
}
