// SCRAM's SaltedPassword, derived with WebCrypto, and a small cache of the results: a reconnect then costs a few HMACs.
//
// PBKDF2 in wasm takes 7-13 ms cold, and a free Worker has 10 ms of CPU in all. One deriveBits call takes about 1 ms.
// Knows: PBKDF2's arguments. Must not know: SCRAM messages, sockets. The cached keys never leave the isolate.

import { ConnectionError } from "../util/errors.ts";
import { MOST_PASSWORDS } from "../util/limits.ts";
import { characters, encoder } from "../util/bytes.ts";

// Caches results, not promises: on Workers a promise belongs to the request that made it, and another request would
// wait for it for ever.
const cache = new Map<string, Uint8Array>();

/**
 * Returns SaltedPassword (32 bytes). WebCrypto may refuse (workerd: more than 100,000 iterations; old runtimes: an
 * empty password), so the caller calls this only where WebCrypto will accept the input.
 *
 * `password` has gone through {@link saslprep}; `salt` is base64 as the server sent it.
 */
export async function saltedPassword(password: string, salt: string, iterations: number): Promise<Uint8Array> {
  const key = JSON.stringify([iterations, salt, password]);
  const known = cache.get(key);
  if (known) return known;
  try {
    const secret = await crypto.subtle.importKey("raw", encoder.encode(password), "PBKDF2", false, ["deriveBits"]);
    const derived = new Uint8Array(
      await crypto.subtle.deriveBits(
        { name: "PBKDF2", hash: "SHA-256", salt: characters(atob(salt)), iterations },
        secret,
        256,
      ),
    );
    cache.set(key, derived);
    if (cache.size > MOST_PASSWORDS) cache.delete(cache.keys().next().value!);
    return derived;
  } catch (cause) {
    throw new ConnectionError("CONNECT_FAILED", "WebCrypto could not derive the SCRAM key.", {
      stage: "auth",
      hasNoEffect: true,
      cause,
    });
  }
}
