// logIn and its socket: what it sends, TLS during the login, and who owns the connection after the login. The core
// reads the login's bytes and no more, wherever they are split, and ending the login does not end the connection.
import { X509Certificate } from "node:crypto";
import { rootCertificates } from "node:tls";
import { beforeEach, expect, test, vi } from "vitest";
import { logIn, type LogInOptions } from "../../js/api/log-in.ts";
import type { ConnectOptions, Socket } from "../../js/runtime/contract.ts";
import { installRuntime, runtime } from "../../js/runtime/runtime.ts";
import { accepted, failure, isPending, newServer, quiet, server, type Session } from "../support/memory-session.ts";
import { completeAndReady, fatal } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

beforeEach(() => newServer());

const place = { host: "h", user: "u", sslmode: "disable", environment: false } as const;
const login = () =>
  Buffer.concat([wire.authenticationOk(), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery()]);

/** The parameters of the next StartupMessage. */
async function parametersOf(session: Session): Promise<Record<string, string>> {
  const message = (await session.message())!;
  expect(message.name).toBe("StartupMessage");
  const words = message.body.toString("latin1").split("\0").slice(-20);
  const start = words.findIndex((word) => word.endsWith("user"));
  const found: Record<string, string> = {};
  for (let at = start; at + 1 < words.length && words[at]; at += 2)
    found[at === start ? "user" : words[at]!] = words[at + 1]!;
  return found;
}

/** Begins a login, which the server accepts at once. These bytes follow in the same chunk. */
async function loggedIn(options: LogInOptions = {}, behind: Buffer = Buffer.alloc(0)) {
  const pending = logIn(place, options);
  const session = await accepted();
  const parameters = await parametersOf(session);
  session.send(login(), behind);
  return { session, parameters, handover: await pending };
}

/** Connects to the test's server through a socket with these members too. */
const connectWith = (more: (socket: Socket, where: ConnectOptions) => Partial<Socket>) => {
  const { connect } = server;
  return async (where: ConnectOptions) => {
    const socket = await connect(where);
    return Object.assign(socket, more(socket, where));
  };
};

const bytesOf = async (socket: Socket) => Buffer.from((await socket.read())!);

// -- what is sent ----------------------------------------------------------------------------------------------------

test("logIn sends its options and the session's settings, and no query", async () => {
  const pending = logIn("postgres://ada@h/sums?sslmode=disable", {
    ...{ user: "bob", startup: { search_path: "mine" }, environment: false },
  });
  const session = await accepted();
  expect(await parametersOf(session)).toMatchObject({ user: "bob", database: "sums", search_path: "mine" });
  session.send(login());
  await pending;
  expect(await isPending(session.peer.received())).toBe(true);
});

test.each([
  [undefined, undefined],
  ["database", "database"],
  ["true", "true"],
])("replication %s is requested in the StartupMessage", async (replication, expected) => {
  const { parameters } = await loggedIn({ replication, startup: { search_path: "mine" } });
  expect(parameters.replication).toBe(expected);
  expect(Object.keys(parameters).at(-1)).toBe(expected ? "replication" : "search_path");
});

test("an unknown option is refused before anything is connected", async () => {
  await expect(logIn(place, { replicate: "database" } as never)).rejects.toMatchObject({ code: "UNKNOWN_OPTION" });
});

// -- the socket -------------------------------------------------------------------------------------------------------

test("if nothing has arrived after the login, the socket itself is handed over", async () => {
  let made: Socket | undefined;
  const { handover } = await loggedIn({ connect: connectWith((socket) => (made = socket)) });
  expect(handover.socket).toBe(made);
});

test("bytes after the login belong to the caller, and the driver does not read them", async () => {
  // Messages that would end a session of the driver.
  const behind = Buffer.concat([completeAndReady("SET"), wire.commandComplete("SET")]);
  const { session, handover } = await loggedIn({}, behind);
  const { socket } = handover;
  await quiet();
  expect(await bytesOf(socket)).toEqual(behind);
  session.send(wire.readyForQuery());
  expect(await bytesOf(socket)).toEqual(wire.readyForQuery());
});

test("a socket with bytes after the login otherwise behaves like the original", async () => {
  const secured = {} as Socket;
  const told: unknown[] = [];
  const connect = connectWith(() => ({
    ...{ address: "10.0.0.1", readsWhileIdle: true },
    startTls: async (name: string) => (told.push(["tls", name]), secured),
    ref: () => void told.push("ref"),
    unref: () => void told.push("unref"),
    flushed: () => (told.push("flushed"), undefined),
    close: async () => void told.push("close"),
  }));
  const { socket } = (await loggedIn({ connect }, wire.readyForQuery())).handover;
  expect(socket).toMatchObject({ address: "10.0.0.1", readsWhileIdle: true });
  told.length = 0;
  socket.ref!();
  socket.unref!();
  socket.flushed!();
  expect(await socket.startTls("name")).toBe(secured);
  await socket.close();
  expect(told).toEqual(["ref", "unref", "flushed", ["tls", "name"], "close"]);
});

