// A socket in memory: both ends are in one process, for tests and transcripts. Knows the socket contract, nothing of
// PostgreSQL.
//
//   const { connect, accepted } = memoryListener();
//   const peer = await accepted();        // the server's end of the next connection
//   peer.send(bytes); await peer.received(); peer.end(); peer.reset();
import { connectionLost, type Connector, type Socket } from "./contract.ts";

export interface Peer {
  /** Returns the bytes of the next write of the driver, and waits for it. `null` once the driver has closed. */
  received(): Promise<Uint8Array | null>;
  send(bytes: Uint8Array): void;
  end(): void;
  reset(): void;
  /** How often the driver has asked for bytes: a driver that honours back-pressure does not ask. */
  readonly reads: number;
}

/** `traits`: the properties that a runtime's sockets have. */
export function memoryListener(traits: Pick<Socket, "readsWhileIdle"> = {}): {
  connect: Connector;
  accepted: () => Promise<Peer>;
} {
  const peers = new Channel<Peer>();
  return {
    connect: ({ signal }) => {
      if (signal.aborted) return Promise.reject(signal.reason as Error);
      const { socket, peer } = memoryPair(traits);
      peers.put(peer);
      return Promise.resolve(socket);
    },
    accepted: async () => (await peers.take())!,
  };
}

export function memoryPair(traits: Pick<Socket, "readsWhileIdle"> = {}): { socket: Socket; peer: Peer } {
  const toDriver = new Channel<Uint8Array>();
  const toPeer = new Channel<Uint8Array>();
  let reads = 0;
  const socket: Socket = {
    ...traits,
    read: () => (reads++, toDriver.take()),
    write: (bytes) =>
      toPeer.put(bytes.slice()) ? Promise.resolve() : Promise.reject(connectionLost("the socket was closed")),
    startTls: () => Promise.resolve(socket),
    close: () => {
      toDriver.close(connectionLost("the socket was closed"));
      toPeer.close(null);
      return Promise.resolve();
    },
  };
  const peer: Peer = {
    received: () => toPeer.take(),
    send: (bytes) => void toDriver.put(bytes),
    end: () => toDriver.close(null),
    reset: () => (toDriver.close(connectionLost("reset by peer")), toPeer.close(null)),
    get reads() {
      return reads;
    },
  };
  return { socket, peer };
}

class Channel<T> {
  #items: T[] = [];
  #takers: { resolve: (item: T | null) => void; reject: (error: Error) => void }[] = [];
  #closed: Error | null | undefined;

  put(item: T): boolean {
    if (this.#closed !== undefined) return false;
    const taker = this.#takers.shift();
    if (taker) taker.resolve(item);
    else this.#items.push(item);
    return true;
  }

  take(): Promise<T | null> {
    if (this.#items.length) return Promise.resolve(this.#items.shift()!);
    if (this.#closed) return Promise.reject(this.#closed);
    if (this.#closed === null) return Promise.resolve(null);
    return new Promise((resolve, reject) => this.#takers.push({ resolve, reject }));
  }

  close(reason: Error | null): void {
    if (this.#closed !== undefined) return;
    this.#closed = reason;
    for (const { resolve, reject } of this.#takers.splice(0)) reason ? reject(reason) : resolve(null);
  }
}
