// What is allowed while logging in: the authentication methods that the server may ask for over this link, how weak they
// may be, and whether a query may leave before its answer.
//
// Knows when a link is safe for a password in clear. Must not know how a method works
// (the core, js/connection).

import { AUTH_CLEARTEXT, CLEARTEXT_WANTS_TLS, CLEARTEXT_WANTS_VERIFIED_TLS } from "../wasm/boundary.ts";
import type { Config } from "./options.ts";
import { asksForCleartext, requiredMethods } from "./require-auth.ts";
import type { TlsPlan } from "./tls.ts";

/**
 * What the core is told of authentication over this link: the methods that the server may ask for, and why cleartext is
 * not one.
 */
export function allowedMethods(config: Config, verify: TlsPlan["verify"], encrypted: boolean): number {
  const methods = requiredMethods(config.requireAuth);
  if (!(methods & AUTH_CLEARTEXT)) return methods;
  const refusal = cleartextRefusal(config, verify, encrypted);
  return refusal === undefined ? methods : (methods & ~AUTH_CLEARTEXT) | refusal;
}

/**
 * What this link lacks for a password in clear; `undefined`: nothing. Whoever reads the link, or answers it, would have
 * the password.
 */
function cleartextRefusal(
  { localLink, allowCleartextPassword, requireAuth }: Config,
  verify: TlsPlan["verify"],
  encrypted: boolean,
): number | undefined {
  if (localLink || allowCleartextPassword) return undefined;
  if (!encrypted) return CLEARTEXT_WANTS_TLS;
  if (verify !== "none" || asksForCleartext(requireAuth)) return undefined;
  return CLEARTEXT_WANTS_VERIFIED_TLS;
}

/**
 * The fewest SCRAM iterations that are accepted over this link: any number where a certificate says who answers, or where
 * the link never leaves the machine. Elsewhere whoever answers could try passwords on our proof.
 */
export function fewestIterations(config: Config, verify: TlsPlan["verify"], encrypted: boolean): number {
  const isVerified = config.localLink || (encrypted && verify !== "none");
  return isVerified ? 1 : config.scramMinIterations;
}

/**
 * `auto` sends the first query early only to a server that is already known: by a fully verified TLS link, or by a
 * local one.
 */
export function allowsEarlyQuery(config: Config, verify: TlsPlan["verify"], encrypted: boolean): boolean {
  if (config.earlyQuery !== "auto") return config.earlyQuery;
  return config.localLink || (encrypted && verify === "full");
}
