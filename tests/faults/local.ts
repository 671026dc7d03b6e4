// Where the CA of the scripted servers' certificate is: tests/servers/certificates.mjs has made it when the fault host
// started.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const caFile = fileURLToPath(new URL("../../.cache/tls/ca.crt", import.meta.url));

export function certificateAuthority(): string {
  return readFileSync(caFile, "utf8");
}
