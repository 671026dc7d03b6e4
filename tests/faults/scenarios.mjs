// What a bad server does, by name. The other half, what the driver must make of it, is `bad-server-cases.ts`; a test
// compares the names.
//
// A scenario replaces steps of the scripted server's honest conversation: `accept` (all of it), `sslRequest`,
// `authenticate`, `greet`, `answer` (the replies to one message), `afterReady`. `onExecute` and its kin are short for
// an `answer` to one kind of message. Runs in Node, on the first connection of a plan only; malformed messages are
// spelled with `raw`, which believes any length.
import { createHash } from "node:crypto";

import { authenticate, greet, password, user } from "../support/scripted-login.mjs";
import * as wire from "../support/wire.mjs";

const text = (...parts) => Buffer.from(parts.join(""), "latin1");
const GIGABYTES_1_9 = 1_900_000_000;

/** Everything after the first bytes of the driver is these bytes, then nothing (or the end). */
const instead = (bytes, end = false) => ({
  accept: async (io) => {
    io.report.kind = "main";
    await io.anyBytes();
    await io.send(bytes);
    if (end) io.close();
    await io.hang();
  },
});
const afterStartup = (...messages) => ({
  authenticate: async (io) => {
    await io.send(...messages);
    await io.hang();
    return false;
  },
});
const scram = (change) => ({ authenticate: (io) => authenticate(io, change) });
const scramChallenge = (challenge) => scram({ challenge });
const on = (name, reply) => ({
  answer: (io, message, honest, session) => (message.name === name ? reply(honest, io, message, session) : honest),
});
const onParse = (reply) => on("Parse", reply);
const onExecute = (reply) => on("Execute", reply);
/** Replaces the rows of the answer: `reply(rows)` gives what stands between RowDescription and CommandComplete. */
const rows = (reply) => onExecute((honest) => [...reply(honest.slice(0, -1)), ...honest.slice(-1)]);
/** Replaces RowDescription, of the statement and of the portal alike. */
const rowDescription = (reply) =>
  on("Describe", (honest) => honest.map((each) => (letter(each) === "T" ? reply(each) : each)));
const letter = (bytes) => String.fromCharCode(bytes[0]);
const row = (...parts) => wire.message("D", ...parts);
const int4 = wire.cell(wire.int32(7));
const label = wire.cell(text("seven"));
const after = (...extra) => onExecute((honest) => [...honest, ...extra]);
const error = (fields) => wire.errorResponse({ S: "ERROR", V: "ERROR", ...fields });
const fatal = (C, M) => wire.errorResponse({ S: "FATAL", V: "FATAL", C, M });
const shutdown = () => fatal("57P01", "terminating connection due to administrator command");
const notice = () => wire.noticeResponse({ S: "NOTICE", V: "NOTICE", C: "00000", M: "everywhere" });
/** Something that comes behind the greeting, in a segment of its own. */
function whileIdle(happens) {
  return {
    greet: async (io) => {
      await greet(io);
      await io.seconds(0.02);
      await happens(io);
    },
  };
}
/** Sends what was answered so far with `replies` behind it, at once, and then does `next`. */
const thereupon = (session, replies, next) => {
  session.thereupon = next;
  return replies;
};

/** A huge DataRow: its header, and 300 MB of body as long as somebody reads. */
const oversized = () =>
  onExecute((_honest, io, _message, session) => {
    const header = Buffer.concat([wire.raw("D", GIGABYTES_1_9), wire.int16(1), wire.int32(GIGABYTES_1_9 - 10)]);
    return thereupon(session, [header], async () => {
      const block = Buffer.alloc(1 << 20, "x");
      for (let i = 0; i < 300 && io.report.closedByDriver === "open"; i++) await io.send(block);
      await io.hang();
    });
  });

const noticesEverywhere = {
  greet: async (io) => {
    const send = io.send.bind(io);
    const extras = () => [
      notice(),
      wire.parameterStatus("application_name", "x"),
      wire.notificationResponse(1, "c", "p"),
    ];
    io.send = (...messages) => send(...messages.flatMap((each) => [...extras(), each]), ...extras());
    await greet(io);
  },
};

