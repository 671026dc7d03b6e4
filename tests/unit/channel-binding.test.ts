// The hash that channel binding sends: for certificates with each kind of signature, as OpenSSL makes them.
import { execFileSync } from "node:child_process";
import { createHash, X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { expect, test } from "vitest";
import { channelBinding, hashFunction } from "../../js/login/channel-binding.ts";
import { of } from "./config-input.ts";

const folder = mkdtempSync(join(process.env["PGZ_TEST_RUN_FOLDER"]!, "certificates-"));

function certificate(...options: string[]): Uint8Array {
  const file = join(folder, "one.crt");
  execFileSync(
    "openssl",
    ["req", "-x509", "-nodes", "-subj", "/CN=x", "-keyout", join(folder, "key"), "-out", file, ...options],
    { stdio: "ignore" },
  );
  return new X509Certificate(readFileSync(file)).raw;
}

const EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
const PSS = [...["-newkey", "rsa:2048", "-sigopt", "rsa_padding_mode:pss"], ...["-sigopt", "rsa_pss_saltlen:-1"]];

test.each<[string, string[], string | undefined]>([
  ["RSA with SHA-1", ["-newkey", "rsa:2048", "-sha1"], "SHA-256"],
  ["RSA with SHA-256", ["-newkey", "rsa:2048", "-sha256"], "SHA-256"],
  ["RSA with SHA-384", ["-newkey", "rsa:2048", "-sha384"], "SHA-384"],
  ["RSA with SHA-512", ["-newkey", "rsa:2048", "-sha512"], "SHA-512"],
  ["RSASSA-PSS with SHA-256", [...PSS, "-sha256"], "SHA-256"],
  ["RSASSA-PSS with SHA-384", [...PSS, "-sha384"], "SHA-384"],
  ["ECDSA with SHA-1", [...EC, "-sha1"], "SHA-256"],
  ["ECDSA with SHA-256", [...EC, "-sha256"], "SHA-256"],
  ["ECDSA with SHA-384", [...EC, "-sha384"], "SHA-384"],
  ["ECDSA with SHA-512", [...EC, "-sha512"], "SHA-512"],
  ["RSA with SHA-224, which WebCrypto lacks", ["-newkey", "rsa:2048", "-sha224"], undefined],
  ["Ed25519", ["-newkey", "ed25519"], undefined],
])("%s", async (_, options, hash) => {
  const raw = certificate(...options);
  expect(hashFunction(raw)).toBe(hash);
  const link = (more: object, encrypted = true) =>
    channelBinding({ config: of({ user: "u", ...more }), encrypted, socket: { certificate: raw } } as never);
  const expected = hash ? createHash(hash.replace("-", "")).update(raw).digest() : Buffer.alloc(0);
  expect(Buffer.from(await link({}))).toEqual(expected);
  expect(await link({ channelBinding: "disable" })).toHaveLength(0);
  expect(await link({}, false)).toHaveLength(0);
  const refused = { code: "AUTH_CHANNEL_BINDING_MISSING", message: expect.stringMatching(/channel_binding=prefer\.$/) };
  const required = link({ channelBinding: "require" });
  if (hash) expect(Buffer.from(await required)).toEqual(expected);
  else await expect(required).rejects.toMatchObject(refused);
  await expect(link({ channelBinding: "require" }, false)).rejects.toMatchObject(refused);
});

test("bytes that are no certificate have no hash", () => {
  const raw = certificate(...EC);
  for (let length = 0; length < raw.length - 80; length++)
    expect(hashFunction(raw.subarray(0, length))).toBeUndefined();
  for (const bytes of [
    [0x30, 0x80],
    [0x30, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [0x30, 0x03, 0x30, 0x01, 0x00],
  ])
    expect(hashFunction(Uint8Array.from(bytes))).toBeUndefined();
});