test("a socket without optional methods is handed over without them", async () => {
  const { socket } = (await loggedIn({}, wire.readyForQuery())).handover;
  expect(socket.flushed!()).toBeUndefined();
  expect(() => socket.unref!()).not.toThrow();
});

test.each([1, 2, 3, 7, 64, 999])("in chunks of %d bytes the login reads its own messages and no more", async (size) => {
  const told: string[] = [];
  const connect = connectWith(({ close }) => ({
    flushed: () => (told.push("flushed"), undefined),
    close: () => (told.push("close"), close()),
  }));
  const pending = logIn(place, { connect });
  const session = await accepted();
  await session.flight();
  const long = "x".repeat(9_000);
  // A part of a message, which could be another ReadyForQuery.
  const behind = Buffer.from([90, 0, 0, 0, 99, 1]);
  const sent = Buffer.concat([
    wire.authenticationOk(),
    wire.parameterStatus("a.long", long),
    login().subarray(9),
    behind,
  ]);
  for (let at = 0; at < sent.length; at += size) session.peer.send(sent.subarray(at, at + size));
  const { socket, backendKey, parameters } = await pending;
  expect(told).not.toContain("close");
  told.length = 0;
  expect([...backendKey]).toEqual([0, 0, 0, 7, 0, 0, 0, 9]);
  expect(parameters.get("a.long")).toBe(long);
  const rest: number[] = [];
  while (rest.length < behind.length) rest.push(...(await socket.read())!);
  expect(rest).toEqual([...behind]);
  // The login has sent no Terminate, it does not wait for the socket, and the socket is open.
  await quiet();
  await socket.write(new Uint8Array([9]));
  expect([...(await session.peer.received())!]).toEqual([9]);
  expect(told).toEqual([]);
  await socket.close();
  expect(told).toEqual(["close"]);
});

test("a server that closes during the login is a lost connection", async () => {
  const pending = logIn(place);
  const session = await accepted();
  session.send(wire.authenticationOk());
  session.peer.end();
  const message = expect.stringContaining("the server closed it");
  await expect(pending).rejects.toMatchObject({ name: "ConnectionError", code: "CONNECTION_LOST", message });
});

test("a login that fails leaves no socket open", async () => {
  const pending = failure(logIn(place));
  const session = await accepted();
  await session.flight();
  session.send(fatal("28P01"));
  expect(await pending).toMatchObject({ code: "28P01" });
  expect(await session.flight()).toEqual(["end"]);
});

test("a message as long as SSLRequest is not mistaken for one", async () => {
  const pending = logIn({ ...place, password: "ab", allowCleartextPassword: true });
  const session = await accepted();
  await session.flight();
  session.send(wire.authentication(3));
  const { name, size } = (await session.message())!;
  expect([name, size]).toEqual(["PasswordMessage", 8]);
  const behind = Buffer.from([65, 0, 0]);
  session.send(login(), behind);
  expect(await bytesOf((await pending).socket)).toEqual(behind);
});

test("an invalid message length is refused", async () => {
  const pending = logIn(place);
  const session = await accepted();
  session.send(Buffer.from([82, 0, 0, 0, 3, 0, 0, 0, 0]));
  await expect(pending).rejects.toMatchObject({ name: "ProtocolError" });
});

// -- several hosts ----------------------------------------------------------------------------------------------------

const row = (text: string) => [
  wire.rowDescription([{ name: "transaction_read_only", oid: 25 }]),
  wire.dataRow([Buffer.from(text)]),
  completeAndReady("SHOW"),
];

/** Accepts a login that then queries the server's role. */
async function asked(behind: Buffer[] = []): Promise<Session> {
  const session = await accepted();
  await session.flight();
  session.send(login(), ...behind);
  expect((await session.message())!.body.toString()).toBe("SHOW transaction_read_only\0");
  return session;
}

test("answers to the login's own queries belong to the login, and bytes after them to the caller", async () => {
  const pending = logIn({ ...place, targetSessionAttrs: "read-write" });
  const behind = wire.parameterStatus("a.b", "c");
  const session = await asked([wire.parameterStatus("a.first", "1")]);
  session.send(...row("off"), behind);
  const { socket, parameters } = await pending;
  expect(parameters.get("a.first")).toBe("1");
  expect(await bytesOf(socket)).toEqual(behind);
});

test("a server of the wrong role gets Terminate, and the next server's socket is handed over", async () => {
  const told: string[] = [];
  const made: Socket[] = [];
  const connect = connectWith((socket, { host }) => {
    made.push(socket);
    // Not every socket has this method.
    return host === "a" ? { flushed: () => (told.push(host), undefined) } : {};
  });
  const pending = logIn({ ...place, host: "a,b,c", targetSessionAttrs: "read-write", connect });
  for (const _ of "ab") {
    const other = await asked();
    other.send(...row("on"));
    expect([await other.flight(), await other.flight()]).toEqual([["Terminate"], ["end"]]);
  }
  const last = await asked();
  last.send(...row("off"));
  expect((await pending).socket).toBe(made[2]);
  // Closing the socket must not lose Terminate.
  expect(told).toEqual(["a"]);
});

