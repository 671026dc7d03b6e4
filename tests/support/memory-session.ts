// A client over sockets in memory, with the real wasm, and a server that does exactly what a test says.
//
// `useMemoryServer()` gives each test of a file its own server and client, `server` and `client`. Behaviour that only
// real servers show is in tests/integration and tests/faults.
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { createClient, type Client } from "../../js/api/client.ts";
import type { Options } from "../../js/config/options.ts";
import type { Connector } from "../../js/sockets/contract.ts";
import { memoryListener, type Peer } from "../../js/sockets/memory.ts";
import { installRuntime } from "../../js/sockets/runtime.ts";
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

// -- what the server says --------------------------------------------------------------------------------------------

export const int4 = { name: "n", oid: 23, size: 4 };

export function rows(from: number, to: number): Buffer {
  return Buffer.concat(Array.from({ length: to - from }, (_, at) => wire.dataRow([wire.int32(from + at)])));
}

/** The messages before the rows of an execution. */
export function begun(): Buffer {
  return Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.rowDescription([int4], [1])]);
}

/** The messages after the rows. */
export function ended(count: number): Buffer {
  return Buffer.concat([wire.commandComplete(`SELECT ${count}`), wire.readyForQuery()]);
}

export function shutdown(): Buffer {
  return wire.errorResponse({ S: "FATAL", V: "FATAL", C: "57P01", M: "terminating connection" });
}

export function division(): Buffer {
  return wire.errorResponse({ S: "ERROR", V: "ERROR", C: "22012", M: "division by zero" });
}

/** Resolves with the error of a call that fails. */
export const failure = (call: Promise<unknown>): Promise<unknown> => call.catch((error: unknown) => error);

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

/** Returns the next connection after its login. The server also reports these settings. */
export async function letIn(settings: Record<string, string> = {}): Promise<Session> {
  const session = await accepted();
  expect(await session.flight()).toEqual(["StartupMessage"]);
  session.send(wire.authenticationOk(), wire.parameterStatus("integer_datetimes", "on"));
  session.send(...Object.entries(settings).map(([name, value]) => wire.parameterStatus(name, value)));
  session.send(wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
  return session;
}

/** Answers the first flight of an unknown statement, and receives the second. */
export async function learn(session: Session): Promise<void> {
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
}

/** Returns a session in which "select n" has run. */
export async function letInKnowing(): Promise<Session> {
  const learning = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1), ended(1));
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

// -- time ------------------------------------------------------------------------------------------------------------

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

/** Stops the driver's timers. `pass` advances them by a number of milliseconds. */
export function fakeClock(): Disposable & { pass: (milliseconds: number) => Promise<void> } {
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
