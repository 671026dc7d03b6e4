// Makes the client of a command: decides where it connects to, and shows the server's notices.
//
// Knows --url, DATABASE_URL and the driver's options. Must not know what the client is used for. A URL is never shown:
// it may contain a password.
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

/** Errors with which an attempt to connect failed. */
const refusals = new WeakSet<object>();

/** Whether this error is the reason why there is no connection. */
export function isRefusal(error: unknown): boolean {
  return typeof error === "object" && error !== null && refusals.has(error);
}

/**
 * Creates a client that connects on its first call: to --url, else to DATABASE_URL, else to what PGHOST and the related
 * variables say. Notices of the server go to standard error. `more` has further options of the driver.
 */
export function clientOf(options: OptionValues, signal: AbortSignal, more: Options = {}): Client {
  const { url, own } = connectionOf(options);
  return orMisuse(url, () => createClient(url ?? {}, { signal, ...own, ...more, observer: watched(more.observer) }));
}

/** Creates a pool in the same way, for calls that run at the same time. The command itself handles --timeout. */
export function poolOf(options: OptionValues, more: PoolOptions): Pool {
  const { url, own } = connectionOf(options);
  const { timeout: _, ...others } = own;
  return orMisuse(url, () => createPool(url ?? {}, { ...others, ...more, observer: watched(more.observer) }));
}

/** The URL to connect to, and the driver's options from the command line. */
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

/** Shows a notice as psql does. A call with its own observer must include this handler. */
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
    // The driver's messages name its own options; these name those of the command line.
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
  // An empty variable counts as unset, as in libpq.
  return process.env["DATABASE_URL"] || undefined;
}

const hasVariables = () => ["PGHOST", "PGHOSTADDR", "PGUSER"].some((name) => process.env[name]);

/** Runs `work` with a client. When the promise settles, the client's session has ended on the server. */
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

/**
 * Closes the client after the server has ended a cancelled statement. A process that exits earlier would leave the
 * statement running.
 */
export async function leave(client: Client): Promise<void> {
  const end = performance.now() + CANCEL_WAIT;
  while (client.stats().state === "busy" && performance.now() < end) await pause(CANCEL_POLL);
  await client.close();
}

/** Milliseconds to wait for a cancel: as long as the driver itself tries (docs/errors.md, CONNECTION_LOST). */
const CANCEL_WAIT = 2_500;
const CANCEL_POLL = 10;
