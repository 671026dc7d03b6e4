// logIn and its socket: what it sends, TLS on the way, and whose the connection is behind the login.
import { X509Certificate } from "node:crypto";
import { rootCertificates } from "node:tls";
import { beforeEach, expect, test, vi } from "vitest";
import { logIn, type LogInOptions } from "../../js/api/log-in.ts";
import type { ConnectOptions, Socket } from "../../js/sockets/contract.ts";
import { installRuntime, runtime } from "../../js/sockets/runtime.ts";
import { accepted, isPending, newServer, quiet, server, type Session } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

beforeEach(() => newServer());

const place = { host: "h", user: "u", sslmode: "disable", environment: false } as const;
const login = () =>
  Buffer.concat([wire.authenticationOk(), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery()]);

/** The parameters of the StartupMessage that comes. */
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

/** A login that the server takes at once. */
async function loggedIn(options: LogInOptions = {}) {
  const pending = logIn(place, options);
  const session = await accepted();
  const parameters = await parametersOf(session);
  session.send(login());
  return { session, parameters, handover: await pending };
}

// -- what is sent ----------------------------------------------------------------------------------------------------

test("it logs in as its options say, with the session's settings, and asks for nothing", async () => {
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
])("replication %s is asked for by the login", async (replication, expected) => {
  const { parameters } = await loggedIn({ replication, startup: { search_path: "mine" } });
  expect(parameters.replication).toBe(expected);
  expect(Object.keys(parameters).at(-1)).toBe(expected ? "replication" : "search_path");
});

test("an unknown option is refused before anything is connected", async () => {
  await expect(logIn(place, { replicate: "database" } as never)).rejects.toMatchObject({ code: "UNKNOWN_OPTION" });
});

// -- the socket -------------------------------------------------------------------------------------------------------

test("where nothing has come behind the login, the socket is handed over as it is", async () => {
  let made: Socket | undefined;
  const { connect } = server;
  const pending = logIn({ ...place, connect: async (where) => (made = await connect(where)) });
  (await accepted()).send(login());
  expect((await pending).socket).toBe(made);
});

test("what has come behind the login is the caller's, and never the driver's", async () => {
  // Messages that would end a session of the driver.
  const behind = Buffer.concat([wire.commandComplete("SET"), wire.readyForQuery(), wire.commandComplete("SET")]);
  const pending = logIn(place);
  const session = await accepted();
  session.send(Buffer.concat([login(), behind]));
  const { socket } = await pending;
  await quiet();
  expect(Buffer.from((await socket.read())!)).toEqual(behind);
  session.send(wire.readyForQuery());
  expect(Buffer.from((await socket.read())!)).toEqual(wire.readyForQuery());
  await socket.write(new Uint8Array([1, 2]));
  const names = await session.flight();
  expect(names[0]).toBe("StartupMessage");
});

test("a socket with bytes behind the login is in all else the one that was made", async () => {
  const { connect } = server;
  const secured = {} as Socket;
  const told: unknown[] = [];
  const traits = { address: "10.0.0.1", readsWhileIdle: true, flushed: () => undefined };
  const more = {
    startTls: async (name: string) => (told.push(["tls", name]), secured),
    hold: (isHeld: boolean) => void told.push(["hold", isHeld]),
    flushed: () => (told.push("flushed"), undefined),
    close: async () => void told.push("close"),
  };
  const making = async (where: ConnectOptions) => Object.assign(await connect(where), traits, more);
  const pending = logIn({ ...place, connect: making });
  (await accepted()).send(Buffer.concat([login(), wire.readyForQuery()]));
  const { socket } = await pending;
  expect(socket).toMatchObject({ address: "10.0.0.1", readsWhileIdle: true });
  told.length = 0;
  socket.hold!(true);
  socket.flushed!();
  expect(await socket.startTls("name")).toBe(secured);
  await socket.close();
  expect(told).toEqual([["hold", true], "flushed", ["tls", "name"], "close"]);
});

test("one without those parts does without", async () => {
  const pending = logIn(place);
  (await accepted()).send(Buffer.concat([login(), wire.readyForQuery()]));
  const { socket } = await pending;
  expect(socket.flushed!()).toBeUndefined();
  expect(() => socket.hold!(false)).not.toThrow();
});

test("ending the login neither writes to the socket, nor waits for it, nor closes it", async () => {
  const { connect } = server;
  const told: string[] = [];
  const making = async (where: ConnectOptions) => {
    const socket = await connect(where);
    const { close } = socket;
    return Object.assign(socket, {
      flushed: () => (told.push("flushed"), undefined),
      close: () => (told.push("close"), close()),
    });
  };
  const pending = logIn({ ...place, connect: making });
  const session = await accepted();
  await session.flight();
  session.send(login());
  await pending;
  told.length = 0;
  await quiet();
  expect(told).toEqual([]);
  expect(await isPending(session.peer.received())).toBe(true);
});

test("a message of any length is passed on, wherever it is split", async () => {
  const pending = logIn(place);
  const session = await accepted();
  const long = "x".repeat(9_000);
  const all = Buffer.concat([wire.authenticationOk(), wire.parameterStatus("a.long", long), login().subarray(9)]);
  const behind = Buffer.from([90, 1, 2]);
  const sent = Buffer.concat([all, behind]);
  for (let at = 0; at < sent.length; at += 999) session.send(sent.subarray(at, at + 999));
  const { parameters, socket } = await pending;
  expect(parameters.get("a.long")).toBe(long);
  expect(Buffer.from((await socket.read())!)).toEqual(behind);
});