export const scenarios = {
  ok: {},

  // A server that writes times as floats, or may
  "integer_datetimes off": {
    reports: (all) => all.map(([name, value]) => [name, name === "integer_datetimes" ? "off" : value]),
  },
  "integer_datetimes not reported": { reports: (all) => all.filter(([name]) => name !== "integer_datetimes") },

  // No PostgreSQL at all
  "fin on accept": {
    accept: async (io) => {
      io.close();
      await io.hang();
    },
  },
  "rst on accept": { accept: (io) => io.reset() },
  "http server that closes": instead(
    text("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    true,
  ),
  "http server that waits": instead(text("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")),
  "ssh banner": {
    accept: async (io) => {
      await io.send(text("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"));
      await io.hang();
    },
  },
  "mysql greeting": {
    accept: async (io) => {
      await io.send(text("\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0abcdefgh\0"));
      await io.hang();
    },
  },
  garbage: instead(createHash("sha512").update("garbage").digest()),
  "zero bytes": instead(Buffer.alloc(64)),
  silence: { accept: (io) => io.hang() },
  "silence after SSL S": {
    sslRequest: async (io) => {
      await io.send(text("S"));
      await io.hang();
    },
  },
  "silence after SASLContinue": scram({
    afterResponse: async (io) => {
      await io.hang();
      return false;
    },
  }),
  "silence before ReadyForQuery": { greet: (io) => io.hang() },
  "one notice every 50 ms": {
    authenticate: async (io) => {
      while (io.report.closedByDriver === "open") {
        await io.send(notice());
        await io.seconds(0.05);
      }
      return false;
    },
  },

  // Frames
  "length 0 in a query": onExecute(() => [wire.raw("D", 0)]),
  "length 3 in a query": onExecute(() => [wire.raw("D", 3)]),
  "length -1 in a query": onExecute(() => [wire.raw("D", -1)]),
  "length 0": afterStartup(wire.raw("R", 0)),
  "length 3": afterStartup(wire.raw("R", 3)),
  "length -1": afterStartup(wire.raw("R", -1)),
  "length 0x7fffffff": afterStartup(wire.raw("R", 0x7fffffff)),
  "unknown message type": onExecute(() => [wire.message("~", text("what"))]),
  "oversized message": oversized(),

  // ErrorResponse
  "error without final NUL": afterStartup(wire.raw("E", 10, text("SELECT"))),
  "error without field terminator": afterStartup(wire.message("E", wire.cstring("SFATAL"), wire.cstring("C28000"))),
  "error without SQLSTATE": afterStartup(wire.errorResponse({ S: "FATAL", M: "no code" })),
  "error without any field": afterStartup(wire.message("E", Buffer.of(0))),
  "error with an empty body": afterStartup(wire.message("E")),
  "error 53300": afterStartup(fatal("53300", "sorry, too many clients already")),
  "error 3D000": afterStartup(fatal("3D000", 'database "nowhere" does not exist')),
  "error and FIN in a query": onExecute((_honest, io, _message, session) =>
    thereupon(session, [shutdown()], () => io.close()),
  ),
  "error while idle, then FIN": whileIdle(async (io) => {
    await io.send(shutdown());
    io.close();
  }),

  // SSLRequest
  "S with stuffed bytes": {
    sslRequest: async (io) => {
      await io.acceptTls(Buffer.concat([wire.authenticationOk(), wire.readyForQuery()]));
      await io.hang();
    },
  },
  "E to SSLRequest": {
    sslRequest: async (io) => {
      await io.send(fatal("XX000", "text of a man in the middle"));
      await io.hang();
    },
  },
  "N to SSLRequest": { sslRequest: (io) => io.send(text("N")) },
  "N with stuffed bytes": {
    sslRequest: async (io) => {
      await io.send(text("N"), wire.authenticationOk(), wire.readyForQuery());
      await io.hang();
    },
  },
  "X to SSLRequest": {
    sslRequest: async (io) => {
      await io.send(text("X"));
      await io.hang();
    },
  },
  "S, then no TLS": {
    sslRequest: async (io) => {
      await io.send(text("S"));
      await io.seconds(0.02);
      await io.send(text("HTTP/1.1 400 Bad Request\r\n\r\n"));
      await io.hang();
    },
  },

  // Authentication
  "request 99": afterStartup(wire.authentication(99)),
  "empty request": afterStartup(wire.message("R")),
  "request cut short": afterStartup(wire.message("R", Buffer.from([0, 0]))),
  KerberosV5: afterStartup(wire.authentication(2)),
  GSS: afterStartup(wire.authentication(7)),
  SSPI: afterStartup(wire.authentication(9)),
  cleartext: {
    authenticate: async (io) => {
      await io.send(wire.authentication(3));
      const answer = await io.next();
      if (!answer) return false;
      if (new wire.BodyReader(answer.body).cstring() !== password) {
        await io.send(fatal("28P01", "wrong"));
        return false;
      }
      await io.send(wire.authenticationOk());
      return true;
    },
  },
  "cleartext after the SCRAM challenge": scram({
    afterResponse: async (io) => {
      await io.send(wire.authentication(3));
      await io.hang();
      return false;
    },
  }),
  MD5: {
    authenticate: async (io) => {
      const hex = (...parts) => {
        const hash = createHash("md5");
        for (const each of parts) hash.update(each);
        return hash.digest("hex");
      };
      const salt = text("salt");
      await io.send(wire.authenticationMd5Password(salt));
      const answer = await io.next();
      if (!answer) return false;
      if (new wire.BodyReader(answer.body).cstring() !== `md5${hex(hex(password, user), salt)}`) {
        await io.send(fatal("28P01", "wrong"));
        return false;
      }
      await io.send(wire.authenticationOk());
      return true;
    },
  },
  "MD5 without a salt": afterStartup(wire.authentication(5)),
  trust: {
    authenticate: async (io) => {
      await io.send(wire.authenticationOk());
      return true;
    },
  },
  "no known mechanism": afterStartup(wire.authenticationSasl("SCRAM-SHA-512", "OAUTHBEARER")),
  "only SCRAM-SHA-256-PLUS": afterStartup(wire.authenticationSasl("SCRAM-SHA-256-PLUS")),
  "no mechanism": afterStartup(wire.authenticationSasl()),
  "mechanism list without end": afterStartup(wire.authentication(10, wire.cstring("SCRAM-SHA-256"))),
  "PLUS offered in plain": scram({ mechanisms: ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"] }),
  "AuthenticationOk after SASLInitialResponse": scram({ afterInitial: okAtOnce }),
  "AuthenticationOk without SASLFinal": scram({ afterResponse: okAtOnce }),
  "SASLFinal after SASLInitialResponse": scram({
    afterInitial: async (io) => {
      await io.send(wire.authenticationSaslFinal("v=AAAA"));
      await io.hang();
      return false;
    },
  }),
  "SASLContinue twice": scram({
    afterResponse: async (io) => {
      await io.send(wire.authenticationSaslContinue("r=x,s=AAAA,i=4096"));
      await io.hang();
      return false;
    },
  }),
  "ReadyForQuery without authentication": afterStartup(wire.backendKeyData(1, text("0123")), wire.readyForQuery()),
  "DataRow without authentication": afterStartup(wire.dataRow([text("1")])),
  "SCRAM server signature wrong": scram({ final: () => `v=${Buffer.alloc(32, 7).toString("base64")}` }),
  "SCRAM server signature short": scram({
    final: (honest) => `v=${Buffer.from(honest.slice(2), "base64").subarray(0, 31).toString("base64")}`,
  }),
  "SCRAM server signature empty": scram({ final: () => "v=" }),
  "SCRAM server signature missing": scram({ final: () => "" }),
  "SCRAM server signature no base64": scram({ final: () => "v=!!!!" }),
  "SCRAM server error": scram({ final: () => "e=other-error" }),
  "SCRAM nonce foreign": scramChallenge(({ salt }) => `r=${"A".repeat(48)},s=${salt},i=4096`),
  "SCRAM nonce cut": scramChallenge(({ salt }, nonce) => `r=${nonce.slice(0, -1)},s=${salt},i=4096`),
  "SCRAM nonce not continued": scramChallenge(({ salt }, nonce) => `r=${nonce},s=${salt},i=4096`),
  "SCRAM nonce missing": scramChallenge(({ salt }) => `s=${salt},i=4096`),
  "SCRAM nonce of 100 kB": scramChallenge(({ nonce, salt }) => `r=${nonce}${"A".repeat(100_000)},s=${salt},i=4096`),
  "SCRAM salt missing": scramChallenge(({ nonce }) => `r=${nonce},i=4096`),
  "SCRAM salt empty": scramChallenge(({ nonce }) => `r=${nonce},s=,i=4096`),
  "SCRAM salt no base64": scramChallenge(({ nonce }) => `r=${nonce},s=*salt*,i=4096`),
  "SCRAM iterations missing": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt}`),
  "SCRAM iterations 0": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=0`),
  "SCRAM iterations -1": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=-1`),
  "SCRAM iterations 2e9": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=2000000000`),
  "SCRAM iterations 1e30": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=1${"0".repeat(30)}`),
  "SCRAM iterations 100001": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=100001`),
  "SCRAM iterations a word": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=many`),
  "SCRAM mandatory extension": scramChallenge(({ nonce, salt }) => `m=new,r=${nonce},s=${salt},i=4096`),
  "SCRAM optional extension": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=4096,x=later`),

  // After authentication
  "ParameterStatus flood": {
    greet: async (io) => {
      for (let i = 0; i < 200; i++)
        await io.send(
          ...Array.from({ length: 1000 }, (_, j) => wire.parameterStatus(`flood.${i}_${j}`, "x".repeat(20))),
        );
      await greet(io);
    },
  },
  "notices everywhere": noticesEverywhere,
  "notices before authentication": {
    authenticate: async (io) => {
      await io.send(notice(), notice());
      return authenticate(io);
    },
  },
  "NegotiateProtocolVersion 3.0": {
    authenticate: async (io) => {
      await io.send(wire.negotiateProtocolVersion(0x30000));
      return authenticate(io);
    },
  },
  "NegotiateProtocolVersion 3.9": afterStartup(wire.negotiateProtocolVersion(0x30009)),
  "NegotiateProtocolVersion 4.0": afterStartup(wire.negotiateProtocolVersion(0x40000)),
  "NegotiateProtocolVersion with a negative count": afterStartup(
    wire.message("v", wire.int32(0x30000), wire.int32(-1)),
  ),
  "NegotiateProtocolVersion with an option not asked for": afterStartup(
    wire.negotiateProtocolVersion(0x30000, ["_pq_.unasked"]),
  ),
  "cancel key of 256 bytes": { greet: (io) => greet(io, 256) },
  "cancel key of 32 bytes": { greet: (io) => greet(io, 32) },
  "cancel key of 257 bytes": { greet: (io) => greet(io, 257) },
  "cancel key of 0 bytes": { greet: (io) => greet(io, 0) },
  "ReadyForQuery twice at once": {
    greet: async (io) => {
      await greet(io);
      await io.send(wire.readyForQuery());
    },
  },
  "ReadyForQuery while idle": whileIdle((io) => io.send(wire.readyForQuery())),
  "DataRow while idle": whileIdle((io) => io.send(wire.dataRow([text("1")]))),

  // Descriptions
  "ParameterDescription with count -1": describe(wire.message("t", wire.int16(-1))),
  "ParameterDescription cut short": describe(wire.message("t", wire.int16(2), wire.int32(23))),
  "ParameterDescription with trailing bytes": describe(wire.message("t", wire.int16(1), wire.int32(23), text("x"))),
  "RowDescription with count -1": rowDescription(() => wire.message("T", wire.int16(-1))),
  "RowDescription cut short": rowDescription((honest) => wire.message("T", honest.subarray(5, -5))),
  "RowDescription without NUL": rowDescription(() => wire.message("T", wire.int16(1), text("name without end"))),
  "RowDescription with trailing bytes": rowDescription((honest) => wire.message("T", honest.subarray(5), text("x"))),
  "RowDescription with format code 9": rowDescription(() =>
    wire.rowDescription(
      [
        { name: "n", oid: 23, size: 4 },
        { name: "label", oid: 25 },
      ],
      [9, 9],
    ),
  ),
  "RowDescription of the portal has another column": { answer: another },
  "no RowDescription": on("Describe", (honest, _io, { body }) => (body[0] === 0x53 ? honest : [])),

  // Rows
  "row with a field of length -2": rows(() => [row(wire.int16(2), wire.int32(-2), label)]),
  "row with a field of length -2147483648": rows(() => [row(wire.int16(2), wire.int32(-2147483648), label)]),
  "row with a field past its end": rows(() => [row(wire.int16(2), int4, wire.int32(1000), text("short"))]),
  "row with a huge field": rows(() => [row(wire.int16(2), int4, wire.int32(0x7fffffff), text("short"))]),
  "row with fewer fields": rows(() => [row(wire.int16(1), int4)]),
  "row with more fields": rows(() => [row(wire.int16(3), int4, label, label)]),
  "row with trailing bytes": rows(() => [row(wire.int16(2), int4, label, text("tail"))]),
  "row with -1 fields": rows(() => [row(wire.int16(-1))]),
  "row with an empty body": rows(() => [row()]),
  "row with one byte": rows(() => [row(Buffer.of(0))]),
  "row cut in a length": rows(() => [row(wire.int16(2), int4, Buffer.from([0, 0]))]),
  "row whose int4 has 3 bytes": rows(() => [row(wire.int16(2), wire.cell(text("abc")), label)]),
  "row after good rows is bad": rows((honest) => [...honest, row(wire.int16(1), int4)]),

  // The order of messages
  "BindComplete missing": on("Bind", () => []),
  "BindComplete twice": on("Bind", (honest) => [...honest, ...honest]),
  "ParseComplete missing": onParse(() => []),
  "DataRow after CommandComplete": after(wire.dataRow([wire.int32(1), text("x")])),
  "CommandComplete twice": after(wire.commandComplete("SELECT 1")),
  "CommandComplete without NUL": onExecute((honest) => [...honest.slice(0, -1), wire.message("C", text("SELECT 3"))]),
  "CommandComplete missing": onExecute((honest) => honest.slice(0, -1)),
  "ReadyForQuery with status X": on("Sync", () => [wire.readyForQuery("X")]),
  "ReadyForQuery without status": on("Sync", () => [wire.message("Z")]),
  "ReadyForQuery with two bytes": on("Sync", () => [wire.message("Z", text("II"))]),
  "AuthenticationOk in a query": after(wire.authenticationOk()),
  "BackendKeyData in a query": after(wire.backendKeyData(1, text("0123"))),
  PortalSuspended: onExecute((honest) => [...honest.slice(0, -1), wire.message("s")]),
  CopyInResponse: { answer: copyIn },
  CopyOutResponse: { answer: copyOut },
  CopyBothResponse: onExecute(() => [wire.message("W", Buffer.of(0), wire.int16(0))]),
  "CopyData without CopyOutResponse": onExecute(() => [wire.message("d", text("1\n"))]),
  FunctionCallResponse: onExecute(() => [wire.message("V", wire.int32(-1))]),
  "NotificationResponse without NUL": after(wire.message("A", wire.int32(1), text("channel"))),
  "ParameterStatus without NUL": after(wire.message("S", text("name"))),
  "error in the middle of the rows": onExecute((honest, _io, _message, session) => {
    session.failed = true;
    return [...honest.slice(0, 2), error({ C: "22012", M: "division by zero" })];
  }),

  // The end of the connection
  "FIN in a row": onExecute((honest, io, _message, session) =>
    thereupon(session, [honest[0].subarray(0, 9)], () => io.close()),
  ),
  "RST in a row": onExecute((honest, io, _message, session) =>
    thereupon(session, [honest[0].subarray(0, 9)], () => io.reset()),
  ),
  "FIN between CommandComplete and ReadyForQuery": onExecute((honest, io, _message, session) =>
    thereupon(session, honest, () => io.close()),
  ),
  "FIN while idle": whileIdle(async (io) => {
    io.close();
    await io.hang();
  }),
  "RST while idle": whileIdle((io) => io.reset()),
};

