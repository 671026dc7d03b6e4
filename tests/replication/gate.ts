// A link to a server that can be cut, or fall silent.
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** Forwards connections to the server, until it cuts them. */
export class Gate {
  port = 0;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server = createServer((client) => this.#pass(client));

  async open(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return (this.#server.address() as AddressInfo).port;
  }

  /** Resets all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Silences the present connections: nothing passes, and none of them ends. */
  mute(): void {
    for (const socket of this.#sockets) {
      socket.unpipe();
      socket.pause();
    }
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #pass(client: Socket): void {
    const server = connect(this.port, "localhost");
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => {
        this.#sockets.delete(socket);
        client.destroy();
        server.destroy();
      });
    }
    client.pipe(server).pipe(client);
  }
}
