// Opens a session from a configuration: tries the hosts in their order and the attempts of the TLS plan, logs in, and
// keeps the deadline of each host.
//
// Knows the configuration and what the core needs before StartupMessage. Must not know queries or their callers.
import { onAbort } from "../util/abort.ts";
import { checkReach, serversOf } from "../config/hosts.ts";
import type { Config, TargetSessionAttrs } from "../config/options.ts";
import { deservesNextAttempt, explained, tlsPlan, type TlsPlan } from "../config/tls.ts";
import { knownServer } from "../server/known-server.ts";
import {
  AbortError,
  ConnectionError,
  noHost,
  PostgresError,
  ProtocolError,
  TimeoutError,
  type HostFailure,
  type PgzError,
} from "../util/errors.ts";
import type { Core } from "../wasm/boundary.ts";
import { base64 } from "../util/bytes.ts";
import { channelBinding } from "./channel-binding.ts";
import { Connection } from "../connection/connection.ts";
import { emit, inside, newEventId } from "../util/observer.ts";
import { dial, unlessAborted, type Link, type Target } from "../connection/dial.ts";
import { Login, WrongProbe } from "./login.ts";
import { createCore } from "../wasm/module.ts";
import { watched } from "../runtime/channels.ts";
import { runtime } from "../runtime/runtime.ts";
import { saslprep } from "./saslprep.ts";
import { checkSession } from "./session-attrs.ts";

/**
 * Opens a connection that takes operations: after ReadyForQuery, or right after StartupMessage where an early query is
 * allowed (its startup then still runs, under the same deadline). Rejects with the reason that `giveUp` was aborted
 * with, or with the error of the attempt.
 */
export async function openConnection(config: Config, giveUp: AbortController): Promise<Connection> {
  const { signal } = config;
  announceNotices(config);
  const stop = onAbort(signal, () => giveUp.abort(new AbortError(signal?.reason, { hasNoEffect: true })));
  try {
    const connection = await firstSuitable(config, giveUp.signal);
    // An observer may have aborted it when it was told that the connection is open.
    if (giveUp.signal.aborted) {
      connection.destroy(giveUp.signal.reason as PgzError);
      throw giveUp.signal.reason;
    }
    connection.startup.done.then(stop, stop);
    return connection;
  } catch (error) {
    stop();
    throw error;
  }
}

const announced = new WeakSet<Config>();

function announceNotices(config: Config): void {
  if (announced.has(config)) return;
  announced.add(config);
  for (const message of config.notices) emit(config.observer, "onNotice", { severity: "NOTICE", message });
}

// -- which host ------------------------------------------------------------------------------------------------------

interface Candidate {
  readonly config: Config;
  readonly plan: TlsPlan;
}

/**
 * Returns a connection to the first host, in their order, that can be reached and is what `targetSessionAttrs` says.
 */
async function firstSuitable(config: Config, signal: AbortSignal): Promise<Connection> {
  // Before anything is sent, refuse options of any host that this runtime cannot satisfy.
  const candidates = inOrder(config).map((server): Candidate => {
    checkReach(server, runtime());
    return { config: server, plan: tlsPlan(server, runtime()) };
  });
  let failures: HostFailure[] = [];
  for (const wanted of passes(config)) {
    failures = [];
    for (const candidate of candidates) {
      const { host, port } = candidate.config;
      // A query must not run on a server that may be left for another one.
      const mayLeave = candidate !== candidates.at(-1) || wanted !== "any";
      try {
        return await openHost(candidate, wanted, mayLeave, signal);
      } catch (error) {
        if (signal.aborted || !deservesNextHost(error)) throw error;
        failures.push({ host, port, error: error as PgzError });
      }
    }
  }
  throw candidates.length === 1 ? failures[0]!.error : noHost(failures);
}

/** Returns what is wanted of a server, for each pass over all hosts. With a single host nothing can be preferred. */
function passes({ targetSessionAttrs, hosts }: Config): TargetSessionAttrs[] {
  if (targetSessionAttrs !== "prefer-standby") return [targetSessionAttrs];
  return hosts.length === 1 ? ["any"] : ["standby", "any"];
}

function inOrder(config: Config): Config[] {
  const servers = [...serversOf(config)];
  if (config.loadBalanceHosts === "disable") return servers;
  // The Fisher-Yates shuffle.
  for (let at = servers.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [servers[at], servers[other]] = [servers[other]!, servers[at]!];
  }
  return servers;
}

