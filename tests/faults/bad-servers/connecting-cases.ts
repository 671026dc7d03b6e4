// The errors that the driver must report for the bad servers of connecting.mjs.
import { WAYS } from "../jobs.ts";
import {
  atConnect,
  fine,
  lost,
  nonsense,
  noPassword,
  protocol,
  rejected,
  silent,
  inQuery,
  unexpected,
  type BadServerCase,
} from "./case.ts";

/**
 * The session ends while no call is in flight. The client notices at once, and connects again with the next call. In
 * workerd an idle socket is not read, so the next call notices, and its bytes have left by then. `code` is the reason
 * for the end of the session.
 */
const whileIdle = (scenario: string, code: string): BadServerCase =>
  inQuery(scenario, new RegExp(`^(|${code}|${rejected})$`), {
    ...lost,
    idle: 500,
    check({ state, steps: { query } }, _report, label) {
      const noticed = !label.startsWith("workerd");
      if (state !== (noticed ? "lost" : "idle")) return `the client says ${state}`;
      // The server's last message arrives in place of the first response.
      if ((noticed || code === "57P01") !== (query?.code === ""))
        return `the call ended with ${JSON.stringify(query?.code)}`;
      return query?.retryable && "retryable, though the server may have seen it";
    },
  });

export const connectingCases: BadServerCase[] = [
  // tests/integration/cases/types.ts checks the times of these servers.
  fine("integer_datetimes off"),
  fine("integer_datetimes not reported"),

  fine("ok", { differs: "crypto" }),
  fine("ok", { with: "TLS", tls: true }),
  atConnect("ok", "28P01", { with: "wrong password", options: { password: "wrong" }, name: "AuthenticationError" }),
  atConnect("ok", "28P01", { with: "wrong user", options: { user: "nobody" }, name: "AuthenticationError" }),
  atConnect("ok", "PASSWORD_MISSING", {
    with: "no password",
    options: { password: undefined },
    name: "AuthenticationError",
  }),

  // Servers other than PostgreSQL
  atConnect("fin on accept", /^(CONNECTION_LOST|CONNECT_FAILED)$/, { name: "ConnectionError" }),
  atConnect("rst on accept", /^(CONNECTION_LOST|CONNECT_FAILED)$/, { name: "ConnectionError" }),
  atConnect("http server that closes", nonsense, { name: "ProtocolError", differs: "sockets" }),
  atConnect("http server that waits", nonsense, { differs: "sockets" }),
  atConnect("http server that waits", nonsense, { with: "TLS asked for", tls: true }),
  atConnect("ssh banner", nonsense),
  // 'S' with more bytes after it
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
  atConnect("length 0", nonsense, { differs: "sockets" }), // uncaught in pg
  atConnect("length 3", nonsense),
  atConnect("length -1", nonsense),
  atConnect("length 0x7fffffff", nonsense),

  // ErrorResponse
  atConnect("error without final NUL", /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/), // pg spins for ever, CVE-2022-41862
  atConnect("error without field terminator", /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/),
  atConnect("error without SQLSTATE", "(empty)", { name: "PostgresError" }), // PgBouncer crashed, CVE-2026-6666
  atConnect("error without any field", /^(\(empty\)|NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/),
  atConnect("error with an empty body", /^(\(empty\)|NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/),
  atConnect("error 53300", "53300", { name: "PostgresError" }),
  atConnect("error 3D000", "3D000", { name: "PostgresError" }),
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

  // After authentication
  fine("ParameterStatus flood"), // 200,000 of them: libpq hangs
  fine("notices everywhere", { ways: WAYS }),
  fine("notices before authentication"),
  fine("NegotiateProtocolVersion 3.0", {
    options: { maxProtocolVersion: "3.2" },
    check: (_outcome, { version }) => version !== 0x30002 && `StartupMessage said ${version}`,
  }),
  atConnect("NegotiateProtocolVersion 3.9", /^(PROTOCOL_VIOLATION|NOT_POSTGRESQL)$/),
  atConnect("NegotiateProtocolVersion 4.0", /^(PROTOCOL_VIOLATION|NOT_POSTGRESQL)$/),
  atConnect("NegotiateProtocolVersion with a negative count", /^(PROTOCOL_VIOLATION|NOT_POSTGRESQL)$/),
  atConnect("NegotiateProtocolVersion with an option not asked for", /^(PROTOCOL_VIOLATION|NOT_POSTGRESQL)$/),
  fine("cancel key of 256 bytes", { options: { maxProtocolVersion: "3.2" } }),
  fine("cancel key of 32 bytes", { options: { maxProtocolVersion: "3.2" } }),
  atConnect("cancel key of 257 bytes", protocol, { options: { maxProtocolVersion: "3.2" } }),
  atConnect("cancel key of 0 bytes", protocol, { options: { maxProtocolVersion: "3.2" } }),
  // If it arrives in the same segment as the greeting, the connection may end before connect() has returned it.
  {
    scenario: "ReadyForQuery twice at once",
    code: /^(UNEXPECTED_MESSAGE|CONNECTION_LOST|)$/,
    at: "anywhere",
    idle: 50,
  },
  whileIdle("ReadyForQuery while idle", unexpected),
  whileIdle("DataRow while idle", unexpected),
  whileIdle("FIN while idle", rejected),
  whileIdle("RST while idle", rejected),
];
