// From a configuration to a session: the attempts of the TLS plan, who we are, and the deadline over all of it.
//
// Knows the configuration and what the core must be told before StartupMessage. Must not know queries or their callers.
import { onAbort } from "../abort.ts";
import { allowedMethods, allowsEarlyQuery, deservesNextAttempt, startupParameters, tlsPlan, type Config } from "../config.ts";
import { AbortError, TimeoutError, type PgzError } from "../errors.ts";
import { Connection } from "./connection.ts";
import { dial, unlessAborted, type Link } from "./dial.ts";
import { createCore } from "./module.ts";
import { runtime } from "./runtime.ts";
import { saslprep } from "./saslprep.ts";
import { saltedPassword } from "./scram-keys.ts";

/** WebCrypto of workerd refuses more PBKDF2 iterations than this; the core then derives by itself. */
const WEBCRYPTO_ITERATIONS = 100_000;

/**
 * A connection that takes operations: behind ReadyForQuery, or right behind StartupMessage where an early query is allowed
 * (its startup then still runs, under the same deadline). Rejects with what `giveUp` was aborted with, or with what went wrong.
 */
export async function openConnection(config: Config, giveUp: AbortController): Promise<Connection> {
  const { signal: user, connectTimeout } = config;
  const timer = setTimeout(() => {
    giveUp.abort(new TimeoutError("CONNECT_TIMEOUT", `Connecting took longer than ${connectTimeout} ms (connectTimeout).`, { retryable: true }));
  }, connectTimeout);
  const stop = onAbort(user, () => giveUp.abort(new AbortError(user?.reason, { retryable: true })));
  const done = () => {
    clearTimeout(timer);
    stop();
  };
  try {
    const connection = await attempts(config, giveUp.signal);
    connection.startup.done.then(done, done);
    return connection;
  } catch (error) {
    done();
    throw error;
  }
}

async function attempts(config: Config, signal: AbortSignal): Promise<Connection> {
  const { name, capabilities } = runtime();
  const { attempts, verify } = tlsPlan(config, { name, ...capabilities });
  for (let index = 0; ; index++) {
    const attempt = attempts[index]!;
    const last = index === attempts.length - 1;
    try {
      return await open({ config, attempt, verify }, last, signal);
    } catch (error) {
      if (last || signal.aborted || !deservesNextAttempt(error)) throw error;
    }
  }
}

async function open(target: Parameters<typeof dial>[0], last: boolean, signal: AbortSignal): Promise<Connection> {
  const { config, verify } = target;
  const password = await unlessAborted(config.password(), signal);
  const prepared = password === undefined ? undefined : saslprep(password);
  // So that two clients behind one pooler never share a statement's name. Behind the last hyphen of a UUID all 48 bits are random.
  const statementPrefix = `p${crypto.randomUUID().slice(24)}_`;
  const core = createCore(config.maxMessageBytes, statementPrefix, config.prepare === "unnamed" ? 0 : config.statementCacheSize);
  let link: Link | undefined;
  try {
    link = await dial(target, core, signal);
    const { encrypted } = link;
    // Another attempt would have to repeat the query.
    const early = last && allowsEarlyQuery(config, verify, encrypted);
    const external = !!prepared && config.scramMaxIterations <= WEBCRYPTO_ITERATIONS && !!globalThis.crypto?.subtle;
    core.call((handle) => {
      for (const [name, value] of startupParameters(config)) handle.startup_parameter(name, value);
      handle.password(prepared, btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(18)))), allowedMethods(config, encrypted), config.scramMaxIterations);
      handle.external_key_derivation(external);
      handle.early_query(early);
      handle.flush_bytes(config.flushBytes);
      if (config.prepare === "named") handle.name_first_use();
    });
    const connection = new Connection(link, core, config, config.maxProtocolVersion === "3.2" ? 196610 : 196608, (salt, iterations) =>
      saltedPassword(prepared!, salt, iterations),
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
