// Predicts which authentication a server will request in its login, so that the answer can be sent with StartupMessage.
// Saves one round trip.
//
// Knows which servers requested SCRAM from this isolate, and what `requireAuth` promises. Must not know messages,
// nonces or passwords. docs/decisions/0014 says what a wrong guess costs.
import type { Config } from "../config/options.ts";
import type { TlsPlan } from "../config/tls.ts";
import type { KnownServer } from "../server/known-server.ts";
import { CLEARTEXT_FIRST, SCRAM_FIRST, SCRAM_PLUS_FIRST } from "../wasm/boundary.ts";

const SCRAM = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"];

/**
 * Stores what a login has shown: the mechanisms that the server offers. pg_hba.conf distinguishes whether the link is
 * encrypted.
 */
export function remember({ offered }: KnownServer, encrypted: boolean, mechanisms: readonly string[]): void {
  offered[encrypted ? "encrypted" : "plain"] = mechanisms;
}

/**
 * Returns the option bits for the core's `start` that send an answer with StartupMessage; 0: wait for the server's
 * request.
 */
export function probeFor(
  { offered }: KnownServer,
  { requireAuth }: Pick<Config, "requireAuth">,
  verify: TlsPlan["verify"],
  encrypted: boolean,
  isBindable = false,
): number {
  // Without a verified certificate any server on this link would get the password, whatever it would have requested.
  if (requireAuth === "password") return encrypted && verify === "full" ? CLEARTEXT_FIRST : 0;
  // An unknown server with a certificate to bind to is taken for PostgreSQL, which offers SCRAM-SHA-256-PLUS under TLS.
  const known = (encrypted ? offered.encrypted : offered.plain) ?? (requireAuth === "scram-sha-256" ? SCRAM : []);
  if (isBindable && known.includes("SCRAM-SHA-256-PLUS")) return SCRAM_FIRST | SCRAM_PLUS_FIRST;
  return known.includes("SCRAM-SHA-256") ? SCRAM_FIRST : 0;
}
