// SCRAM's SaltedPassword through WebCrypto, and a small cache of them: a reconnect then costs a few HMACs.
//
// PBKDF2 in wasm takes 7-13 ms cold, where 10 ms is the whole CPU budget of a free Worker; one deriveBits call takes about 1 ms.
// Knows: PBKDF2's arguments. Must not know: SCRAM messages, sockets. What it keeps never leaves the isolate.

/** Enough for every role an isolate plays; the oldest goes first. */
const LIMIT = 64;

// Results, not promises: on Workers a promise belongs to the request that made it, and another one would wait for it for ever.
const cache = new Map<string, Uint8Array>();

/**
 * SaltedPassword (32 bytes), or `undefined` where WebCrypto refuses (workerd: more than 100,000 iterations; old runtimes: an
 * empty password): connecting then fails, so the caller asks only where WebCrypto will do. Never rejects.
 *
 * `password` has gone through {@link saslprep}; `salt` is base64 as the server sent it.
 */
export async function saltedPassword(password: string, salt: string, iterations: number): Promise<Uint8Array | undefined> {
  const key = JSON.stringify([iterations, salt, password]);
  const known = cache.get(key);
  if (known) return known;
  try {
    const secret = await crypto.subtle.importKey("raw", new TextEncoder().encode(password), "PBKDF2", false, ["deriveBits"]);
    const saltBytes = Uint8Array.from(atob(salt), (character) => character.charCodeAt(0));
    const bits = await crypto.subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt: saltBytes, iterations }, secret, 256);
    const derived = new Uint8Array(bits);
    cache.set(key, derived);
    if (cache.size > LIMIT) cache.delete(cache.keys().next().value!);
    return derived;
  } catch {
    return undefined;
  }
}
