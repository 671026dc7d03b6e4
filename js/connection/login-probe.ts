// What a server will ask for in its login, so that the answer can leave with StartupMessage: a round trip less.
//
// Knows which servers asked this isolate for SCRAM, and what `requireAuth` promises. Must not know messages, nonces or
// passwords. docs/decisions/0014 says what a wrong guess costs.
import type { Config } from "../config/options.ts";
import type { TlsPlan } from "../config/tls.ts";
import { MOST_SERVERS } from "../util/limits.ts";
import { CLEARTEXT_FIRST, SCRAM_FIRST, SCRAM_PLUS_FIRST } from "../wasm/boundary.ts";

/** By {@link serverOf}: the mechanisms that the server offered in its last login; none if it did not ask for SASL. */
const offered = new Map<string, readonly string[]>();

const SCRAM = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"];

/** Who may be asked for something else: pg_hba.conf distinguishes all of these. */
export function serverOf({ host, port, database, user }: Config, encrypted: boolean): string {
  return JSON.stringify([host, port, database, user, encrypted]);
}

/** A login has shown what the server asks for. */
export function remember(server: string, mechanisms: readonly string[]): void {
  offered.delete(server);
  if (offered.size >= MOST_SERVERS) offered.clear();
  offered.set(server, mechanisms);
}

/** The bit of the core's login that sends an answer ahead; 0: wait for the question. */
export function probeFor(config: Config, verify: TlsPlan["verify"], encrypted: boolean, isBindable = false): number {
  const { requireAuth } = config;
  // Whoever answers this link without a certificate would have the password, whatever it would have asked for.
  if (requireAuth === "password") return encrypted && verify === "full" ? CLEARTEXT_FIRST : 0;
  // With a certificate to bind to, whoever is not known is taken for PostgreSQL, which offers it under TLS.
  const known = offered.get(serverOf(config, encrypted)) ?? (requireAuth === "scram-sha-256" ? SCRAM : []);
  if (isBindable && known.includes("SCRAM-SHA-256-PLUS")) return SCRAM_FIRST | SCRAM_PLUS_FIRST;
  return known.includes("SCRAM-SHA-256") ? SCRAM_FIRST : 0;
}
