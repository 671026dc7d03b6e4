// The node:net adapter against a real peer: pulling, reused buffers, and each way in which a connection can end.
// tests/integration and tests/faults run it on Deno and Bun, and over TLS.
import dns from "node:dns";
import { once } from "node:events";
import net, { createServer, type Server, type Socket as Peer } from "node:net";
import { afterEach, expect, test } from "vitest";
import { connect } from "../../js/runtime/node.ts";
import { pause } from "../support/until.mjs";

let server: Server;
const peers: Peer[] = [];

async function listen(serve: (peer: Peer) => void): Promise<number> {
  server = createServer((peer) => {
    peers.push(peer);
    peer.on("error", () => {});
    serve(peer);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as { port: number }).port;
}

afterEach(() => {
  for (const peer of peers.splice(0)) peer.destroy();
  server?.close();
});

const open = (port: number, host = "127.0.0.1", signal = new AbortController().signal) =>
  connect({ host, port, tls: null, signal, readBuffer: 4096, keepAlive: 0 });
const turn = () => new Promise((resolve) => setImmediate(resolve));

test("bytes stay unchanged until the next read, however late that comes", async () => {
  const total = 1 << 20;
  const port = await listen((peer) => {
    const bytes = new Uint8Array(total).map((_, at) => at % 251);
    for (let at = 0; at < total; at += 1000) peer.write(bytes.subarray(at, at + 1000));
    peer.end();
  });
  const socket = await open(port);
  let at = 0;
  for (let chunk; (chunk = await socket.read());) {
    if (Math.random() < 0.3) for (let waits = 0; waits < 3; waits++) await turn();
    expect(chunk.every((byte) => byte === at++ % 251)).toBe(true);
  }
  expect(at).toBe(total);
  expect(await socket.read()).toBe(null);
  await socket.close();
});

test("short writes resolve at once, are sent together from the second on, and keep their order", async () => {
  const heard: Buffer[] = [];
  const port = await listen((peer) => void peer.on("data", (chunk) => heard.push(chunk)));
  const socket = await open(port);
  const bytes = new Uint8Array(3).fill(1);
  expect(socket.write(bytes)).toBeUndefined();
  bytes.fill(9); // they may change as soon as they are taken
  for (let times = 0; times < 2; times++) expect(socket.write(Uint8Array.of(2))).toBeUndefined();
  const both = [socket.flushed!(), socket.flushed!()];
  await Promise.all(both);
  expect(socket.flushed!()).toBeUndefined();
  while (Buffer.concat(heard).length < 5) await turn();
  expect([...Buffer.concat(heard)]).toEqual([1, 1, 1, 2, 2]);
  // The system may join what was sent apart, but not part what was sent together.
  expect(heard.length).toBeLessThanOrEqual(2);
  const long = new Uint8Array(5_000).fill(4);
  expect(socket.write(new Uint8Array(1).fill(3))).toBeUndefined();
  await socket.write(long);
  expect(socket.write(new Uint8Array(1).fill(5))).toBeUndefined();
  const wanted = [1, 1, 1, 2, 2, 3, ...long, 5];
  while (Buffer.concat(heard).length < wanted.length) await turn();
  expect([...Buffer.concat(heard)]).toEqual(wanted);
  await socket.close();
});

test("a short write to a peer that has gone is reported by the next read", async () => {
  let gone!: () => void;
  const reset = new Promise<void>((resolve) => (gone = resolve));
  const port = await listen((peer) => void peer.once("data", () => (peer.resetAndDestroy(), gone())));
  const socket = await open(port);
  expect(socket.write(new Uint8Array(8))).toBeUndefined();
  await reset;
  await Promise.resolve(socket.write(new Uint8Array(8))).catch(() => {});
  await expect(socket.read()).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  await socket.flushed?.();
  await socket.close();
});

/** A peer that sends 256 MiB as fast as it can. */
async function eager() {
  let sent = 0;
  const port = await listen((peer) => {
    const chunk = new Uint8Array(1 << 16);
    const more = (): void => {
      while (sent < 1 << 28 && peer.write(chunk)) sent += chunk.length;
      if (sent < 1 << 28) peer.once("drain", more);
    };
    more();
  });
  /** It sends until the system's buffers are full. If the driver continued to read, it could send everything. */
  const stops = async (): Promise<void> => {
    for (let before = -1; sent > before; await pause(200)) before = sent;
    expect(sent).toBeLessThan(1 << 25);
  };
  return { port, stops };
}

test("without reads nothing is received, so the peer cannot send for ever", async () => {
  const peer = await eager();
  const socket = await open(peer.port);
  await socket.read();
  await peer.stops();
  await socket.close();
});

/** Collects what a read that never resolves is offered, until there are so many bytes. */
function taken(socket: Awaited<ReturnType<typeof open>>, most: number) {
  const bytes: number[] = [];
  const chunks: number[] = [];
  const read = socket.read((chunk) => {
    bytes.push(...chunk);
    chunks.push(chunk.length);
    return bytes.length < most;
  });
  return { bytes, chunks, read };
}

test("a read with `take` stays pending while bytes are taken, and resolves with none when it is refused more", async () => {
  const total = 100_000;
  const port = await listen((peer) => void peer.end(new Uint8Array(total).map((_, at) => at % 251)));
  const socket = await open(port);
  let at = 0;
  for (const most of [5_000, 1, 30_000]) {
    const { bytes, read } = taken(socket, most);
    expect(await read).toHaveLength(0);
    expect(bytes.length).toBeGreaterThanOrEqual(most);
    for (const byte of bytes) expect(byte).toBe(at++ % 251);
    for (let waits = 0; waits < 3; waits++) await turn();
  }
  // The rest, as far as the end: none is lost between two ways of reading.
  const plain = (await socket.read())!;
  for (const byte of plain) expect(byte).toBe(at++ % 251);
  const { bytes, read } = taken(socket, Infinity);
  expect(await read).toBe(null);
  for (const byte of bytes) expect(byte).toBe(at++ % 251);
  expect(at).toBe(total);
  await socket.close();
});

test("a read with `take` that is refused more stops the peer", async () => {
  const peer = await eager();
  const socket = await open(peer.port);
  const { chunks, read } = taken(socket, 1);
  expect(await read).toHaveLength(0);
  await peer.stops();
  expect(chunks).toHaveLength(1);
  await socket.close();
});

test("a reset ends a read with `take`", async () => {
  const port = await listen((peer) => {
    peer.write("x");
    peer.once("data", () => peer.resetAndDestroy());
  });
  const socket = await open(port);
  const { bytes, read } = taken(socket, Infinity);
  while (!bytes.length) await turn();
  void socket.write(Uint8Array.of(1));
  await expect(read).rejects.toMatchObject({ code: "CONNECTION_LOST" });
});

test("bytes from before an RST are read, and then the reset is an error", async () => {
  const port = await listen((peer) => {
    peer.write("last words");
    peer.once("data", () => peer.resetAndDestroy());
  });
  const socket = await open(port);
  expect(new TextDecoder().decode((await socket.read())!)).toBe("last words");
  await socket.write(Uint8Array.of(1));
  await expect(socket.read()).rejects.toMatchObject({ name: "ConnectionError", code: "CONNECTION_LOST" });
  await expect(socket.write(Uint8Array.of(1))).rejects.toMatchObject({ code: "CONNECTION_LOST" });
});

test("close ends a pending read, and may be called again", async () => {
  const socket = await open(await listen(() => {}));
  const read = socket.read();
  await socket.close();
  await expect(read).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  await socket.close();
});

test("a port without a listener, or an unknown host name, is a typed error", async () => {
  const port = 1; // no client or server gets it by chance
  await expect(open(port)).rejects.toMatchObject({ code: "CONNECT_FAILED", stage: "tcp", retryable: true });
  await expect(open(port, "localhost")).rejects.toMatchObject({
    code: "CONNECT_FAILED",
    stage: "tcp",
    message: expect.stringContaining("ECONNREFUSED"),
  });
  await expect(open(port, "nowhere.invalid")).rejects.toMatchObject({ code: "CONNECT_FAILED", stage: "dns" });
});

test("an abort while connecting rejects with the signal's reason", async () => {
  const port = await listen(() => {});
  const reason = new Error("enough");
  await expect(open(port, "127.0.0.1", AbortSignal.abort(reason))).rejects.toBe(reason);
  const later = new AbortController();
  const connecting = open(port, "nowhere.invalid", later.signal);
  later.abort(reason);
  await expect(connecting).rejects.toBe(reason);
});

/** Replaces the look-up of host names for one test. */
function lookUpBy(lookup: (callback: (error: Error | null, addresses: object[]) => void) => void): Disposable {
  const real = dns.lookup;
  const fake = (_host: string, _options: object, callback: Parameters<typeof lookup>[0]) => lookup(callback);
  dns.lookup = fake as unknown as typeof real;
  return { [Symbol.dispose]: () => void (dns.lookup = real) };
}

test("a silent name server is given up at the signal, and a late answer opens no connection", async () => {
  const port = await listen(() => {});
  let answer = () => {};
  using _ = lookUpBy((callback) => (answer = () => callback(null, [{ address: "127.0.0.1", family: 4 }])));
  const late = new Error("too late");
  const signal = new AbortController();
  const opening = open(port, "slow.example", signal.signal);
  await turn();
  signal.abort(late);
  await expect(opening).rejects.toBe(late);
  answer();
  await turn();
  // A server accepts connections in order, so a connection that the answer had opened would come before this one.
  const probe = net.connect(port, "127.0.0.1");
  await once(server, "connection");
  expect(peers.map(({ remotePort }) => remotePort)).toEqual([probe.localPort]);
  probe.destroy();
});
