// The text of the PasswordMessage that answers AuthenticationMD5Password, computed with the runtime's own MD5.
//
// Every runtime has the hash, and its answer is also a policy: Node in FIPS mode refuses MD5, and an implementation in
// wasm would bypass that. The crate `md-5` would also cost 1.6 kB (gzip) in every Worker. Without MD5 in the runtime,
// connecting fails with AUTH_METHOD_UNSUPPORTED, which advises a new password; in `pgz-edge/slim` it needs the `md5` of
// `installRuntime`. SCRAM's hashes are in the core, which needs them within one step.
//
// Knows one formula (manual, "Protocol Flow"). Must not know whether MD5 is allowed: the core asks only where it is.
import { AuthenticationError } from "../util/errors.ts";
import { encoder, hex, type OwnBytes } from "../util/bytes.ts";
import { runtime } from "../runtime/runtime.ts";

/** `"md5" + hex(md5(hex(md5(password + user)) + salt))`; `salt` is the four bytes as one big-endian number. */
export async function md5Password(user: string, password: string, salt: number): Promise<Uint8Array> {
  const salted = new Uint8Array(36);
  salted.set(encoder.encode(await digest(encoder.encode(password + user))));
  new DataView(salted.buffer).setUint32(32, salt);
  return encoder.encode(`md5${await digest(salted)}`);
}

async function digest(bytes: OwnBytes): Promise<string> {
  try {
    return hex(await runtime().md5!(bytes));
  } catch (cause) {
    const message =
      "The server asks for MD5, which this runtime lacks: " +
      "set the password again with password_encryption = scram-sha-256, or give installRuntime() an `md5`.";
    throw new AuthenticationError("AUTH_METHOD_UNSUPPORTED", message, { cause });
  }
}
