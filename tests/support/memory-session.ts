// A client over sockets in memory, with the real wasm, and a server that does exactly what a test says: it accepts,
// lets in, refuses, takes a cancel. Its messages are in server-messages.ts.
//
// `useMemoryServer()` gives each test of a file its own server and client, `server` and `client`. Behaviour that only
// real servers show is in tests/integration and tests/faults.
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { createClient, type Client } from "../../js/api/client.ts";
import type { Options } from "../../js/config/options.ts";
import type { Connector } from "../../js/runtime/contract.ts";
import { memoryListener, type Peer } from "../../js/runtime/memory.ts";
import { installRuntime } from "../../js/runtime/runtime.ts";
import { begun, description, executed, fatal, loginAnswer, rows } from "./server-messages.ts";
import * as wire from "./wire.mjs";

export let server: ReturnType<typeof memoryListener>;
export let client: Client;
let databases = 0;

export function useMemoryServer(): void {
  beforeEach(() => {
    newServer();
    newClient();
  });
  afterEach(() => client.close());
}

/** Makes another server for later connections. */
export function newServer(traits?: Parameters<typeof memoryListener>[0]): void {
  server = memoryListener(traits);
  install(server.connect);
}

const wasm = readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url));

export function install(connect: Connector): void {
  const capabilities = { canSkipVerification: true, canUseCustomCa: true, canAlpn: true, canClientCertificate: true };
  installRuntime({ name: "node", module: () => wasm, connect, background: () => {}, capabilities });
}

/** Replaces `client`. */
export function newClient(options?: Options): void {
  client = otherClient(options);
}

/** Returns a client in addition to `client`. The test must close it. */
export function otherClient(options: Options = {}): Client {
  // Its own database, so that no test knows another test's cached shapes. Two flights are easier to follow than one;
  // first runs have their own tests.
  const firstRun = "describe";
  return createClient({
    host: "memory",
    user: "u",
    database: `d${databases++}`,
    sslmode: "disable",
    firstRun,
    ...options,
  });
}

// -- sessions --------------------------------------------------------------------------------------------------------

/** The flight of a statement whose shape is known. */
export const execution = ["Parse", "Bind", "Describe", "Execute", "Sync"];

/** The server's side of one session. */
export class Session {
  readonly reader = new wire.FrontendReader();
  constructor(readonly peer: Peer) {}

  /** Returns the names of the messages up to and including the next Sync (or the message that acts as one). */
  async flight(): Promise<string[]> {
    const names: string[] = [];
    for (;;) {
      const message = await this.message();
      names.push(message?.name ?? "end");
      if (!message || /^(Sync|Query|Terminate|StartupMessage|CancelRequest|SSLRequest)$/.test(message.name))
        return names;
    }
  }

  /** Returns the next message, or `undefined` at the end. */
  async message() {
    for (;;) {
      const message = this.reader.next();
      if (message) return message;
      const bytes = await this.peer.received();
      if (!bytes) return undefined;
      this.reader.push(Buffer.from(bytes));
    }
  }

  send(...messages: Uint8Array[]): void {
    this.peer.send(Buffer.concat(messages));
  }
}

/** Returns the next connection, before any of its bytes are read. */
export async function accepted(): Promise<Session> {
  return new Session(await server.accepted());
}

/** Answers the login of a connection. Returns the session. */
export async function logIn(
  next: Session | Promise<Session>,
  settings?: Record<string, string>,
  processId?: number,
): Promise<Session> {
  const session = await next;
  expect(await session.flight()).toEqual(["StartupMessage"]);
  session.send(loginAnswer(settings, processId));
  return session;
}

/** Returns the next connection after its login. The server also reports these settings. */
export const letIn = (settings?: Record<string, string>): Promise<Session> => logIn(accepted(), settings);

/** The same by a pooler: its process id is impossible on Linux. */
export const letInByPooler = (): Promise<Session> => logIn(accepted(), {}, 0x7fffffff);

/** Refuses the login of the next connection, or of this one. */
export async function refuseLogin(code = "53300", next: Session | Promise<Session> = accepted()): Promise<void> {
  const session = await next;
  await session.flight();
  session.send(fatal(code));
  session.peer.end();
}

/** Returns the next connection, which must send a CancelRequest. It has not ended, so the driver still waits. */
export async function cancelRequest(): Promise<Session> {
  const session = await accepted();
  expect(await session.flight()).toEqual(["CancelRequest"]);
  return session;
}

/** Accepts a CancelRequest, and ends its connection. */
export async function acceptCancel(): Promise<void> {
  (await cancelRequest()).peer.end();
}

/** Answers the first flight of an unknown statement, and receives the second. */
export async function learn(session: Session): Promise<void> {
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(description());
  expect(await session.flight()).toEqual(execution);
}

/** Returns a session in which "select n" has run. */
export async function letInKnowing(): Promise<Session> {
  const learning = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(executed(0));
  await learning;
  return session;
}

/** Returns a session whose first stream has begun with this number of rows, and the stream's reader. */
export async function openStream(
  count: number,
): Promise<{ session: Session; reader: ReadableStreamDefaultReader<Uint8Array> }> {
  const opening = client.stream("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, count));
  return { session, reader: (await opening).getReader() };
}

/** Returns the texts of the statements that the next flight prepares, and of a Query. `end`: the session has ended. */
export async function texts(session: Session): Promise<string[]> {
  const found: string[] = [];
  for (;;) {
    const message = await session.message();
    if (!message) return ["end"];
    const [first, second] = message.body.toString().split("\0");
    if (message.name === "Parse") found.push(second!);
    if (message.name === "Query") found.push(first!);
    if (["Sync", "Query"].includes(message.name)) return found;
  }
}

/** Returns the text of the next message, which is a Query. Another message: its name. */
export async function queryText(session: Session): Promise<string> {
  const message = await session.message();
  return message?.name === "Query" ? message.body.toString().slice(0, -1) : (message?.name ?? "end");
}

// -- time ------------------------------------------------------------------------------------------------------------

/** Resolves with the error of a call that fails. */
export const failure = (call: Promise<unknown>): Promise<unknown> => call.catch((error: unknown) => error);

/**
 * Waits until the driver has done everything that it can do with the bytes it has. Sockets in memory answer through
 * promises, and those have all run when the event loop takes its next turn.
 */
export const quiet = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Whether `work` is still pending after the driver has done everything that it can do. */
export const isPending = async (work: Promise<unknown>) => {
  const pending = {};
  return (await Promise.race([work, quiet().then(() => pending)])) === pending;
};

/**
 * Stops the driver's timers for the rest of a block. `pass` advances them by a number of milliseconds, with time for
 * the sockets. fake-clock.ts is for logic without a socket: it also sets what the clocks say.
 */
export function fakeTimers(): Disposable & { pass: (milliseconds: number) => Promise<void> } {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  return {
    async pass(milliseconds) {
      await quiet();
      await vi.advanceTimersByTimeAsync(milliseconds);
      await quiet();
    },
    [Symbol.dispose]: () => void vi.useRealTimers(),
  };
}
