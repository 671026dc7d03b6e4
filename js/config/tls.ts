// Decides how TLS is tried: the meaning of an sslmode for what a runtime can do.
//
// Knows sslmode as libpq does, and what each runtime's sockets can do about certificates. Must not know sockets
// themselves, or the core.

import type { Capabilities, Runtime } from "../runtime/runtime.ts";
import { PgzError, UsageError } from "../util/errors.ts";
import { isUnixSocket } from "./hosts.ts";
import type { Config } from "./options.ts";

export interface TlsPlan {
  /**
   * For each attempt in order, whether it asks for TLS. {@link deservesNextAttempt} says when the next attempt is made,
   * on a new socket.
   */
  readonly attempts: readonly boolean[];
  /** `ca`: the chain is verified; `full`: the chain and the name. */
  readonly verify: "none" | "ca" | "full";
}

/**
 * Returns how TLS is tried under this sslmode on this runtime. If a runtime cannot do what was asked, the plan is
 * stricter, or there is an error; it is never weaker.
 *
 * A runtime that always verifies makes `verify: "full"` of every mode. Then `prefer` does not fall back to plain text
 * after a failed handshake: libpq would have an encrypted link there.
 *
 * @throws UsageError `UNSUPPORTED_ON_RUNTIME`, before anything is sent
 */
export function tlsPlan(
  config: Config,
  { name, capabilities: can = {} }: Pick<Runtime, "name" | "capabilities">,
): TlsPlan {
  const { sslmode, ca, cert, host, hostaddr = host, servername = host } = config;
  const isBound = config.channelBinding === "require";
  if (isBound) checkBinding(config, name, can);
  // As in libpq, a Unix socket is plain in every mode.
  if (sslmode === "disable" || isUnixSocket(host)) return { attempts: [false], verify: "none" };

  const unsupported = {
    ca: ca && !can.canUseCustomCa,
    cert: cert && !can.canClientCertificate,
    sslnegotiation: config.sslnegotiation === "direct" && !can.canAlpn,
    // A runtime that takes certificates to trust also takes their name. On others the name is the address.
    servername: servername !== hostaddr && !can.canUseCustomCa,
  };
  for (const [option, refused] of Object.entries(unsupported)) {
    if (refused) throw new UsageError("UNSUPPORTED_ON_RUNTIME", `${name} does not support option "${option}".`);
  }

  const attempts = isBound
    ? [true]
    : sslmode === "allow"
      ? [false, true]
      : sslmode === "prefer" && can.canSkipVerification
        ? [true, false]
        : [true];
  // As in libpq: with certificates to trust, the chain is checked in the weak modes too.
  const verify =
    sslmode === "verify-full" || !can.canSkipVerification ? "full" : sslmode === "verify-ca" || ca ? "ca" : "none";
  return { attempts, verify };
}

/**
 * Returns the error. A failed handshake's error also says what to do, if no `ca` was given, or if the runtime checks
 * more than `sslmode` says.
 */
export function explained<E>(
  error: E,
  { sslmode, ca }: Pick<Config, "sslmode" | "ca">,
  { name, capabilities: can = {} }: Pick<Runtime, "name" | "capabilities">,
): E {
  if (!(error instanceof PgzError) || error.code !== "TLS_FAILED") return error;
  if (can.canUseCustomCa && !ca && sslmode.startsWith("verify-") && isOfUnknownCa(error.cause))
    error.message +=
      " A certificate of a CA of your own, or one that signed itself (Debian's default is " +
      "/etc/ssl/certs/ssl-cert-snakeoil.pem), is trusted when you pass it as option ca.";
  if (can.canSkipVerification || sslmode === "verify-full") return error;
  const trusted = can.canUseCustomCa ? "pass its CA as option ca" : "give the server a certificate of a public CA";
  const workers = name === "workerd" ? "connect through Hyperdrive, " : "";
  error.message +=
    ` ${name} checks the server's certificate and name with sslmode=${sslmode} too: ` +
    `${trusted}, ${workers}or set sslmode=disable where the link is private.`;
  return error;
}

/** Words in the errors of Node and Bun, and of Deno. */
const UNKNOWN_CA = /SELF_SIGNED|UNABLE_TO_(VERIFY|GET_ISSUER)|UnknownIssuer|CaUsedAsEndEntity/;

function isOfUnknownCa(cause: unknown): boolean {
  const { code, message } = Object(cause) as { code?: unknown; message?: unknown };
  return UNKNOWN_CA.test(`${String(code)} ${String(message)}`);
}

/** Throws if a login cannot be bound: without TLS, or without the server's certificate. */
function checkBinding({ sslmode, host }: Config, name: string, can: Capabilities): void {
  const missing =
    sslmode === "disable" || isUnixSocket(host)
      ? "without TLS: use sslmode=require, or"
      : can.canShowCertificate
        ? undefined
        : `on ${name}, whose sockets do not show the server's certificate:`;
  if (missing === undefined) return;
  throw new UsageError(
    "CHANNEL_BINDING_UNSUPPORTED",
    `Option "channelBinding" cannot be "require" ${missing} set channel_binding=prefer.`,
  );
}

/**
 * Whether the next attempt may help after this failure: the TLS handshake failed, the server answered SSLRequest with
 * an error, or it has no pg_hba.conf line for this kind of link (28000; poolers say 08P01). A wrong password, a full
 * server or a dead network is no such failure.
 */
export function deservesNextAttempt(error: unknown): boolean {
  return error instanceof PgzError && /^(TLS_(FAILED|REFUSED)|28000|08P01)$/.test(error.code);
}
