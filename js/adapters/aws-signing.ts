// Presigns URLs by AWS's Signature Version 4: the signature is a parameter of the query. A token of RDS or DSQL is such
// a URL without its scheme. The hashes are WebCrypto's.
//
//   canonical request ──hash──> string to sign ──HMAC with a key of the day, region and service──> X-Amz-Signature
//
// Knows the algorithm (AWS's "Create a signed AWS API request"). Must not know where credentials come from, or which
// services there are.
import type { AwsCredentials } from "./aws-credentials.ts";

/** A GET request without a body, with the header `host` alone. */
export interface Signable {
  readonly service: string;
  readonly region: string;
  /** The host, with its port where the service signs the port too. */
  readonly host: string;
  readonly query: Readonly<Record<string, string>>;
}

/** Seconds for which a token is valid. */
const VALID_SECONDS = 900;
/** SHA-256 of an empty body. */
const NO_BODY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ALGORITHM = "AWS4-HMAC-SHA256";

/** Returns the signed URL without `https://`. */
export async function presigned(
  { service, region, host, query }: Signable,
  { accessKeyId, secretAccessKey, sessionToken }: AwsCredentials,
  date: Date,
): Promise<string> {
  const time = date.toISOString().replace(/[-:]|\.\d+/g, "");
  const day = time.slice(0, 8);
  const scope = `${day}/${region}/${service}/aws4_request`;
  const parameters = {
    ...query,
    "X-Amz-Algorithm": ALGORITHM,
    "X-Amz-Credential": `${accessKeyId}/${scope}`,
    "X-Amz-Date": time,
    "X-Amz-Expires": String(VALID_SECONDS),
    ...(sessionToken !== undefined && { "X-Amz-Security-Token": sessionToken }),
    "X-Amz-SignedHeaders": "host",
  };
  const canonicalRequest = ["GET", "/", queryOf(parameters), `host:${host}`, "", "host", NO_BODY].join("\n");
  const stringToSign = [ALGORITHM, time, scope, hex(await sha256(canonicalRequest))].join("\n");
  let key: Bytes = utf8(`AWS4${secretAccessKey}`);
  for (const part of [day, region, service, "aws4_request"]) key = await hmac(key, part);
  const signature = hex(await hmac(key, stringToSign));
  return `${host}/?${queryOf({ ...parameters, "X-Amz-Signature": signature })}`;
}

/** Returns the query sorted by name, as the signature requires. */
function queryOf(parameters: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(parameters).map(([name, value]) => `${escaped(name)}=${escaped(value)}`);
  return pairs.sort().join("&");
}

/** Escapes by RFC 3986, which also escapes five characters that encodeURIComponent leaves. */
function escaped(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
}

// -- hashes -----------------------------------------------------------------------------------------------------------

type Bytes = Uint8Array<ArrayBuffer>;

const utf8 = (text: string): Bytes => new TextEncoder().encode(text);
const hex = (bytes: Bytes): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

async function sha256(text: string): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(text)));
}

async function hmac(key: Bytes, text: string): Promise<Bytes> {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, utf8(text)));
}
