// The path of the CA of the scripted servers' certificate, which tests/servers/certificates.mjs made when the fault
// host started.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const caFile = fileURLToPath(new URL("../../.cache/tls/ca.crt", import.meta.url));

export function certificateAuthority(): string {
  return readFileSync(caFile, "utf8");
}
