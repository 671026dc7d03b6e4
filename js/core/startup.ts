// From a configuration to a session: the attempts of the TLS plan, who we are, and the deadline over all of it.
//
// Knows the configuration and what the core must be told before StartupMessage. Must not know queries or their callers.
import { onAbort } from "../abort.ts";
import { allowedMethods, allowsEarlyQuery, deservesNextAttempt, startupParameters, tlsPlan, type Config } from "../config.ts";
import { AbortError, ConnectionError, TimeoutError, type PgzError } from "../errors.ts";
import { Connection, type Prove } from "./connection.ts";
import { emit } from "../observer.ts";
import { dial, unlessAborted, type Link } from "./dial.ts";
import { md5Password } from "./md5.ts";
import { createCore } from "./module.ts";
import { runtime } from "./runtime.ts";
import { saslprep } from "./saslprep.ts";
import { saltedPassword } from "./scram-keys.ts";

/** What the core's `options` say besides the allowed methods. */
const EXTERNAL_KEY_DERIVATION = 32, EARLY_QUERY = 64, NAME_FIRST_USE = 128;

/** WebCrypto of workerd refuses more PBKDF2 iterations than this; the core then derives by itself. */
const WEBCRYPTO_ITERATIONS = 100_000;

/**
 * A connection that takes operations: behind ReadyForQuery, or right behind StartupMessage where an early query is allowed
 * (its startup then still runs, under the same deadline). Rejects with what `giveUp` was aborted with, or with what went wrong.
 */
export async function openConnection(config: Config, giveUp: AbortController): Promise<Connection> {
  const { signal: user, connectTimeout, observer, host, port, database } = config;
  const started = performance.now();
  const timer = setTimeout(() => {
    giveUp.abort(new TimeoutError("CONNECT_TIMEOUT", `Connecting took longer than ${connectTimeout} ms (connectTimeout).`, { retryable: true }));
  }, connectTimeout);
  const stop = onAbort(user, () => giveUp.abort(new AbortError(user?.reason, { retryable: true })));
  const done = (processId?: number, error?: PgzError) => {
    clearTimeout(timer);
    stop();
    emit(observer, "onConnect", { host, port, database, user: config.user, durationMs: performance.now() - started, processId, error });
  };
  try {
    const connection = await attempts(config, giveUp.signal);
    connection.startup.done.then(() => done(connection.processId), (error: PgzError) => done(connection.processId, error));
    return connection;
  } catch (error) {
    done(undefined, error as PgzError);
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
    const options =
      allowedMethods(config, encrypted) | (external ? EXTERNAL_KEY_DERIVATION : 0) | (early ? EARLY_QUERY : 0) | (config.prepare === "named" ? NAME_FIRST_USE : 0);
    const parameters = startupParameters(config).flat().map((text) => `${text}\0`).join("");
    const nonce = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(18))));
    const version = config.maxProtocolVersion === "3.2" ? 196610 : 196608;
    const connection = new Connection(
      link, core, config, (handle) => handle.start(version, parameters, prepared, nonce, options, config.scramMaxIterations, config.flushBytes), prover(config.user, prepared),
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

function prover(user: string, password = ""): Prove {
  return async (question) => {
    if (question.kind === "md5") return md5Password(user, password, question.salt);
    const key = await saltedPassword(password, question.salt, question.iterations);
    if (!key) throw new ConnectionError("CONNECT_FAILED", "WebCrypto could not derive the SCRAM key.", { stage: "auth", retryable: true });
    return key;
  };
}