/**
 * Whether the host cannot be reached, cannot take a session now, or is not what was asked for. A wrong password or
 * database would be wrong on every host, so it ends the attempts, as in libpq.
 */
function deservesNextHost(error: unknown): boolean {
  return (
    error instanceof ConnectionError ||
    error instanceof TimeoutError ||
    error instanceof ProtocolError ||
    (error instanceof PostgresError && error.hasNoEffect)
  );
}

// -- one host --------------------------------------------------------------------------------------------------------

/**
 * Connects to one host within `connectTimeout`, which each host has for itself. `mayLeave`: another attempt may follow
 * this one.
 */
async function openHost(
  { config, plan }: Candidate,
  wanted: TargetSessionAttrs,
  mayLeave: boolean,
  signal: AbortSignal,
): Promise<Connection> {
  const { connectTimeout, host, port, database, user } = config;
  const observer = watched("connect", config.observer);
  const start = { id: newEventId(), host, port, database, user };
  const started = performance.now();
  const enter = emit(observer, "onConnectStart", start);
  const giveUp = new AbortController();
  const stop = onAbort(signal, () => giveUp.abort(signal.reason));
  const timer = setTimeout(() => {
    giveUp.abort(
      new TimeoutError("CONNECT_TIMEOUT", `Connecting took longer than ${connectTimeout} ms (connectTimeout).`, {
        hasNoEffect: true,
      }),
    );
  }, connectTimeout);
  const done = (processId?: number, error?: PgzError) => {
    clearTimeout(timer);
    stop();
    emit(observer, "onConnect", { ...start, durationMs: performance.now() - started, processId, error });
  };
  try {
    const connection = await inside(enter, () => attempts(config, plan, mayLeave, giveUp.signal));
    if (wanted !== "any") await suits(connection, wanted, giveUp.signal);
    connection.startup.done
      .catch((error: PgzError) => error)
      .then((error) => done(connection.processId, error as PgzError | undefined));
    return connection;
  } catch (error) {
    done(undefined, error as PgzError);
    throw error;
  }
}

/** Checks that the server is of the wanted kind. If not, closes the connection and rejects. */
async function suits(connection: Connection, wanted: TargetSessionAttrs, signal: AbortSignal): Promise<void> {
  try {
    await unlessAborted(checkSession(connection, wanted), signal);
  } catch (error) {
    runtime().background(connection.close());
    throw error;
  }
}

async function attempts(
  config: Config,
  { attempts, verify }: TlsPlan,
  mayLeave: boolean,
  signal: AbortSignal,
): Promise<Connection> {
  for (let index = 0; ; index++) {
    const last = index === attempts.length - 1;
    try {
      return await open({ config, encrypt: attempts[index]!, verify }, mayLeave || !last, signal);
    } catch (error) {
      if (last || signal.aborted || !deservesNextAttempt(error)) throw error;
    }
  }
}

async function open(target: Target, mayRepeat: boolean, signal: AbortSignal): Promise<Connection> {
  const { config } = target;
  const { password, expiresAt } = await unlessAborted(config.password(config, signal), signal);
  const prepared = password === undefined ? undefined : saslprep(password);
  const core = newCore(config);
  let link: Link | undefined;
  try {
    link = await dial(target, core, signal).catch((error: unknown) => {
      throw explained(error, config, runtime());
    });
    const login = new Login(link, prepared, await unlessAborted(channelBinding(link), signal), mayRepeat);
    const connection = new Connection(link, core, config, login.start, login);
    connection.expiresAt = expiresAt;
    const { done } = connection.startup;
    const stop = onAbort(signal, () => connection.giveUp(signal.reason as PgzError));
    done.then(stop, stop);
    await login.letsIn(done);
    return connection;
  } catch (error) {
    core.free();
    void link?.socket.close();
    if (error instanceof WrongProbe) return open(target, mayRepeat, signal);
    throw error;
  }
}

function newCore(config: Config): Core {
  const { maxMessageBytes, prepare, statementCacheSize } = config;
  const hasNames = prepare === "named" || (prepare === "auto" && !knownServer(config).database.isPooler);
  // Random, so that two clients behind one pooler never share a statement's name.
  const statementPrefix = `p${base64(crypto.getRandomValues(new Uint8Array(6)))}_`;
  return createCore(maxMessageBytes, statementPrefix, hasNames ? statementCacheSize : 0);
}
