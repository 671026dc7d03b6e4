// Predicts which authentication a server will request in its login, so that the answer can be sent with StartupMessage.
// Saves one round trip.
//
// Knows which servers requested SCRAM from this isolate, and what `requireAuth` promises. Must not know messages,
// nonces or passwords. docs/decisions/0014 says what a wrong guess costs.
import type { Config } from "../config/options.ts";
import type { TlsPlan } from "../config/tls.ts";
import { BoundedMap } from "../util/bounded.ts";
import { MOST_SERVERS } from "../util/limits.ts";
import { CLEARTEXT_FIRST, SCRAM_FIRST, SCRAM_PLUS_FIRST } from "../wasm/boundary.ts";

/** By {@link serverOf}: the mechanisms that the server offered in its last login; empty if it did not request SASL. */
const offered = new BoundedMap<string, readonly string[]>(MOST_SERVERS);

const SCRAM = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"];

/** The key of logins that may be asked for different authentication: pg_hba.conf distinguishes all of these. */
export function serverOf({ host, port, database, user }: Config, encrypted: boolean): string {
  return JSON.stringify([host, port, database, user, encrypted]);
}

/** Stores what a login has shown: the mechanisms that the server offers. */
export function remember(server: string, mechanisms: readonly string[]): void {
  offered.delete(server);
  offered.set(server, mechanisms);
}

/**
 * Returns the option bits for the core's `start` that send an answer with StartupMessage; 0: wait for the server's
 * request.
 */
export function probeFor(config: Config, verify: TlsPlan["verify"], encrypted: boolean, isBindable = false): number {
  const { requireAuth } = config;
  // Without a verified certificate any server on this link would get the password, whatever it would have requested.
  if (requireAuth === "password") return encrypted && verify === "full" ? CLEARTEXT_FIRST : 0;
  // An unknown server with a certificate to bind to is taken for PostgreSQL, which offers SCRAM-SHA-256-PLUS under TLS.
  const known = offered.get(serverOf(config, encrypted)) ?? (requireAuth === "scram-sha-256" ? SCRAM : []);
  if (isBindable && known.includes("SCRAM-SHA-256-PLUS")) return SCRAM_FIRST | SCRAM_PLUS_FIRST;
  return known.includes("SCRAM-SHA-256") ? SCRAM_FIRST : 0;
}
