// Opens a socket to the server, encrypted as one attempt of the TLS plan requires. Sessions and CancelRequests both use
// it.
//
// Knows the socket contract and SSLRequest (through the core). Must not know authentication or queries.
import { onAbort } from "../util/abort.ts";
import { socketPath } from "../config/hosts.ts";
import type { Config } from "../config/options.ts";
import type { TlsPlan } from "../config/tls.ts";
import { ConnectionError, fromFailure } from "../util/errors.ts";
import { connectionLost, type Socket, type TlsOptions } from "../runtime/contract.ts";
import type { Core } from "../wasm/boundary.ts";
import { tracedSocket } from "./traced-socket.ts";
import { runtime } from "../runtime/runtime.ts";

/** How to reach a server. */
export interface Target {
  readonly config: Config;
  /** One of the plan's attempts. */
  readonly encrypt: boolean;
  readonly verify: TlsPlan["verify"];
  /** Used instead of `config.host`: the address that the session's first socket was connected to. */
  readonly address?: string | undefined;
}

export interface Link extends Target {
  readonly socket: Socket;
  readonly encrypted: boolean;
}

/**
 * Connects, and requests TLS if the attempt demands it. If `signal` aborts first, it rejects with `signal.reason` and
 * leaves no socket open.
 */
export async function dial(target: Target, core: Core, signal: AbortSignal): Promise<Link> {
  const { config, encrypt, verify, address } = target;
  const {
    host,
    port,
    hostaddr,
    readBuffer,
    keepAlive,
    sslmode,
    servername = host,
    ca,
    cert,
    connect = runtime().connect,
  } = config;
  const direct = config.sslnegotiation === "direct";
  const tls: TlsOptions | null = encrypt
    ? {
        negotiation: direct ? "direct" : "request",
        verify,
        servername,
        ca,
        cert,
        key: config.key(),
        showCertificate: config.channelBinding === "require",
      }
    : null;
  let socket = await unlessAborted(
    connect({ host: address ?? hostaddr ?? host, port, path: socketPath(config), tls, readBuffer, keepAlive, signal }),
    signal,
    close,
  );
  try {
    let encrypted = encrypt;
    if (encrypt && !direct && !socket.isEncrypted) {
      encrypted = await unlessAborted(acceptsTls(socket, core), signal);
      if (encrypted) socket = await unlessAborted(socket.startTls(servername), signal, close);
      // With sslmode=prefer the session continues in plain text on the same socket.
      else if (sslmode !== "prefer")
        throw new ConnectionError("TLS_REFUSED", `The server does not offer TLS, which sslmode=${sslmode} needs.`, {
          stage: "tls",
          hasNoEffect: true,
        });
    }
    if (config.wrapSocket) socket = config.wrapSocket(socket);
    const { debug } = config;
    if (debug) socket = tracedSocket(socket, typeof debug === "function" ? debug : print);
    return { ...target, address: address ?? socket.address, socket, encrypted };
  } catch (error) {
    close(socket);
    throw error;
  }
}

/** Sends SSLRequest. Exactly one byte answers it. The core refuses any bytes that follow it. */
async function acceptsTls(socket: Socket, core: Core): Promise<boolean> {
  core.call((handle) => handle.request_tls());
  await socket.write(core.takeOutput());
  const chunk = await socket.read();
  const [event] = chunk ? core.takeEvents(core.receive(chunk)) : [];
  if (event?.kind === "tls") return event.accepted;
  throw event?.kind === "failure"
    ? fromFailure(event, { hasNoEffect: true, isLasting: true })
    : connectionLost("the server did not answer SSLRequest", { hasNoEffect: true }, "tls");
}

/**
 * Settles like `work`, unless the signal aborts first: on workerd a connect or a handshake may stay pending for ever. A
 * value that arrives after the abort is passed to `late`, which drops it.
 */
export function unlessAborted<T>(
  work: Promise<T>,
  signal: AbortSignal,
  late: (value: T) => void = () => {},
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const stop = onAbort(signal, () => reject(signal.reason));
    work.then((value) => (signal.aborted ? late(value) : resolve(value)), reject).finally(stop);
  });
}

function print(line: string): void {
  // eslint-disable-next-line no-console -- the user asked for it with `debug: true`
  console.debug(line);
}

function close(socket: Socket): void {
  void socket.close();
}
