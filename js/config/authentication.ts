// What is allowed while logging in: the authentication methods that the server may ask for over this link, how weak they
// may be, and whether a query may leave before its answer.
//
// Knows libpq's require_auth, and when a link is safe for a password in clear. Must not know how a method works
// (the core, js/connection).

import {
  AUTH_CLEARTEXT,
  AUTH_MD5,
  AUTH_SCRAM_SHA_256,
  AUTH_TRUST,
  CLEARTEXT_WANTS_TLS,
  CLEARTEXT_WANTS_VERIFIED_TLS,
} from "../wasm/boundary.ts";
import type { Config } from "./options.ts";
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

// -- require_auth ----------------------------------------------------------------------------------------------------

/** The words of libpq's require_auth. The last three may be listed, but nothing here speaks them. */
const METHODS = new Map([
  ["none", AUTH_TRUST],
  ["password", AUTH_CLEARTEXT],
  ["md5", AUTH_MD5],
  ["scram-sha-256", AUTH_SCRAM_SHA_256],
  ["gss", 0],
  ["sspi", 0],
  ["oauth", 0],
]);
const ALL_METHODS = AUTH_TRUST | AUTH_CLEARTEXT | AUTH_MD5 | AUTH_SCRAM_SHA_256;

/** The methods that a require_auth leaves; 0 when it is malformed or leaves none. */
export function requiredMethods(list: string | undefined): number {
  if (list === undefined) return ALL_METHODS;
  const words = list.split(",").map((word) => word.trim());
  const excludes = list.trimStart().startsWith("!");
  let listed = 0;
  for (const word of words) {
    // All of them with "!" or none.
    if (word.startsWith("!") !== excludes) return 0;
    const method = METHODS.get(excludes ? word.slice(1) : word);
    if (method === undefined) return 0;
    listed |= method;
  }
  return excludes ? ALL_METHODS & ~listed : listed;
}

/** Cleartext by its name, not as one of those that are left. */
function asksForCleartext(list = ""): boolean {
  return list.split(",").some((word) => word.trim() === "password");
}