async function okAtOnce(io) {
  await io.send(wire.authenticationOk());
  return true;
}

function describe(parameterDescription) {
  return on("Describe", (honest) => honest.map((each) => (letter(each) === "t" ? parameterDescription : each)));
}

/** What a statement means has changed since it was described: its portal has one more column. */
function another(_io, { name, body }, honest) {
  if (name === "Describe" && body[0] === 0x50) {
    return [
      wire.rowDescription(
        [
          { name: "n", oid: 23, size: 4 },
          { name: "label", oid: 25 },
          { name: "more", oid: 25 },
        ],
        [1, 0, 0],
      ),
    ];
  }
  return name === "Execute"
    ? [wire.dataRow([wire.int32(7), text("seven"), text("newly there")]), wire.commandComplete("SELECT 1")]
    : honest;
}

/** A server for which the statement is COPY TO STDOUT. */
function copyOut(_io, { name }, honest) {
  if (name === "Describe") return honest.map((each) => (letter(each) === "T" ? wire.noData() : each));
  if (name !== "Execute") return honest;
  const response = wire.message("H", Buffer.of(0), wire.int16(1), wire.int16(0));
  return [
    response,
    wire.message("d", text("1\n")),
    wire.message("d", text("2\n")),
    wire.message("c"),
    wire.commandComplete("COPY 2"),
  ];
}

/**
 * A server for which the statement is COPY FROM STDIN. It ignores Sync until CopyFail, then skips to the next Sync, as
 * PostgreSQL does.
 */
function copyIn(_io, { name }, honest, session) {
  if (name === "Describe") return honest.map((each) => (letter(each) === "T" ? wire.noData() : each));
  if (name === "Execute") {
    session.copying = true;
    return thereupon(session, [wire.message("G", Buffer.of(0), wire.int16(1), wire.int16(0))], () => {});
  }
  if (!session.copying) return honest;
  if (name !== "CopyFail") return [];
  session.copying = false;
  session.failed = true;
  return [error({ C: "57014", M: "COPY from stdin failed" })];
}
