// A WebSocket class over a simulated socket, and the proxy behind it that forwards bytes. So the driver's own
// js/runtime/websocket.ts runs in simulated sessions.
//
// Knows the part of WebSocket that the driver uses. Must not know the network.
import type { AnyEvent, AnyWebSocket } from "../../js/runtime/websocket.ts";
import type { Connector, Socket } from "../../js/runtime/contract.ts";

/** Returns the class. `connect` makes the proxy's socket to `host`. */
export function webSocketClass(connect: Connector, host: string): new (url: string) => AnyWebSocket {
  return class implements AnyWebSocket {
    binaryType = "arraybuffer";
    bufferedAmount = 0;
    readonly #listeners = new Map<string, ((event: AnyEvent) => void)[]>();
    readonly #giveUp = new AbortController();
    #socket: Socket | undefined;
    #isClosed = false;

    constructor() {
      void this.#run();
    }

    addEventListener(type: string, listener: (event: AnyEvent) => void): void {
      this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
    }

    send(bytes: Uint8Array): void {
      if (!this.#socket || this.#isClosed) return;
      const copy = bytes.slice();
      this.bufferedAmount += copy.length;
      const sent = () => void (this.bufferedAmount -= copy.length);
      Promise.resolve(this.#socket.write(copy)).then(sent, sent);
    }

    close(): void {
      this.#giveUp.abort(new Error("the WebSocket was closed"));
      void this.#socket?.close();
      this.#end(1000);
    }

    async #run(): Promise<void> {
      try {
        const { signal } = this.#giveUp;
        const socket = await connect({ host, port: 5432, tls: null, readBuffer: 65_536, keepAlive: 0, signal });
        this.#socket = socket;
        if (this.#isClosed) return void socket.close();
        this.#emit({ type: "open" });
        for (let chunk; (chunk = await socket.read()) && !this.#isClosed;)
          this.#emit({ type: "message", data: chunk.slice().buffer });
        this.#end(1000);
        void socket.close();
      } catch {
        void this.#socket?.close();
        this.#end(1006);
      }
    }

    #end(code: number): void {
      if (this.#isClosed) return;
      this.#isClosed = true;
      this.#emit({ type: "close", code, reason: "" });
    }

    #emit(event: AnyEvent): void {
      for (const listener of this.#listeners.get(event.type) ?? []) listener(event);
    }
  };
}
