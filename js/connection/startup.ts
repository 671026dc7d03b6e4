// From a configuration to a session: the attempts of the TLS plan, who we are, and the deadline over all of it.
//
// Knows the configuration and what the core must be told before StartupMessage. Must not know queries or their callers.
import { onAbort } from "../util/abort.ts";
import { allowedMethods, allowsEarlyQuery } from "../config/authentication.ts";
import { startupParameters } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { deservesNextAttempt, tlsPlan } from "../config/tls.ts";
import { AbortError, TimeoutError, type PgzError } from "../util/errors.ts";
import { WEBCRYPTO_ITERATIONS } from "../util/limits.ts";
import { EARLY_QUERY, EXTERNAL_KEY_DERIVATION, NAME_FIRST_USE, VERSION_3_0, VERSION_3_2 } from "../wasm/boundary.ts";
import { base64 } from "../util/bytes.ts";
import { Connection } from "./connection.ts";
import { emit } from "../util/observer.ts";
import { dial, unlessAborted, type Link } from "./dial.ts";
import { md5Password } from "./md5.ts";
import { createCore } from "../wasm/module.ts";
import { runtime } from "../sockets/runtime.ts";
import { saslprep } from "./saslprep.ts";
import { saltedPassword } from "./scram-keys.ts";

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

async function open(target: Parameters<typeof dial>[0], last: boolean, signal: AbortSignal): Promise<Connection> {
  const { config, verify } = target;
  const password = await unlessAborted(config.password(), signal);
  const prepared = password === undefined ? undefined : saslprep(password);
  const nonce = base64(crypto.getRandomValues(new Uint8Array(18)));
  // So that two clients behind one pooler never share a statement's name.
  const statementPrefix = `p${base64(crypto.getRandomValues(new Uint8Array(6)))}_`;
  const core = createCore(
    config.maxMessageBytes,
    statementPrefix,
    config.prepare === "unnamed" ? 0 : config.statementCacheSize,
  );
  let link: Link | undefined;
  try {
    link = await dial(target, core, signal);
    const { encrypted } = link;
    // Another attempt would have to repeat the query.
    const early = last && allowsEarlyQuery(config, verify, encrypted);
    const external = prepared && config.scramMaxIterations <= WEBCRYPTO_ITERATIONS && crypto.subtle;
    const options =
      allowedMethods(config, verify, encrypted) |
      (external ? EXTERNAL_KEY_DERIVATION : 0) |
      (early ? EARLY_QUERY : 0) |
      (config.prepare === "named" ? NAME_FIRST_USE : 0);
    const parameters = `${startupParameters(config).flat().join("\0")}\0`;
    const version = config.maxProtocolVersion === "3.2" ? VERSION_3_2 : VERSION_3_0;
    const connection = new Connection(
      link,
      core,
      config,
      (handle) =>
        handle.start(version, parameters, prepared, nonce, options, config.scramMaxIterations, config.flushBytes),
      (question) =>
        question.kind === "md5"
          ? md5Password(config.user, prepared ?? "", question.salt)
          : saltedPassword(prepared ?? "", question.salt, question.iterations),
    );
    const { done } = connection.startup;
    const stop = onAbort(signal, () => connection.destroy(signal.reason as PgzError));
    done.then(stop, stop);
    if (!early) await done;
    return connection;
  } catch (error) {
    core.free();
    void link?.socket.close();
    throw error;
  }
}