// -- TLS -------------------------------------------------------------------------------------------------------------

/** A socket whose TLS upgrade returns the same wire under another name. Records the requested names. */
function upgrading() {
  const names: string[] = [];
  const { connect } = server;
  let upgraded: Socket | undefined;
  const making = async (where: ConnectOptions) => {
    const socket = await connect(where);
    const startTls = async (name: string) => (names.push(name), (upgraded = { ...socket, address: "secured" }));
    return { ...socket, startTls };
  };
  return { connect: making, names, upgraded: () => upgraded };
}

test("a server with TLS is logged in through TLS, and the secured socket is handed over", async () => {
  const { connect, names, upgraded } = upgrading();
  const pending = logIn({ ...place, sslmode: "require", connect });
  const session = await accepted();
  expect(await session.flight()).toEqual(["SSLRequest"]);
  session.send(Buffer.from("S"));
  expect(await session.flight()).toEqual(["StartupMessage"]);
  session.send(login());
  const { socket, encrypted } = await pending;
  expect([socket, names, encrypted]).toEqual([upgraded(), ["h"], true]);
  expect(socket).toBe(upgraded());
});

test("a login over TLS is bound to the certificate of the secured socket", async () => {
  const certificate = new X509Certificate(rootCertificates[0]!).raw;
  const connect = connectWith((socket) => ({ startTls: async () => ({ ...socket, certificate }) }));
  const pending = logIn(place, { sslmode: "require", password: "x", connect });
  pending.catch(() => {});
  const session = await accepted();
  await session.flight();
  session.send(Buffer.from("S"));
  await session.flight();
  session.send(wire.authentication(10, Buffer.from("SCRAM-SHA-256-PLUS\0\0")));
  expect((await session.message())!.body.toString("latin1")).toMatch(/^SCRAM-SHA-256-PLUS\0.*p=tls-server-end-point/s);
  session.peer.end();
  await expect(pending).rejects.toMatchObject({ code: "CONNECTION_LOST" });
});

test("a server without TLS is logged in without TLS if that is allowed", async () => {
  const { connect, names } = upgrading();
  const pending = logIn({ ...place, sslmode: "prefer", connect });
  const session = await accepted();
  expect(await session.flight()).toEqual(["SSLRequest"]);
  session.send(Buffer.from("N"));
  expect(await session.flight()).toEqual(["StartupMessage"]);
  const behind = Buffer.from([65, 0, 0]);
  session.send(Buffer.concat([login(), behind]));
  const { socket, encrypted } = await pending;
  expect([names, encrypted]).toEqual([[], false]);
  expect(await bytesOf(socket)).toEqual(behind);
});

test("a socket that is already encrypted is not upgraded to TLS, whatever sslmode says", async () => {
  const connect = connectWith(() => ({ isEncrypted: true }));
  const { encrypted } = (await loggedIn({ connect, sslmode: "require" }, wire.readyForQuery())).handover;
  expect(encrypted).toBe(true);
});

// -- the owner of the connection, and cancel --------------------------------------------------------------------------

test("isHome is always true, unless sockets belong to requests and this is another request", async () => {
  expect((await loggedIn()).handover.isHome()).toBe(true);
  let request = 1;
  installRuntime({
    ...runtime(),
    inRequest: () => {
      const home = request;
      return () => request === home;
    },
  });
  const { handover } = await loggedIn();
  expect(handover.isHome()).toBe(true);
  request = 2;
  expect(handover.isHome()).toBe(false);
});

test("cancel sends this session's key on a second socket, and waits until that socket closes", async () => {
  const { handover } = await loggedIn();
  await loggedIn(); // whose key has come since
  const canceling = handover.cancel();
  const second = await accepted();
  expect(Buffer.from((await second.peer.received())!)).toEqual(
    Buffer.concat([wire.int32(16), wire.int32(80877102), wire.int32(7), wire.int32(9)]),
  );
  expect(await isPending(canceling)).toBe(true);
  second.peer.end();
  await canceling;
  expect(Buffer.from(handover.backendKey)).toEqual(Buffer.concat([wire.int32(7), wire.int32(9)]));
});

test("cancel connects to the address that the login has found", async () => {
  const hosts: string[] = [];
  const connect = connectWith((_, { host }) => (hosts.push(host), { address: "10.0.0.1" }));
  const { handover } = await loggedIn({ connect });
  const canceling = handover.cancel();
  (await accepted()).peer.end();
  await canceling;
  expect(hosts).toEqual(["h", "10.0.0.1"]);
});

test("a cancel that reaches no server does not reject", async () => {
  const connect = vi.fn(server.connect);
  const { handover } = await loggedIn({ connect });
  connect.mockRejectedValue(new Error("no server"));
  await handover.cancel();
  expect(connect).toHaveBeenCalledTimes(2);
});
