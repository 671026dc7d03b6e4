// Says what to try if no connection could be made.
import { ConnectionError, PgzError } from "../../index.ts";

const ADVICE: Readonly<Record<string, string>> = {
  AUTH_CLEARTEXT_REFUSED:
    "The server asks for a clear-text password. On a network that only you can reach, pass --allow-cleartext-password.",
  SCRAM_ITERATIONS_TOO_FEW:
    "Set sslmode=verify-full; or set scram_iterations = 4096 or more in the server, and the password again.",
  CONNECT_TIMEOUT: "Nothing answers: is there a firewall, or a list of addresses that may connect?",
  TLS_REFUSED: "The server does not offer TLS: set ssl = on there, or sslmode=prefer on a network that only you reach.",
  TLS_FAILED:
    "If the certificate is the server's own, pass its CA (option ca, here --ca). On Workers the CA belongs to " +
    "Hyperdrive, or to its Workers VPC service.",
  NOT_POSTGRESQL: "Another protocol is spoken there: is the port right?",
  "28P01":
    "The password is wrong, or there is no such user; it may have to be encoded in the URL (encodeURIComponent).",
  "28000": "There is no such role, or it may not log in: create it, or give it LOGIN.",
  QUERY_TIMEOUT:
    "The server accepts the login and does not answer: is it busy, or is there a pooler whose server is gone?",
  "3D000": "There is no such database: the path of the URL names it.",
  "53300": "All connections are in use: make pools smaller, or put a pooler in front of the server.",
};

export function adviceOf(error: unknown): string[] {
  if (!(error instanceof PgzError)) return [];
  if (/pg_hba\.conf/.test(error.message)) return ["Its pg_hba.conf refuses this login: check user, database and TLS."];
  const advice = ADVICE[error.code];
  if (advice !== undefined) return [advice];
  if (error instanceof ConnectionError && error.stage === "dns") return ["The host has no address: is it misspelt?"];
  if (error instanceof ConnectionError && error.stage === "tcp")
    return ["Nothing listens there: is the server running, and are host and port right?"];
  return [];
}
