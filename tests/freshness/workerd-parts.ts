// The program as a Worker in workerd, the invalidator as a Durable Object of it.
//
// Knows workerd and its process. Must not know what is said.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { pause } from "../support/until.mjs";
import { startWorker, type Worker } from "../workerd/host.mjs";
import type { Parts, Watch } from "./parts.ts";

export class WorkerdParts implements Parts {
  readonly name = "workerd";
  readonly #watch: Watch;
  readonly #below: (below: number) => number;
  #worker: Worker | undefined;
  #server!: Server;
  #url = "";
  readonly failures = new Map<string, number>();

  constructor(watch: Watch, below: (below: number) => number) {
    this.#watch = watch;
    this.#below = below;
  }

  async start(url: string): Promise<void> {
    this.#url = url;
    this.#server = createServer(async (request, response) => {
      try {
        const given = await text(request);
        if (request.url === "/purge") await this.#watch.purge(JSON.parse(given) as string[]);
        if (request.url === "/closed") this.#watch.closed(given);
        if (request.url === "/failure") this.failures.set(given, (this.failures.get(given) ?? 0) + 1);
        response.end();
      } catch (error) {
        response.writeHead(429).end(String(error));
      }
    });
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    await this.#begin();
  }

  async #begin(): Promise<void> {
    const here = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    this.#worker = await startWorker({
      entry: fileURLToPath(new URL("worker.ts", import.meta.url)),
      options: {
        compatibilityFlags: ["no_nodejs_compat"],
        bindings: { DATABASE_URL: this.#url, TEST: here },
        durableObjects: { INVALIDATIONS: { className: "Invalidations", useSQLite: true } },
      },
    });
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    if (!this.#worker) throw new Error("workerd is down");
    return await fetch(new URL(path, this.#worker.url), init);
  }

  async ask(path: string, headers: Readonly<Record<string, string>>): Promise<Response> {
    return await this.#fetch(path, { headers });
  }

  async life(opening: object): Promise<string | undefined> {
    const response = await this.#fetch("/open", { method: "POST", body: JSON.stringify(opening) });
    return ((await response.json()) as { life?: string }).life;
  }

  get disasters(): Readonly<Record<string, () => Promise<void>>> {
    return {
      "the object is evicted": async () => void (await this.#fetch("/evict", { method: "POST" })),
      "workerd is killed": async () => {
        const worker = this.#worker!;
        this.#worker = undefined;
        process.kill(-worker.pid, "SIGKILL"); // with workerd itself
        await worker.stop();
        await pause(this.#below(2_000));
        await this.#begin();
      },
    };
  }

  async stop(): Promise<void> {
    await this.#worker?.stop();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
