// What the driver must make of each bad server of scenarios.mjs: the code of its error, and where it shows.
//
// A violation is rejected at once, in less than 100 ms, never by a timer; only a server that is silent runs into
// connectTimeout. The list of scenarios comes from reliability work on four drivers (none of which passed all); a
// comment names the hole where there is one.
import type { ConnectionReport } from "./control.ts";
import type { Outcome } from "./jobs.ts";

export interface BadServerCase {
  scenario: string;
  /** What is different, where a scenario has several rows. */
  with?: string;
  /** "" when the driver must cope. */
  code: string | RegExp;
  /** The class of the error. */
  name?: string;
  at: "connect" | "query" | "stream" | "anywhere" | "nowhere";
  options?: Record<string, unknown>;
  tls?: boolean;
  idle?: number;
  by?: "query" | "stream";
  /** What a second statement on the same client gives; unset: not tried. */
  again?: string;
  /** Milliseconds to the failure. Default 100. */
  within?: number;
  /** Runtimes that cannot close the socket, with the reason; everywhere else one that stays open is a failure. */
  staysOpenOn?: Record<string, string>;
  check?: (outcome: Outcome, first: ConnectionReport, label: string) => string | undefined | false;
}

type Extra = Omit<BadServerCase, "scenario" | "code" | "at">;

const atConnect = (scenario: string, code: string | RegExp, extra: Extra = {}): BadServerCase => ({
  scenario,
  code,
  at: "connect",
  ...extra,
});
const inQuery = (scenario: string, code: string | RegExp, extra: Extra = {}): BadServerCase => ({
  scenario,
  code,
  at: extra.by ?? "query",
  ...extra,
});
const fine = (scenario: string, extra: Extra = {}): BadServerCase => ({
  scenario,
  code: "",
  at: "nowhere",
  again: "",
  ...extra,
});

const silent = { options: { connectTimeout: 300 }, within: 1000, name: "TimeoutError" };
const noPassword = (_outcome: Outcome, { passwords }: ConnectionReport) =>
  passwords.length > 0 && `the server got ${JSON.stringify(passwords)}`;
/** A guess that SCRAM will be asked for says a nonce and nothing of the password. */
const onlyNonce = (_outcome: Outcome, { passwords }: ConnectionReport) =>
  !/^(SCRAM-SHA-256\0[^]{4}n,,n=,r=[\w+/=]+)?$/.test(passwords.join()) && `the server got ${JSON.stringify(passwords)}`;
const noProof = (_outcome: Outcome, { passwords }: ConnectionReport) =>
  passwords.length > 1 && `the server got ${JSON.stringify(passwords)}`;
const rejected = "CONNECTION_LOST";
const nonsense = "NOT_POSTGRESQL";
const protocol = "PROTOCOL_VIOLATION";
const unexpected = "UNEXPECTED_MESSAGE";
const lost = { again: rejected };

/**
 * The session ends while nothing is asked. The client notices at once, and sends nothing of the next call; but in
 * workerd, where an idle socket is not read, the next call notices, and its bytes have left by then. `code`: why the
 * session ended.
 */
const whileIdle = (scenario: string, code: string): BadServerCase =>
  inQuery(scenario, new RegExp(`^(${code}|${rejected})$`), {
    ...lost,
    idle: 100,
    check({ state, steps: { query } }, _report, label) {
      const noticed = !label.startsWith("workerd");
      if (state !== (noticed ? "closed" : "idle")) return `the client says ${state}`;
      if (noticed && query?.code !== rejected) return `the call failed with ${query?.code}`;
      if (query?.retryable !== noticed) return `retryable is ${query?.retryable}`;
      return noticed && !query.text.includes(`code=${code}`) && `the error does not say why: ${query.text}`;
    },
  });

