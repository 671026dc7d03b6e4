// The program and the invalidator on Node, each a process that is killed now and then. What they say to each other goes
// through this process, which loses, delays and repeats some of it.
//
// Knows processes and HTTP. Must not know what is said.
import { spawn, type ChildProcess } from "node:child_process";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { pause, until } from "../support/until.mjs";
import type { Parts, Watch } from "./parts.ts";

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const ROOT = path.dirname(path.dirname(path.dirname(file("x"))));
/** One of so many calls is lost, its answer is, it is late, and it is said twice. */
const FAULTY = 60;
/** Milliseconds: more than `cached` waits for the invalidator. */
const LATEST = 1_500;

/** A process that prints its port. */
class Part {
  readonly #name: string;
  readonly #given: readonly string[];
  #child: ChildProcess | undefined;
  #port: number | undefined;
  readonly failures = new Map<string, number>();

  constructor(name: string, ...given: string[]) {
    this.#name = name;
    this.#given = given;
  }

  get url(): string {
    if (this.#port === undefined) throw new Error(`${this.#name} is down`);
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const child = (this.#child = spawn(process.execPath, [file(this.#name), ...this.#given], {
      ...{ cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] },
    }));
    createInterface({ input: child.stdout! }).once("line", (line) => (this.#port = Number(line)));
    createInterface({ input: child.stderr! }).on("line", (line) =>
      this.failures.set(line, (this.failures.get(line) ?? 0) + 1),
    );
    await until(() => {
      if (child.exitCode !== null) throw new Error(`${this.#name} ended: ${[...this.failures.keys()].join("\n")}`);
      return this.#port !== undefined;
    }, `${this.#name} listens`);
  }

  async kill(): Promise<void> {
    const child = this.#child!;
    this.#port = undefined;
    child.kill("SIGKILL");
    await until(() => child.signalCode !== null || child.exitCode !== null, `${this.#name} has ended`);
  }

  /** As a machine that stands still. */
  async stopFor(milliseconds: number): Promise<void> {
    this.#child!.kill("SIGSTOP");
    await pause(milliseconds);
    this.#child!.kill("SIGCONT");
  }
}

export class NodeParts implements Parts {
  readonly name = "Node";
  readonly #watch: Watch;
  readonly #below: (below: number) => number;
  #program!: Part;
  #invalidator!: Part;
  #server!: Server;

  constructor(watch: Watch, below: (below: number) => number) {
    this.#watch = watch;
    this.#below = below;
  }

  async start(url: string): Promise<void> {
    this.#server = createServer(async (request, response) => {
      try {
        const given = JSON.parse(await text(request)) as unknown[];
        response.end(JSON.stringify(await this.#pass(request.url!.slice(1), given)));
      } catch (error) {
        response.writeHead(500).end(String(error));
      }
    });
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const here = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    this.#program = new Part("program.mjs", url, here);
    this.#invalidator = new Part("invalidator.mjs", url, here);
    await Promise.all([this.#program.start(), this.#invalidator.start()]);
  }

  /** From the program to the invalidator, or a purge from there. */
  async #pass(name: string, given: readonly unknown[]): Promise<unknown> {
    if (name === "purge") return this.#watch.purge(given[0] as readonly string[]);
    if (name === "close") this.#watch.closed((given[0] as { id: string }).id);
    const fault = this.#below(FAULTY);
    if (fault === 0) throw new Error("the call was lost");
    if (fault === 1) await pause(this.#below(LATEST));
    if (fault === 2) await this.#call(name, given);
    const result = await this.#call(name, given);
    if (fault === 3) throw new Error("the answer was lost");
    if (fault === 4) await pause(this.#below(LATEST));
    return result;
  }

  async #call(name: string, given: readonly unknown[]): Promise<unknown> {
    const response = await fetch(`${this.#invalidator.url}/${name}`, { method: "POST", body: JSON.stringify(given) });
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  }

  async ask(path: string, headers: Readonly<Record<string, string>>): Promise<Response> {
    return await fetch(`${this.#program.url}${path}`, { headers });
  }

  async life(opening: object): Promise<string | undefined> {
    return ((await this.#call("open", [opening])) as { life?: string }).life;
  }

  get disasters(): Readonly<Record<string, () => Promise<void>>> {
    const restart = async (part: Part) => {
      await part.kill();
      await pause(this.#below(2_000));
      await part.start();
    };
    return {
      "the program is killed": () => restart(this.#program),
      "the invalidator is killed": () => restart(this.#invalidator),
      "the invalidator is stopped for a while": () => this.#invalidator.stopFor(this.#below(8_000)),
      "the program is stopped for a while": () => this.#program.stopFor(this.#below(8_000)),
    };
  }

  get failures(): ReadonlyMap<string, number> {
    return new Map([...this.#program.failures, ...this.#invalidator.failures]);
  }

  async stop(): Promise<void> {
    await Promise.all([this.#program.kill(), this.#invalidator.kill()]);
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