test("a server that ends in the login is a lost connection", async () => {
  const pending = logIn(place);
  const session = await accepted();
  session.send(wire.authenticationOk());
  session.peer.end();
  await expect(pending).rejects.toMatchObject({
    name: "ConnectionError",
    code: "CONNECTION_LOST",
    message: expect.stringContaining("the server closed it"),
  });
});

test("a message of ours that is as long as SSLRequest asks for no TLS", async () => {
  const pending = logIn({ ...place, password: "ab", allowCleartextPassword: true });
  const session = await accepted();
  await session.flight();
  session.send(wire.authentication(3));
  const { name, size } = (await session.message())!;
  expect([name, size]).toEqual(["PasswordMessage", 8]);
  const behind = Buffer.from([65, 0, 0]);
  session.send(login(), behind);
  expect(Buffer.from((await (await pending).socket.read())!)).toEqual(behind);
});

test("a length that no message has is refused", async () => {
  const pending = logIn(place);
  const session = await accepted();
  session.send(Buffer.from([82, 0, 0, 0, 3, 0, 0, 0, 0]));
  await expect(pending).rejects.toMatchObject({ name: "ProtocolError" });
});

// -- several hosts ----------------------------------------------------------------------------------------------------

const row = (text: string) => [
  wire.rowDescription([{ name: "transaction_read_only", oid: 25 }]),
  wire.dataRow([Buffer.from(text)]),
  wire.commandComplete("SHOW"),
  wire.readyForQuery(),
];

/** A login that asks the server what it is, once it has been let in. */
async function asked(behind: Buffer[] = []): Promise<Session> {
  const session = await accepted();
  await session.flight();
  session.send(login(), ...behind);
  expect((await session.message())!.body.toString()).toBe("SHOW transaction_read_only\0");
  return session;
}

test("what the login has to ask of the server is the login's, too; what stands behind that is the caller's", async () => {
  const pending = logIn({ ...place, targetSessionAttrs: "read-write" });
  const behind = wire.parameterStatus("a.b", "c");
  const session = await asked([wire.parameterStatus("a.first", "1")]);
  session.send(...row("off"), behind);
  const { socket, parameters } = await pending;
  expect(parameters.get("a.first")).toBe("1");
  expect(Buffer.from((await socket.read())!)).toEqual(behind);
});

test("a server that is not what was asked for is told so, and the next one's socket is handed over", async () => {
  const told: string[] = [];
  const made: Socket[] = [];
  const { connect } = server;
  const making = async (where: ConnectOptions) => {
    const socket = await connect(where);
    // Not every socket has it.
    if (where.host === "a") Object.assign(socket, { flushed: () => (told.push(where.host), undefined) });
    made.push(socket);
    return socket;
  };
  const pending = logIn({ ...place, host: "a,b,c", targetSessionAttrs: "read-write", connect: making });
  for (const _ of "ab") {
    const other = await asked();
    other.send(...row("on"));
    expect([await other.flight(), await other.flight()]).toEqual([["Terminate"], ["end"]]);
  }
  const last = await asked();
  last.send(...row("off"));
  expect((await pending).socket).toBe(made[2]);
  // Closing it must not lose Terminate.
  expect(told).toEqual(["a"]);
});

// -- TLS -------------------------------------------------------------------------------------------------------------

/** A socket whose upgrade gives the same wire with another name; says which names were asked for. */
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

test("a server that takes TLS is logged in through it, and the secured socket is handed over", async () => {
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
  const { connect } = server;
  const making = async (where: ConnectOptions) => {
    const socket = await connect(where);
    return { ...socket, startTls: async () => ({ ...socket, certificate }) };
  };
  const pending = logIn({ ...place, sslmode: "require", password: "x", connect: making });
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

test("a server that has no TLS is logged in without it where that may be", async () => {
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
  expect(Buffer.from((await socket.read())!)).toEqual(behind);
});

// -- whose it is, and cancel ------------------------------------------------------------------------------------------

test("it is at home everywhere, but where sockets belong to requests only in the one that logged in", async () => {
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

test("cancel sends this session's key on a second socket, and is over with that", async () => {
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

test("cancel goes to the address that the login has found", async () => {
  const { connect } = server;
  const hosts: string[] = [];
  const making = async (where: ConnectOptions) => {
    hosts.push(where.host);
    return Object.assign(await connect(where), { address: "10.0.0.1" });
  };
  const pending = logIn({ ...place, connect: making });
  (await accepted()).send(login());
  const canceling = (await pending).cancel();
  (await accepted()).peer.end();
  await canceling;
  expect(hosts).toEqual(["h", "10.0.0.1"]);
});

test("a cancel that finds no server does not reject", async () => {
  const { connect } = server;
  const making = vi.fn(connect);
  const pending = logIn({ ...place, connect: making });
  (await accepted()).send(login());
  const { cancel } = await pending;
  making.mockRejectedValue(new Error("no server"));
  await cancel();
  expect(making).toHaveBeenCalledTimes(2);
});
