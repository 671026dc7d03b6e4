// libpq's require_auth: the authentication methods that a list of words allows.
//
// Knows the words. Must not know links, or which method a server asks for.

import { AUTH_CLEARTEXT, AUTH_MD5, AUTH_SCRAM_SHA_256, AUTH_TRUST } from "../wasm/boundary.ts";

/** The last three may be listed, but the driver does not support them. */
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

/** The methods that a require_auth allows; 0 if it is malformed or allows none. */
export function requiredMethods(list: string | undefined): number {
  if (list === undefined) return ALL_METHODS;
  const words = list.split(",").map((word) => word.trim());
  const excludes = list.trimStart().startsWith("!");
  let listed = 0;
  for (const word of words) {
    // Either all words have "!", or none.
    if (word.startsWith("!") !== excludes) return 0;
    const method = METHODS.get(excludes ? word.slice(1) : word);
    if (method === undefined) return 0;
    listed |= method;
  }
  return excludes ? ALL_METHODS & ~listed : listed;
}

/** Whether the list allows cleartext by its name, not only by excluding other methods. */
export function asksForCleartext(list = ""): boolean {
  return list.split(",").some((word) => word.trim() === "password");
}