export const badServerCases: BadServerCase[] = [
  // tests/integration/cases/types.ts looks at times
  fine("integer_datetimes off"),
  fine("integer_datetimes not reported"),

  fine("ok"),
  fine("ok", { with: "TLS", tls: true }),
  atConnect("ok", "28P01", { with: "wrong password", options: { password: "wrong" }, name: "AuthenticationError" }),
  atConnect("ok", "28P01", { with: "wrong user", options: { user: "nobody" }, name: "AuthenticationError" }),
  atConnect("ok", "PASSWORD_MISSING", {
    with: "no password",
    options: { password: undefined },
    name: "AuthenticationError",
  }),

  // No PostgreSQL at all
  atConnect("fin on accept", /^(CONNECTION_LOST|CONNECT_FAILED)$/, { name: "ConnectionError" }),
  atConnect("rst on accept", /^(CONNECTION_LOST|CONNECT_FAILED)$/, { name: "ConnectionError" }),
  atConnect("http server that closes", nonsense, { name: "ProtocolError" }),
  atConnect("http server that waits", nonsense),
  atConnect("http server that waits", nonsense, { with: "TLS asked for", tls: true }),
  atConnect("ssh banner", nonsense),
  // 'S' with more behind it
  atConnect("ssh banner", /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/, { with: "TLS asked for", tls: true }),
  atConnect("mysql greeting", nonsense),
  atConnect("garbage", nonsense),
  atConnect("zero bytes", nonsense),
  atConnect("silence", "CONNECT_TIMEOUT", silent),
  atConnect("silence", "CONNECT_TIMEOUT", { ...silent, with: "TLS asked for", tls: true }),
  atConnect("silence after SSL S", "CONNECT_TIMEOUT", {
    ...silent,
    tls: true,
    staysOpenOn: {
      deno:
        "close() of a Deno.TlsConn whose handshake has no answer leaves the TCP socket open until the peer ends it " +
        "(Deno 2.9.6, tried with close, closeWrite, dispose, a pending read)",
    },
  }),
  atConnect("silence after SASLContinue", "CONNECT_TIMEOUT", silent),
  atConnect("silence before ReadyForQuery", "CONNECT_TIMEOUT", silent),
  atConnect("one notice every 50 ms", "CONNECT_TIMEOUT", silent), // the deadline is over all, not per message

  // Frames
  atConnect("length 0", nonsense),
  atConnect("length 3", nonsense),
  atConnect("length -1", nonsense),
  atConnect("length 0x7fffffff", nonsense),
  inQuery("length 0 in a query", protocol, lost),
  inQuery("length 3 in a query", protocol, lost),
  inQuery("length -1 in a query", protocol, lost),
  inQuery("unknown message type", protocol, lost),
  inQuery("oversized message", "MESSAGE_TOO_LARGE", {
    ...lost,
    // Loopback alone swallows some megabytes before a writer notices that nobody reads.
    check: (_outcome, { sent }) =>
      sent > 32 << 20 && `the driver took ${sent} bytes of a message that it has to refuse by its header`,
  }),

  // ErrorResponse
  atConnect("error without final NUL", /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/), // pg spins for ever
  atConnect("error without field terminator", /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/),
  atConnect("error without SQLSTATE", "(empty)", { name: "PostgresError" }), // PgBouncer crashed
  atConnect("error without any field", /^(\(empty\)|NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/),
  atConnect("error with an empty body", /^(\(empty\)|NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/),
  atConnect("error 53300", "53300", { name: "PostgresError" }),
  atConnect("error 3D000", "3D000", { name: "PostgresError" }),
  inQuery("error and FIN in a query", "57P01", { ...lost, name: "PostgresError" }),
  whileIdle("error while idle, then FIN", "57P01"),

  // SSLRequest
  atConnect("S with stuffed bytes", protocol, { tls: true, check: noPassword }), // CVE-2021-23222
  atConnect("E to SSLRequest", "TLS_REFUSED", {
    // CVE-2024-10977
    tls: true,
    check: ({ steps }) =>
      steps["connect"]?.text.includes("man in the middle") && "the error shows text of whoever answered SSLRequest",
  }),
  atConnect("N to SSLRequest", "TLS_REFUSED", { tls: true, check: noPassword }),
  fine("N to SSLRequest", { with: "sslmode=prefer", tls: true, options: { sslmode: "prefer", ca: undefined } }),
  atConnect("N with stuffed bytes", protocol, { tls: true, check: noPassword }),
  atConnect("X to SSLRequest", nonsense, { tls: true }),
  atConnect("S, then no TLS", /^(TLS_FAILED|PROTOCOL_VIOLATION)$/, { tls: true, check: noPassword }),

  // Authentication
  atConnect("request 99", "AUTH_METHOD_UNSUPPORTED", { name: "AuthenticationError" }), // uncaught in pg
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
    options: { requireAuth: "scram-sha-256" },
    check: onlyNonce,
  }),
  atConnect("cleartext after the SCRAM challenge", unexpected, {
    options: { allowCleartextPassword: true },
    check: ({ steps }, { received }) =>
      received.includes("correct horse") && `the password went out: ${steps["connect"]?.code}`,
  }),
  fine("MD5"),
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
  // Accepted by pg, postgres.js and libpq: a server that never proves that it knows the password.
  atConnect("AuthenticationOk after SASLInitialResponse", "SCRAM_SERVER_SIGNATURE_MISMATCH", { check: noProof }),
  atConnect("AuthenticationOk without SASLFinal", "SCRAM_SERVER_SIGNATURE_MISMATCH"),
  atConnect("SASLFinal after SASLInitialResponse", unexpected, { check: noProof }),
  atConnect("SASLContinue twice", unexpected),
  atConnect("ReadyForQuery without authentication", /^(UNEXPECTED_MESSAGE|NOT_POSTGRESQL)$/),
  atConnect("DataRow without authentication", /^(UNEXPECTED_MESSAGE|NOT_POSTGRESQL)$/),
  atConnect("SCRAM server signature wrong", "SCRAM_SERVER_SIGNATURE_MISMATCH", { name: "AuthenticationError" }),
  atConnect("SCRAM server signature short", /^SCRAM_(SERVER_SIGNATURE_MISMATCH|MALFORMED)$/),
  atConnect("SCRAM server signature empty", /^SCRAM_(SERVER_SIGNATURE_MISMATCH|MALFORMED)$/),
  atConnect("SCRAM server signature missing", "SCRAM_MALFORMED"),
  atConnect("SCRAM server signature no base64", /^SCRAM_(SERVER_SIGNATURE_MISMATCH|MALFORMED)$/),
  atConnect("SCRAM server error", "SCRAM_SERVER_ERROR"),
  atConnect("SCRAM nonce foreign", "SCRAM_NONCE_MISMATCH", { check: noProof }), // not checked by postgres.js
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
  atConnect("SCRAM iterations 2e9", "SCRAM_ITERATIONS_OUT_OF_RANGE", { check: noProof }), // CVE-2026-42198
  atConnect("SCRAM iterations 1e30", "SCRAM_ITERATIONS_OUT_OF_RANGE", { check: noProof }),
  atConnect("SCRAM iterations 100001", "SCRAM_ITERATIONS_OUT_OF_RANGE", { check: noProof }),
  atConnect("SCRAM iterations a word", "SCRAM_MALFORMED", { check: noProof }),
  atConnect("SCRAM mandatory extension", "SCRAM_MANDATORY_EXTENSION", { check: noProof }),
  fine("SCRAM optional extension"),

  // After authentication
  fine("ParameterStatus flood", { within: 5000 }), // 200,000 of them: libpq hangs
  fine("notices everywhere"),
  fine("notices before authentication"),
  fine("NegotiateProtocolVersion 3.0", {
    options: { maxProtocolVersion: "3.2" },
    check: (_outcome, { version }) => version !== 0x30002 && `StartupMessage said ${version}`,
  }),
  atConnect("NegotiateProtocolVersion 3.9", /^(PROTOCOL_VIOLATION|NOT_POSTGRESQL)$/, {
    options: { connectTimeout: 300 },
  }),
  atConnect("NegotiateProtocolVersion 4.0", /^(PROTOCOL_VIOLATION|NOT_POSTGRESQL)$/, {
    options: { connectTimeout: 300 },
  }),
  atConnect("NegotiateProtocolVersion with a negative count", /^(PROTOCOL_VIOLATION|NOT_POSTGRESQL)$/, {
    options: { connectTimeout: 300 },
  }),
  atConnect("NegotiateProtocolVersion with an option not asked for", /^(PROTOCOL_VIOLATION|NOT_POSTGRESQL)$/, {
    options: { connectTimeout: 300 },
  }),
  fine("cancel key of 256 bytes", { options: { maxProtocolVersion: "3.2" } }),
  fine("cancel key of 32 bytes", { options: { maxProtocolVersion: "3.2" } }),
  atConnect("cancel key of 257 bytes", protocol, { options: { maxProtocolVersion: "3.2" } }),
  atConnect("cancel key of 0 bytes", protocol, { options: { maxProtocolVersion: "3.2" } }),
  // In the same segment as the greeting it may end the connection before connect() has told that there is one.
  { scenario: "ReadyForQuery twice at once", code: /^(UNEXPECTED_MESSAGE|CONNECTION_LOST)$/, at: "anywhere", idle: 50 },
  whileIdle("ReadyForQuery while idle", unexpected),
  whileIdle("DataRow while idle", unexpected),

  // Descriptions
  inQuery("ParameterDescription with count -1", protocol, lost),
  inQuery("ParameterDescription cut short", protocol, lost),
  inQuery("ParameterDescription with trailing bytes", protocol, lost),
  inQuery("RowDescription with count -1", protocol, lost), // uncaught in pg
  inQuery("RowDescription cut short", protocol, lost),
  inQuery("RowDescription without NUL", protocol, lost),
  inQuery("RowDescription with trailing bytes", protocol, lost),
  inQuery("RowDescription with format code 9", /^(PROTOCOL_VIOLATION|SHAPE_CHANGED)$/, lost),
  fine("RowDescription of the portal has another column", {
    check: ({ steps }) =>
      steps["query"]?.text !== JSON.stringify([{ n: 7, label: "seven", more: "newly there" }]) &&
      `rows ${steps["query"]?.text}`,
  }),
  inQuery("no RowDescription", unexpected, lost),

  // Rows
  inQuery("row with a field of length -2", protocol, lost), // taken for NULL by libpq, pg and postgres.js
  inQuery("row with a field of length -2147483648", protocol, lost),
  inQuery("row with a field past its end", protocol, lost), // pg gives the next messages as data
  inQuery("row with a huge field", protocol, lost),
  inQuery("row with fewer fields", protocol, lost), // RUSTSEC-2026-0178
  inQuery("row with more fields", protocol, lost),
  inQuery("row with trailing bytes", protocol, lost),
  inQuery("row with -1 fields", protocol, lost),
  inQuery("row with an empty body", protocol, lost),
  inQuery("row with one byte", protocol, lost),
  inQuery("row cut in a length", protocol, lost),
  inQuery("row whose int4 has 3 bytes", "INVALID_VALUE", lost),
  inQuery("row after good rows is bad", protocol, lost),
  inQuery("row after good rows is bad", protocol, { with: "stream", ...lost, by: "stream" }),

  // The order of messages
  inQuery("BindComplete missing", unexpected, lost),
  inQuery("BindComplete twice", unexpected, lost),
  inQuery("ParseComplete missing", unexpected, lost),
  inQuery("DataRow after CommandComplete", unexpected, lost),
  inQuery("CommandComplete twice", unexpected, lost),
  inQuery("CommandComplete without NUL", protocol, lost),
  inQuery("CommandComplete missing", unexpected, lost),
  inQuery("ReadyForQuery with status X", protocol, lost),
  inQuery("ReadyForQuery without status", protocol, lost),
  inQuery("ReadyForQuery with two bytes", protocol, lost),
  inQuery("AuthenticationOk in a query", unexpected, lost),
  inQuery("BackendKeyData in a query", unexpected, lost),
  inQuery("PortalSuspended", unexpected, lost),
  inQuery("CopyInResponse", "COPY_NEEDS_COPY_CALL", { again: "", name: "UsageError" }),
  inQuery("CopyOutResponse", "COPY_NEEDS_COPY_CALL", { again: "", name: "UsageError" }),
  inQuery("CopyBothResponse", /^(UNEXPECTED_MESSAGE|PROTOCOL_VIOLATION)$/, lost),
  inQuery("CopyData without CopyOutResponse", unexpected, lost),
  inQuery("FunctionCallResponse", /^(UNEXPECTED_MESSAGE|PROTOCOL_VIOLATION)$/, lost),
  inQuery("NotificationResponse without NUL", protocol, lost),
  inQuery("ParameterStatus without NUL", protocol, lost),
  inQuery("error in the middle of the rows", "22012", { again: "", name: "PostgresError" }),
  inQuery("error in the middle of the rows", "22012", { with: "stream", again: "", by: "stream" }),

  // The end of the connection
  inQuery("FIN in a row", "CONNECTION_LOST", lost),
  inQuery("FIN in a row", "CONNECTION_LOST", { with: "stream", ...lost, by: "stream" }),
  inQuery("RST in a row", "CONNECTION_LOST", lost),
  inQuery("RST in a row", "CONNECTION_LOST", { with: "stream", ...lost, by: "stream" }),
  inQuery("FIN between CommandComplete and ReadyForQuery", "CONNECTION_LOST", lost),
  inQuery("FIN between CommandComplete and ReadyForQuery", "CONNECTION_LOST", {
    with: "stream",
    ...lost,
    by: "stream",
  }),
  whileIdle("FIN while idle", rejected),
  whileIdle("RST while idle", rejected),
];
