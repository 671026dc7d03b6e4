// The server that is examined: ways to connect to it, and questions that it may refuse or never answer.
//
// Knows deadlines: each question has its own, so that no server can hold up the doctor. Must not know what the answers
// mean.
import { performance } from "node:perf_hooks";
import { logIn, PgzError, type Client, type Handover, type LogInOptions, type Options } from "../../index.ts";
import { DATA_ROW, HEADER, QUERY, READY_FOR_QUERY, TERMINATE } from "../../wasm/messages.ts";
import type { Task } from "../command.ts";
import { clientOf, connectionOf } from "../connect.ts";
import { sslmodeOf, type Asked } from "./sslmode.ts";

/** Milliseconds for one question, and for one connect. */
const QUESTION = 3_000;
const CONNECT = 5_000;
const LIMITS = { connectTimeout: CONNECT, timeout: QUESTION };

export class Patient {
  readonly #task: Pick<Task, "options" | "signal">;

  constructor(task: Pick<Task, "options" | "signal">) {
    this.#task = task;
  }

  /** `limits`: milliseconds for a connect and for a question. --timeout replaces the second. */
  client(more: Options = {}, limits = LIMITS): Client {
    const { options, signal } = this.#task;
    // Notices are dropped, because each of many clients would show the same ones.
    const observer = { onNotice: () => {}, ...more.observer };
    const { own } = connectionOf(options);
    return clientOf(options, signal, { ...limits, ...own, ...more, observer });
  }

  /** Logs in with these options and returns what the server has reported; `undefined` if the login fails. */
  async logIn(more: LogInOptions = {}): Promise<Login | undefined> {
    const login = await this.tryLogIn(more);
    return "code" in login ? undefined : login;
  }

  /** The same, but throws the error if the login fails. */
  async loggedIn(): Promise<Login> {
    const login = await this.tryLogIn({});
    if ("code" in login) throw login;
    return login;
  }

  /** The same, but returns the error if the login fails. */
  async tryLogIn(more: LogInOptions): Promise<Login | PgzError> {
    const handover = await this.#handover(more);
    return "code" in handover ? handover : await goodbye(handover);
  }

  /** The sslmode that follows from the user's own options. */
  sslmode(): Promise<Asked> {
    return sslmodeOf(this.#input());
  }

  /**
   * Returns the first value of a simple query's result. Reads it without the driver, for answers that break the
   * protocol.
   */
  async firstValue(text: string): Promise<string | undefined> {
    const handover = await this.#handover({});
    if ("code" in handover) return undefined;
    const { socket } = handover;
    // The connection is closed if the server does not answer in time.
    const timer = setTimeout(() => void socket.close(), QUESTION);
    try {
      await socket.write(queryMessage(text));
      return await readFirstValue(socket);
    } catch {
      return undefined;
    } finally {
      clearTimeout(timer);
      await goodbye(handover).catch(() => {});
    }
  }

  async #handover({ replication, ...more }: LogInOptions): Promise<Handover | PgzError> {
    this.#task.signal.throwIfAborted();
    return await logIn({ ...this.#input(), ...more }, { replication }).catch((error: unknown) => error as PgzError);
  }

  #input(): LogInOptions {
    const { url, own } = connectionOf(this.#task.options);
    return { ...(url !== undefined && { connectionString: url }), connectTimeout: CONNECT, ...own };
  }

  /** Returns the first row; `undefined` if the server refuses the question or does not answer in time. */
  async ask<Row>(client: Client, text: string, values: readonly string[] = []): Promise<Row | undefined> {
    const { signal } = this.#task;
    signal.throwIfAborted();
    const { rows } = await client.query<Row>({ text, values }, { signal }).catch(() => ({ rows: [] }));
    return rows[0];
  }
}

/** Milliseconds in which a free connection is looked for, and between two attempts. A busy server takes seconds. */
const LONGEST_SEARCH = 15_000;
const PAUSE = 50;
const TOO_MANY_CONNECTIONS = "53300";

/**
 * Connects as soon as the server has ended the session before, which counts until then: a role may be allowed only one.
 */
export async function whenFree<T>(connecting: () => Promise<T>): Promise<T> {
  const end = performance.now() + LONGEST_SEARCH;
  for (;;) {
    try {
      return await connecting();
    } catch (error) {
      const isFull = error instanceof PgzError && error.code === TOO_MANY_CONNECTIONS;
      if (!isFull || performance.now() > end) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

export interface Login {
  readonly encrypted: boolean;
  readonly parameters: ReadonlyMap<string, string>;
  readonly processId: number | undefined;
  /** Bytes of the cancel key: more than four only since protocol 3.2. */
  readonly keyLength: number;
}

const GOODBYE = new Uint8Array([TERMINATE, 0, 0, 0, 4]);

/** Milliseconds for the server to end a session. */
const LONGEST_END = 2_000;

/** Waits until the server has ended the session: before that, a role with a limit of connections cannot log in. */
async function ended(socket: Handover["socket"]): Promise<void> {
  const timer = setTimeout(() => void socket.close(), LONGEST_END);
  try {
    while ((await socket.read()) !== null);
  } catch {
    // It has ended.
  } finally {
    clearTimeout(timer);
  }
}

async function goodbye({ socket, encrypted, parameters, backendKey }: Handover): Promise<Login> {
  await Promise.resolve(socket.write(GOODBYE)).catch(() => {});
  await socket.flushed?.();
  await ended(socket);
  await socket.close();
  const view = new DataView(backendKey.buffer, backendKey.byteOffset, backendKey.byteLength);
  const processId = backendKey.length >= 4 ? view.getUint32(0) : undefined;
  return { encrypted, parameters, processId, keyLength: Math.max(0, backendKey.length - 4) };
}

/** Query: its type, int32 length, the text and a zero. */
function queryMessage(text: string): Uint8Array {
  const body = Buffer.from(`${text}\0`);
  const message = Buffer.alloc(HEADER + body.length);
  message.writeUInt8(QUERY);
  message.writeInt32BE(4 + body.length, 1);
  message.set(body, HEADER);
  return message;
}

/** Returns the first value of the first DataRow: int16 columns, then per column int32 length and the value. */
async function readFirstValue(socket: Handover["socket"]): Promise<string | undefined> {
  let bytes = Buffer.alloc(0);
  let value: string | undefined;
  for (;;) {
    while (bytes.length >= HEADER && bytes.length > bytes.readInt32BE(1)) {
      const end = 1 + bytes.readInt32BE(1);
      const [type] = bytes;
      if (type === READY_FOR_QUERY) return value;
      if (type === DATA_ROW && value === undefined && end > HEADER + 6)
        value = bytes.toString("utf8", HEADER + 6, HEADER + 6 + bytes.readInt32BE(HEADER + 2));
      bytes = bytes.subarray(end);
    }
    const more = await socket.read();
    if (!more) return undefined;
    bytes = Buffer.concat([bytes, more]);
  }
}
