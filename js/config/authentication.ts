// Decides what a login allows: which authentication methods the server may ask for over this link, how weak they may
// be, and whether a query may be sent before the server's answer.
//
// Knows when a link is safe for a cleartext password. Must not know how a method works (the core, js/connection).

import { AUTH_CLEARTEXT, CLEARTEXT_WANTS_TLS, CLEARTEXT_WANTS_VERIFIED_TLS } from "../wasm/boundary.ts";
import type { Config } from "./options.ts";
import { asksForCleartext, requiredMethods } from "./require-auth.ts";
import type { TlsPlan } from "./tls.ts";

/**
 * Returns the core's flags for authentication over this link: the methods that the server may ask for, and the reason
 * if cleartext is not among them.
 */
export function allowedMethods(config: Config, verify: TlsPlan["verify"], encrypted: boolean): number {
  const methods = requiredMethods(config.requireAuth);
  if (!(methods & AUTH_CLEARTEXT)) return methods;
  const refusal = cleartextRefusal(config, verify, encrypted);
  return refusal === undefined ? methods : (methods & ~AUTH_CLEARTEXT) | refusal;
}

/**
 * What this link lacks for a cleartext password; `undefined` if nothing. Without it, a third party that reads the link
 * or answers on it would get the password.
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
 * The minimum number of SCRAM iterations over this link. Any number is accepted if a certificate proves who answers, or
 * if the link never leaves the machine. On other links an impostor could try passwords on our proof.
 */
export function fewestIterations(config: Config, verify: TlsPlan["verify"], encrypted: boolean): number {
  const isVerified = config.localLink || (encrypted && verify !== "none");
  return isVerified ? 1 : config.scramMinIterations;
}

/**
 * `auto` sends the first query early only to a server that is known already: over a fully verified TLS link, or over a
 * local link.
 */
export function allowsEarlyQuery(config: Config, verify: TlsPlan["verify"], encrypted: boolean): boolean {
  if (config.earlyQuery !== "auto") return config.earlyQuery;
  return config.localLink || (encrypted && verify === "full");
}
