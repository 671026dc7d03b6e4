// The test certificates, made once by docker/make-certificates.sh and kept in .cache/tls/: a CA, `server` (localhost,
// 127.0.0.1, ::1) and `elsewhere` (elsewhere.invalid, signed by the same CA: a client must refuse it). They are renewed
// ten days before they expire.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { cache, root } from "./home.mjs";

const folder = path.join(cache, "tls");

/** Returns `{ ca, server: { certificate, key }, elsewhere: { certificate, key } }`, all file names. */
export function certificates() {
  if (!stillGood()) make();
  const pair = (name) => ({ certificate: path.join(folder, `${name}.crt`), key: path.join(folder, `${name}.key`) });
  return { ca: path.join(folder, "ca.crt"), server: pair("server"), elsewhere: pair("elsewhere") };
}

function stillGood() {
  if (!existsSync(folder)) return false;
  try {
    execFileSync("openssl", ["x509", "-in", path.join(folder, "server.crt"), "-noout", "-checkend", "864000"], {
      stdio: "ignore",
    });
    return true;
  } catch {
    return false;
  }
}

function make() {
  mkdirSync(cache, { recursive: true });
  const partial = mkdtempSync(path.join(cache, "tls-"));
  execFileSync("sh", [path.join(root, "docker", "make-certificates.sh"), partial], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  rmSync(folder, { recursive: true, force: true });
  renameSync(partial, folder);
}
