// A proxy between a soaked pool and its server, which harms the connections through it: `node gate.mjs <host> <port>`.
//
// It prints its port. Every quarter of a second something happens to one connection or to all: an end from either side,
// a reset, silence that may end in one of these, or single bytes for a while. Now and then it accepts no connection for
// a second. On SIGTERM it prints how often it did each, as JSON, and ends. It is a separate process, so that its memory
// and sockets are not counted as the driver's.
import { connect, createServer } from "node:net";

const [, , host, port] = process.argv;
const pairs = new Set();
const counts = { connections: 0, refused: 0 };
let isShut = false;

const gate = createServer({ noDelay: true }, (client) => {
  if (isShut) {
    counts.refused++;
    return client.resetAndDestroy();
  }
  counts.connections++;
  const server = connect({ host, port: Number(port), noDelay: true });
  const pair = { client, server, isSlow: false };
  pairs.add(pair);
  for (const [from, to] of [
    [client, server],
    [server, client],
  ]) {
    from.on("data", (chunk) => pass(pair, chunk, from, to));
    from.on("error", () => {});
    from.once("close", () => {
      pairs.delete(pair);
      to.destroySoon();
    });
  }
});

function pass({ isSlow }, chunk, from, to) {
  const isTaken =
    isSlow && chunk.length < 2_000 ? [...chunk].map((byte) => to.write(Uint8Array.of(byte))).at(-1) : to.write(chunk);
  if (isTaken) return;
  from.pause();
  to.once("drain", () => from.resume());
}

const sides = ({ client, server }) => [client, server];
const later = (ms, what) => setTimeout(what, Math.random() * ms);
const ends = {
  reset: (pair) => sides(pair).forEach((side) => side.resetAndDestroy()),
  endOfServer: ({ server, client }) => (server.destroy(), client.end()),
  endOfClient: ({ client, server }) => (client.resetAndDestroy(), server.end()),
};
const silence = (pair) => sides(pair).forEach((side) => side.pause());
const harms = {
  ...ends,
  silence(pair) {
    silence(pair);
    later(2_000, () => sides(pair).forEach((side) => side.resume()));
  },
  silenceAndEnd(pair) {
    silence(pair);
    later(8_000, () => pick(Object.values(ends))(pair));
  },
  singleBytes(pair) {
    pair.isSlow = true;
    later(500, () => (pair.isSlow = false));
  },
};
const pick = (list) => list[Math.floor(Math.random() * list.length)];

setInterval(() => {
  const everybody = Math.random() < 1 / 100;
  const [name, harm] = pick(Object.entries(harms));
  const whom = everybody ? [...pairs] : pairs.size ? [pick([...pairs])] : [];
  for (const pair of whom) harm(pair);
  counts[name] = (counts[name] ?? 0) + whom.length;
  if (Math.random() >= 1 / 200) return;
  isShut = true;
  setTimeout(() => (isShut = false), 1_000);
}, 250);

process.on("SIGTERM", () => {
  console.log(JSON.stringify(counts));
  process.exit(0);
});
gate.listen(0, "127.0.0.1", () => console.log(gate.address().port));
