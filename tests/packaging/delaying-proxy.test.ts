// The proxy that CASE=latency measures through simulates distance and nothing else: connecting takes one round trip and
// so does each response, the order stays, and large data are not slowed down.
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { delayingProxy, type DelayingProxy } from "../../bench/lib/delaying-proxy.mjs";

const ROUND_TRIP = 60;
const LARGE = 4 << 20;
const echo = createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket));
let proxy: DelayingProxy;
let client: Socket;

beforeEach(async () => {
  await once(echo.listen(0, "127.0.0.1"), "listening");
  proxy = await delayingProxy(`tcp://127.0.0.1:${(echo.address() as AddressInfo).port}`);
});

afterEach(() => {
  client.destroy();
  proxy.close();
  echo.close();
});

const open = () => (client = connect({ host: "127.0.0.1", port: Number(new URL(proxy.url).port) }));

/** Returns the bytes that come back, once they are as many as were sent. */
async function answer(...pieces: Buffer[]): Promise<Buffer> {
  const wanted = pieces.reduce((sum, { length }) => sum + length, 0);
  for (const piece of pieces) client.write(piece);
  const got: Buffer[] = [];
  for (let length = 0; length < wanted; length += got.at(-1)!.length)
    got.push(((await once(client, "data")) as [Buffer])[0]);
  return Buffer.concat(got);
}

async function timed<T>(work: () => Promise<T>): Promise<{ result: T; trips: number }> {
  const start = performance.now();
  const result = await work();
  return { result, trips: (performance.now() - start) / ROUND_TRIP };
}

/**
 * Returns the trips of the fastest of some answers, as soon as one took fewer than `enough`. A busy machine may delay
 * any of them, so only the fastest shows that the proxy does not.
 */
async function fewestTrips(enough: number, ...pieces: Buffer[]): Promise<number> {
  let fewest = Infinity;
  for (let n = 0; n < 50 && fewest >= enough; n++)
    fewest = Math.min(fewest, (await timed(() => answer(...pieces))).trips);
  return fewest;
}

test("connecting takes a round trip, and so does each answer", async () => {
  proxy.delay(ROUND_TRIP);
  open();
  const first = await timed(() => answer(Buffer.from("one")));
  expect(first.result.toString()).toBe("one");
  expect(first.trips).toBeGreaterThanOrEqual(2);
  const second = await timed(() => answer(Buffer.from("two")));
  expect(second.trips).toBeGreaterThanOrEqual(1);
  expect(proxy.take()).toEqual({ flights: 2, writes: 2, sent: 6, wire_bytes: 12 });
  expect(proxy.take()).toEqual({ flights: 0, writes: 0, sent: 0, wire_bytes: 0 });
  expect(await fewestTrips(2, Buffer.from("more"))).toBeLessThan(2);
});

test("large data arrive in order, with no more delay than small data", async () => {
  open();
  await answer(Buffer.from("open"));
  proxy.delay(ROUND_TRIP);
  proxy.take();
  const large = Buffer.alloc(
    LARGE,
    Uint8Array.from({ length: 251 }, (_, index) => index),
  );
  const { result, trips } = await timed(() => answer(large));
  expect(result.equals(large)).toBe(true);
  expect(trips).toBeGreaterThanOrEqual(1);
  expect(proxy.take().flights).toBe(1);
  // With a delay for each of its 64 pieces it would be more than 60.
  expect(await fewestTrips(20, large)).toBeLessThan(20);
});

test("the end of one direction does not overtake the bytes of the other", async () => {
  proxy.delay(ROUND_TRIP);
  client = connect({ host: "127.0.0.1", port: Number(new URL(proxy.url).port), allowHalfOpen: true });
  client.end("last words");
  const got: Buffer[] = [];
  for await (const piece of client) got.push(piece as Buffer);
  expect(Buffer.concat(got).toString()).toBe("last words");
});
