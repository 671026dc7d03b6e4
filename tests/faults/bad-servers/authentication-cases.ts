// The errors that the driver must report for the bad servers of authentication.mjs.
import { atConnect, fine, noPassword, noProof, onlyNonce, unexpected, type BadServerCase } from "./case.ts";

export const authenticationCases: BadServerCase[] = [
  // Uncaught in pg
  atConnect("request 99", "AUTH_METHOD_UNSUPPORTED", { name: "AuthenticationError", differs: "sockets" }),
  atConnect("empty request", /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/),
  atConnect("request cut short", /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/),
  atConnect("KerberosV5", "AUTH_METHOD_UNSUPPORTED"),
  atConnect("GSS", "AUTH_METHOD_UNSUPPORTED"),
  atConnect("SSPI", "AUTH_METHOD_UNSUPPORTED"),
  atConnect("cleartext", "AUTH_CLEARTEXT_REFUSED", { check: noPassword }), // sent by pg, postgres.js, psql and pgx
  fine("cleartext", { with: "TLS", tls: true }),
  fine("cleartext", { with: "allowCleartextPassword", options: { allowCleartextPassword: true } }),
  atConnect("cleartext", "AUTH_METHOD_REFUSED", {
    with: "TLS, requireAuth",
    tls: true,
    options: { requireAuth: "scram-sha-256", allowCleartextPassword: true },
    check: onlyNonce,
  }),
  atConnect("cleartext after the SCRAM challenge", unexpected, {
    options: { allowCleartextPassword: true },
    check: ({ steps }, { received }) =>
      received.includes("correct horse") && `the password went out: ${steps["connect"]?.code}`,
  }),
  fine("MD5", { differs: "crypto" }),
  atConnect("MD5", "AUTH_METHOD_REFUSED", {
    with: "requireAuth",
    options: { requireAuth: "scram-sha-256" },
    check: onlyNonce,
  }),
  atConnect("MD5 without a salt", /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/, { check: noPassword }),
  fine("trust"),
  atConnect("trust", "AUTH_METHOD_REFUSED", { with: "requireAuth", options: { requireAuth: "scram-sha-256" } }),
  atConnect("no known mechanism", "AUTH_METHOD_UNSUPPORTED"),
  atConnect("only SCRAM-SHA-256-PLUS", "AUTH_METHOD_UNSUPPORTED"),
  atConnect("no mechanism", "AUTH_METHOD_UNSUPPORTED"),
  atConnect("mechanism list without end", /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/, {
    options: { connectTimeout: 300 },
  }),
  fine("PLUS offered in plain"),
  // pg, postgres.js and libpq accept this: a server that never proves that it knows the password (CVE-2026-6478).
  atConnect("AuthenticationOk after SASLInitialResponse", "SCRAM_SERVER_SIGNATURE_MISMATCH", { check: noProof }),
  atConnect("AuthenticationOk without SASLFinal", "SCRAM_SERVER_SIGNATURE_MISMATCH"),
  atConnect("SASLFinal after SASLInitialResponse", unexpected, { check: noProof }),
  atConnect("SASLContinue twice", unexpected),
  atConnect("ReadyForQuery without authentication", /^(UNEXPECTED_MESSAGE|NOT_POSTGRESQL)$/),
  atConnect("DataRow without authentication", /^(UNEXPECTED_MESSAGE|NOT_POSTGRESQL)$/),
  atConnect("SCRAM server signature wrong", "SCRAM_SERVER_SIGNATURE_MISMATCH", {
    name: "AuthenticationError",
    differs: "crypto",
  }),
  atConnect("SCRAM server signature short", /^SCRAM_(SERVER_SIGNATURE_MISMATCH|MALFORMED)$/),
  atConnect("SCRAM server signature empty", /^SCRAM_(SERVER_SIGNATURE_MISMATCH|MALFORMED)$/),
  atConnect("SCRAM server signature missing", "SCRAM_MALFORMED"),
  atConnect("SCRAM server signature no base64", /^SCRAM_(SERVER_SIGNATURE_MISMATCH|MALFORMED)$/),
  atConnect("SCRAM server error", "SCRAM_SERVER_ERROR"),
  atConnect("SCRAM nonce foreign", "SCRAM_NONCE_MISMATCH", { check: noProof }), // not checked by postgres.js, CVE-2026-6665
  atConnect("SCRAM nonce cut", "SCRAM_NONCE_MISMATCH", { check: noProof }),
  atConnect("SCRAM nonce not continued", "SCRAM_NONCE_MISMATCH", { check: noProof }),
  atConnect("SCRAM nonce missing", "SCRAM_MALFORMED", { check: noProof }),
  atConnect("SCRAM nonce of 100 kB", /^(SCRAM_MALFORMED|PROTOCOL_VIOLATION)$/, { check: noProof }),
  atConnect("SCRAM salt missing", "SCRAM_MALFORMED", { check: noProof }),
  atConnect("SCRAM salt empty", "SCRAM_MALFORMED", { check: noProof }),
  atConnect("SCRAM salt no base64", "SCRAM_MALFORMED", { check: noProof }),
  atConnect("SCRAM iterations missing", "SCRAM_MALFORMED", { check: noProof }),
  atConnect("SCRAM iterations 0", "SCRAM_ITERATIONS_OUT_OF_RANGE", { check: noProof }),
  atConnect("SCRAM iterations -1", /^SCRAM_(ITERATIONS_OUT_OF_RANGE|MALFORMED)$/, { check: noProof }),
  // CVE-2026-42198, RUSTSEC-2026-0179
  atConnect("SCRAM iterations 2e9", "SCRAM_ITERATIONS_OUT_OF_RANGE", { check: noProof, differs: "crypto" }),
  atConnect("SCRAM iterations 1e30", "SCRAM_ITERATIONS_OUT_OF_RANGE", { check: noProof }),
  atConnect("SCRAM iterations 100001", "SCRAM_ITERATIONS_OUT_OF_RANGE", { check: noProof }),
  // libpq accepts this. The server then has a proof with which it can try passwords fast.
  fine("SCRAM iterations 4095", { with: "scramMinIterations", options: { scramMinIterations: 4095 } }),
  atConnect("SCRAM iterations 4095", "SCRAM_ITERATIONS_TOO_FEW", { with: "a key that is known", check: noProof }),
  atConnect("SCRAM iterations 4095", "SCRAM_ITERATIONS_TOO_FEW", {
    with: "the core derives",
    options: { scramMaxIterations: 200_000 },
    check: noProof,
  }),
  fine("SCRAM iterations 4095", { with: "verified TLS", tls: true }),
  atConnect("SCRAM iterations a word", "SCRAM_MALFORMED", { check: noProof }),
  atConnect("SCRAM mandatory extension", "SCRAM_MANDATORY_EXTENSION", { check: noProof }),
  fine("SCRAM optional extension"),
];
