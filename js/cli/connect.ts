// The client of a command: where it connects to, and what is told of its session.
//
// Knows --url, DATABASE_URL and the driver's options. Must not know what the client is used for. A URL is never shown:
// it may hold a password.
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import {
  createClient,
  createPool,
  PgzError,
  type Client,
  type Notice,
  type Observer,
  type Options,
  type Pool,
  type PoolOptions,
} from "../index.ts";
import { duration } from "./arguments.ts";
import { certificates } from "./certificates.ts";
import type { OptionValues, Task } from "./command.ts";
import { Misuse } from "./misuse.ts";
import { say } from "./terminal.ts";

/** Errors that kept a connection from being made. */
const refusals = new WeakSet<object>();

/** Whether this is why there is no connection. */
export function isRefusal(error: unknown): boolean {
  return typeof error === "object" && error !== null && refusals.has(error);
}

/**
 * A client that connects with its first call: to --url, else to DATABASE_URL, else where PGHOST and the others say.
 * Notices of the server go to standard error. `more` are options of the driver.
 */
export function clientOf(options: OptionValues, signal: AbortSignal, more: Options = {}): Client {
  const { url, own } = connectionOf(options);
  return orMisuse(url, () => createClient(url ?? {}, { signal, ...own, ...more, observer: watched(more.observer) }));
}

/** The same for calls that run beside each other. --timeout is left to the command. */
export function poolOf(options: OptionValues, more: PoolOptions): Pool {
  const { url, own } = connectionOf(options);
  const { timeout: _, ...others } = own;
  return orMisuse(url, () => createPool(url ?? {}, { ...others, ...more, observer: watched(more.observer) }));
}

/** Where to, and the driver's options that a command line has. */
export function connectionOf(options: OptionValues): { readonly url: string | undefined; readonly own: Options } {
  const timeout = duration({ options }, "timeout");
  return {
    url: whereTo(options),
    own: {
      ...certificates(options),
      ...(timeout !== undefined && { timeout }),
      ...(options["allow-cleartext-password"] === true && { allowCleartextPassword: true }),
    },
  };
}

/** As psql shows one. A call with an observer of its own needs it there. */
export function onNotice({ severity, message }: Notice): void {
  say(severity ? `${severity}:  ${message}` : String(message));
}

function watched(observer: Observer | undefined): Observer {
  return {
    onNotice,
    ...observer,
    onConnect(event) {
      if (event.error) refusals.add(event.error);
      return observer?.onConnect?.(event);
    },
  };
}

function orMisuse<T>(url: string | undefined, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof PgzError)) throw error;
    // The driver's text names the option.
    if (/^Option "user"/.test(error.message) && (url !== undefined || hasVariables()))
      throw new Misuse("No user: write postgres://user@host/database, or set PGUSER.");
    const message = error.message.replace(/pass its text as option "(\w+)"/, "pass that by --$1");
    if (url !== undefined || hasVariables()) throw new Misuse(message);
    throw new Misuse("Nothing says where to connect to: pass --url, or set DATABASE_URL, or PGHOST and PGUSER.");
  }
}

function whereTo({ url }: OptionValues): string | undefined {
  if (url === "") throw new Misuse("--url is empty: is a variable missing?");
  if (typeof url === "string") return url;
  // An empty variable says nothing, as in libpq.
  return process.env["DATABASE_URL"] || undefined;
}

const hasVariables = () => ["PGHOST", "PGHOSTADDR", "PGUSER"].some((name) => process.env[name]);

/** Runs `work` with a client, whose session has ended on the server when this settles. */
export async function withClient<T>(
  { options, signal }: Pick<Task, "options" | "signal">,
  more: Options,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = clientOf(options, signal, more);
  try {
    return await work(client);
  } finally {
    await leave(client);
  }
}

/** Closes when the server has ended what was cancelled; a process that left before would leave it running there. */
export async function leave(client: Client): Promise<void> {
  const end = performance.now() + CANCEL_WAIT;
  while (client.stats().state === "busy" && performance.now() < end) await pause(CANCEL_POLL);
  await client.close();
}

/** As long as the driver tries (docs/errors.md, CONNECTION_LOST). */
const CANCEL_WAIT = 2_500;
const CANCEL_POLL = 10;
