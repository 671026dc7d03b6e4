// Servers that misbehave during the login or while no call is in flight: servers other than PostgreSQL, SSLRequest, the
// greeting.
import { createHash } from "node:crypto";

import { authenticate, greet } from "../../support/scripted-login.mjs";
import * as wire from "../../support/wire.mjs";
import { afterStartup, checkFails, fatal, instead, notice, scram, shutdown, text, whileIdle } from "./parts.mjs";

/** NoticeResponse, ParameterStatus and NotificationResponse before each message, and after each write. */
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

export const connecting = {
  ok: {},

  // Servers that write times as floats, or may do so, and floats with 15 digits
  "integer_datetimes off": {
    ...checkFails("pgz-edge: settings 0ISO, MDYpostgres"),
    reports: (all) => all.map(([name, value]) => [name, name === "integer_datetimes" ? "off" : value]),
  },
  "integer_datetimes not reported": {
    ...checkFails("pgz-edge: settings 0ISO, MDYpostgres"),
    reports: (all) => all.filter(([name]) => name !== "integer_datetimes"),
  },

  // Servers other than PostgreSQL
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
  "length 0": afterStartup(wire.raw("R", 0)),
  "length 3": afterStartup(wire.raw("R", 3)),
  "length -1": afterStartup(wire.raw("R", -1)),
  "length 0x7fffffff": afterStartup(wire.raw("R", 0x7fffffff)),

  // ErrorResponse
  "error without final NUL": afterStartup(wire.raw("E", 10, text("SELECT"))),
  "error without field terminator": afterStartup(wire.message("E", wire.cstring("SFATAL"), wire.cstring("C28000"))),
  "error without SQLSTATE": afterStartup(wire.errorResponse({ S: "FATAL", M: "no code" })),
  "error without any field": afterStartup(wire.message("E", Buffer.of(0))),
  "error with an empty body": afterStartup(wire.message("E")),
  "error 53300": afterStartup(fatal("53300", "sorry, too many clients already")),
  "error 3D000": afterStartup(fatal("3D000", 'database "nowhere" does not exist')),
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
  "FIN while idle": whileIdle(async (io) => {
    io.close();
    await io.hang();
  }),
  "RST while idle": whileIdle((io) => io.reset()),
};
