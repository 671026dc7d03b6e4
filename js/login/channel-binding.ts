// The data that SCRAM-SHA-256-PLUS binds a login to: a hash of the server's certificate (tls-server-end-point, RFC 5929
// section 4), made by the hash function of the certificate's own signature.
//
// Knows as much of X.509 as is needed to find that function. Must not know sockets or SCRAM.
import { AuthenticationError } from "../util/errors.ts";
import type { Link } from "../connection/dial.ts";

/** The result if there is nothing to bind to. */
const NONE = new Uint8Array();

/**
 * Returns the hash to bind a login over this link to; empty if there is none, or channel binding is disabled.
 *
 * @throws AuthenticationError `AUTH_CHANNEL_BINDING_MISSING` if it is required and there is no hash
 */
export async function channelBinding({ config, encrypted, socket }: Link): Promise<Uint8Array> {
  if (config.channelBinding === "disable") return NONE;
  const certificate = encrypted ? socket.certificate : undefined;
  const hash = certificate && hashFunction(certificate);
  if (hash) return new Uint8Array(await crypto.subtle.digest(hash, new Uint8Array(certificate)));
  if (config.channelBinding === "require")
    throw missing(encrypted ? "the server's certificate has no hash for it" : "there is no TLS");
  return NONE;
}

function missing(why: string): AuthenticationError {
  return new AuthenticationError(
    "AUTH_CHANNEL_BINDING_MISSING",
    `Channel binding is required, and ${why}: set channel_binding=prefer.`,
  );
}

// -- X.509 -----------------------------------------------------------------------------------------------------------

/** Object identifiers in hexadecimal, each with its hash function. As RFC 5929 says, MD5 and SHA-1 become SHA-256. */
const HASHES: readonly (readonly [identifiers: RegExp, hash: string])[] = [
  // PKCS #1: md5, sha1, sha256; ECDSA: sha1, sha256; DSA with SHA-256.
  [/^(2a864886f70d0101(04|05|0b)|2a8648ce3d04(01|0302)|608648016503040302)$/, "SHA-256"],
  [/^(2a864886f70d01010c|2a8648ce3d040303)$/, "SHA-384"],
  [/^(2a864886f70d01010d|2a8648ce3d040304)$/, "SHA-512"],
];
const RSASSA_PSS = "2a864886f70d01010a";
/** In the parameters of RSASSA-PSS the first hash function is the signature's. Without parameters it is SHA-1. */
const PSS_HASH = /60864801650304020([123])/;

/**
 * Returns the hash function of the certificate's signature (DER); `undefined` if the signature has none, like Ed25519,
 * or uses one that WebCrypto lacks.
 *
 *   Certificate ::= SEQUENCE { tbsCertificate, SEQUENCE { algorithm OBJECT IDENTIFIER, parameters }, signature }
 */
export function hashFunction(certificate: Uint8Array): string | undefined {
  const toBeSigned = element(element(certificate)?.content);
  const algorithm = element(toBeSigned?.behind)?.content;
  const identifier = element(algorithm);
  if (!identifier) return undefined;
  const name = hex(identifier.content);
  if (name !== RSASSA_PSS) return HASHES.find(([identifiers]) => identifiers.test(name))?.[1];
  const [, used = "1"] = PSS_HASH.exec(hex(identifier.behind)) ?? [];
  return ["SHA-256", "SHA-384", "SHA-512"][Number(used) - 1];
}

/** Returns the first element of DER; `undefined` if it is cut off. */
function element(der: Uint8Array | undefined): { content: Uint8Array; behind: Uint8Array } | undefined {
  if (!der || der.length < 2) return undefined;
  let [start, length] = [2, der[1]!];
  if (length > 0x80) {
    start += length - 0x80;
    if (start > 6) return undefined;
    length = der.subarray(2, start).reduce((sum, byte) => sum * 256 + byte, 0);
  }
  const end = start + length;
  return end > der.length ? undefined : { content: der.subarray(start, end), behind: der.subarray(end) };
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
