// A socket without a driver on a session that is logged in: the driver connects through here, runs what is to be
// repeated, and what it sent and got is kept as bytes. From then on the driver is silent and its session is the bare
// socket's: the same bytes are sent again, and answered with as many as before (and with the same ones, when that is to
// be checked).
import net from "node:net";
import { connectPgz } from "./pgz-edge.mjs";

/** `{ client, record, learn, exchange }` */
export async function openBare(url) {
  const target = new URL(url);
  let onChunk = () => {};
  // What Bun's sockets know of `onread` was not tried: they get events.
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
    server.close(); // one session
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

  /** What `work`, done by the driver, sends and gets: `{ flight, answer }`. */
  const record = async (work) => {
    onChunk = forward;
    sent.length = received.length = 0;
    await work(client);
    return { flight: Buffer.concat(sent), answer: Buffer.concat(received) };
  };

  /**
   * Sends the bytes of `recorded` in one write and waits for as many bytes as came then. `bytes` is their number;
   * `same` asks whether they are the same.
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
   * The same for a statement's text as a simple query, without the driver; nothing of its result may end like
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
