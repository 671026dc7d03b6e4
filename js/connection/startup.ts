// From a configuration to a session: the attempts of the TLS plan, who we are, and the deadline over all of it.
//
// Knows the configuration and what the core must be told before StartupMessage. Must not know queries or their callers.
import { onAbort } from "../util/abort.ts";
import type { Config } from "../config/options.ts";
import { deservesNextAttempt, tlsPlan } from "../config/tls.ts";
import { AbortError, TimeoutError, type PgzError } from "../util/errors.ts";
import type { Core } from "../wasm/boundary.ts";
import { base64 } from "../util/bytes.ts";
import { Connection } from "./connection.ts";
import { emit } from "../util/observer.ts";
import { dial, unlessAborted, type Link, type Target } from "./dial.ts";
import { Login, WrongGuess } from "./login.ts";
import { createCore } from "../wasm/module.ts";
import { runtime } from "../sockets/runtime.ts";
import { saslprep } from "./saslprep.ts";

/**
 * A connection that takes operations: behind ReadyForQuery, or right behind StartupMessage where an early query is
 * allowed (its startup then still runs, under the same deadline). Rejects with what `giveUp` was aborted with, or with
 * what went wrong.
 */
export async function openConnection(config: Config, giveUp: AbortController): Promise<Connection> {
  const { signal, connectTimeout, observer, host, port, database, user } = config;
  const started = performance.now();
  const timer = setTimeout(() => {
    giveUp.abort(
      new TimeoutError("CONNECT_TIMEOUT", `Connecting took longer than ${connectTimeout} ms (connectTimeout).`, {
        retryable: true,
      }),
    );
  }, connectTimeout);
  const stop = onAbort(signal, () => giveUp.abort(new AbortError(signal?.reason, { retryable: true })));
  const done = (processId?: number, error?: PgzError) => {
    clearTimeout(timer);
    stop();
    emit(observer, "onConnect", {
      host,
      port,
      database,
      user,
      durationMs: performance.now() - started,
      processId,
      error,
    });
  };
  try {
    const connection = await attempts(config, giveUp.signal);
    connection.startup.done
      .catch((error: PgzError) => error)
      .then((error) => done(connection.processId, error as PgzError | undefined));
    return connection;
  } catch (error) {
    done(undefined, error as PgzError);
    throw error;
  }
}

async function attempts(config: Config, signal: AbortSignal): Promise<Connection> {
  const { attempts, verify } = tlsPlan(config, runtime());
  for (let index = 0; ; index++) {
    const last = index === attempts.length - 1;
    try {
      return await open({ config, encrypt: attempts[index]!, verify }, last, signal);
    } catch (error) {
      if (last || signal.aborted || !deservesNextAttempt(error)) throw error;
    }
  }
}

async function open(target: Target, last: boolean, signal: AbortSignal): Promise<Connection> {
  const { config } = target;
  const password = await unlessAborted(config.password(), signal);
  const prepared = password === undefined ? undefined : saslprep(password);
  const core = newCore(config);
  let link: Link | undefined;
  try {
    link = await dial(target, core, signal);
    const login = new Login(link, prepared, !last);
    const connection = new Connection(link, core, config, login.start, login);
    const { done } = connection.startup;
    const stop = onAbort(signal, () => connection.destroy(signal.reason as PgzError));
    done.then(stop, stop);
    await login.letsIn(done);
    return connection;
  } catch (error) {
    core.free();
    void link?.socket.close();
    if (error instanceof WrongGuess) return open(target, last, signal);
    throw error;
  }
}

function newCore({ maxMessageBytes, prepare, statementCacheSize }: Config): Core {
  // So that two clients behind one pooler never share a statement's name.
  const statementPrefix = `p${base64(crypto.getRandomValues(new Uint8Array(6)))}_`;
  return createCore(maxMessageBytes, statementPrefix, prepare === "unnamed" ? 0 : statementCacheSize);
}
