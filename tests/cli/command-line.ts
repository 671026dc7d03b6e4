// `pgz-edge` as a user has it: the packed tarballs, installed in an empty project, run as a separate process.
import { spawn, type ChildProcess } from "node:child_process";
import path from "node:path";
import process from "node:process";
import { afterAll, beforeAll } from "vitest";
import type * as pgz from "../../js/index.ts";
import { testServers } from "../integration/servers.ts";
import { Project } from "../packaging/project.ts";

/** A connection that looks at the server meanwhile. */
export const driver = (await import(new URL("../../dist/node.js", import.meta.url).href)) as typeof pgz;

export const { servers, pgbouncer } = testServers();
export const [server] = servers;
/** The environment without the tests' certificates. */
export const plainUrl = (url: string): string => `${url.split("?")[0]}?sslmode=disable`;
export const url = plainUrl(server!.url);

export interface Ended {
  /** The exit code, or the signal that ended the process. */
  readonly code: number | string | null;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  /** Variables added to DATABASE_URL; `undefined` removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Standard input. Without it the process has none. */
  readonly input?: string | Uint8Array;
  /** Runs in a process group of its own, as a shell starts a command at a terminal. */
  readonly isGroup?: boolean;
  /** Standard input exists and stays open. */
  readonly stdin?: "open";
}

export class CommandLine {
  #project: Project | undefined;

  get project(): Project {
    return (this.#project ??= new Project({ hasCommandLine: true }));
  }

  get bin(): string {
    return this.project.at("node_modules/.bin/pgz-edge");
  }

  /** Starts the command. */
  start(
    words: readonly string[],
    { env = {}, input, stdin, isGroup = false }: RunOptions = {},
    command = [this.bin],
  ): ChildProcess {
    const child = spawn(command[0]!, [...command.slice(1), ...words], {
      cwd: this.project.folder,
      env: environment(env),
      detached: isGroup,
      stdio: [input === undefined && !stdin ? "ignore" : "pipe", "pipe", "pipe"],
    });
    if (input !== undefined) {
      child.stdin!.on("error", () => {}); // it need not read all of it
      child.stdin!.end(input);
    }
    return child;
  }

  async run(words: readonly string[], options: RunOptions = {}, command = [this.bin]): Promise<Ended> {
    return await ended(this.start(words, options, command));
  }

  /** Runs a line of the shell, in which `pgz-edge` can be found. */
  async shell(line: string, options: RunOptions = {}): Promise<Ended> {
    const child = spawn("bash", ["-c", line], {
      cwd: this.project.folder,
      env: environment({
        ...options.env,
        PATH: [path.dirname(this.bin), process.env["PATH"]].join(path.delimiter),
      }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    return await ended(child);
  }

  remove(): void {
    this.#project?.remove();
  }
}

/** The command line for all tests of a file. */
export function useCommandLine(): CommandLine {
  const cli = new CommandLine();
  beforeAll(() => void cli.project);
  afterAll(() => cli.remove());
  return cli;
}

/** A client of the driver for all tests of a file. */
export function useClient(to = url): pgz.Client {
  const db = driver.createClient(to);
  afterAll(() => db.close());
  return db;
}

/**
 * Waits for the end of the process and returns its output; without standard output when another reader takes it. Call
 * it before the process can end: Node reports the end only once.
 */
export async function ended(child: ChildProcess, { readsOut = true } = {}): Promise<Ended> {
  if (child.exitCode !== null || child.signalCode !== null)
    throw new Error("the process has ended, and nobody heard it");
  const read = (stream: NodeJS.ReadableStream | null) => {
    const pieces: Buffer[] = [];
    stream?.on("data", (piece: Buffer) => pieces.push(piece));
    return () => Buffer.concat(pieces).toString();
  };
  const out = read(readsOut ? child.stdout : null);
  const err = read(child.stderr);
  const code = await new Promise<number | string | null>((resolve) =>
    child.once("close", (status, signal) => resolve(status ?? signal)),
  );
  return { code, out: out(), err: err() };
}

function environment(more: RunOptions["env"]): NodeJS.ProcessEnv {
  const all = Object.entries({ ...process.env, DATABASE_URL: url, ...more });
  return Object.fromEntries(all.filter(([name, value]) => value !== undefined && !/^npm_/.test(name)));
}
