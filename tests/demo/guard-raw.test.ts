// The guard against clients that no driver would be: raw messages over a socket, with small caps. How long a session
// may last, what it may leave behind, and that it never gets out of step.
import { connect as dial, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { Readable, Writable } from "node:stream";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Handover } from "pgz-edge";
import { guard, type Caps } from "../../worker-example/src/guard/guard.ts";
import { joined, message, Messages, texts } from "../../worker-example/src/guard/messages.ts";
import { serve, type Inbound, type Tenants } from "../../worker-example/src/guard/session.ts";
import { pause, until } from "../support/until.mjs";
import { ownServer } from "./demo-server.ts";

const role = `guard_raw_${process.pid}`;
const table = `guarded_raw_${process.pid}`;
const CAPS: Caps = { rows: 100, bytes: 100_000, message: 20_000, milliseconds: 2_000 };

let admin: pg.Client;
let tenants: Tenants;
let stopServer: () => unknown;
let listener: Server;
/** The caps of the next client. */
let caps = CAPS;
/** Sessions that have not ended. */
const open = new Set<Promise<void>>();
const clients = new Set<Socket>();

beforeAll(async () => {
  const { server, stop } = await ownServer();
  stopServer = stop;
  admin = new pg.Client({ connectionString: server.superuserUrl });
  await admin.connect();
  await admin.query(`create role ${role} login password 'of-the-role'; create table ${table} as select 1 as kept;
    grant select, insert, update, delete on ${table} to ${role}`);
  const url = new URL(server.superuserUrl);
  Object.assign(url, { username: role, password: "of-the-role", search: "?sslmode=disable" });
  tenants = { tenant_a: { password: "its secret", url: url.href } };
  listener = createServer((socket) => {
    socket.setNoDelay().on("error", () => {});
    const inbound = { readable: Readable.toWeb(socket), writable: Writable.toWeb(socket) } as unknown as Inbound;
    const session: Promise<void> = serve(inbound, tenants, caps).finally(() => {
      open.delete(session);
      socket.destroy();
    });
    open.add(session);
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
});

afterEach(async () => {
  caps = CAPS;
  for (const client of clients) client.destroy();
  clients.clear();
  await until(async () => open.size === 0 && (await sessions()).length === 0);
  expect((await admin.query(`select * from ${table}`)).rows).toEqual([{ kept: 1 }]);
});

afterAll(async () => {
  listener.close();
  await admin.query(`drop table ${table}; drop role ${role}`);
  await admin.end();
  await stopServer();
});

const sessions = async () =>
  (await admin.query("select pid, state, query from pg_stat_activity where usename = $1", [role])).rows;

// -- a client --------------------------------------------------------------------------------------------------------

const NONE = new Uint8Array(2);
const query = (text: string) => message("Q", text);
const parse = (text: string, name = "") => message("P", name, text, NONE);
const bind = (name = "", portal = "") => message("B", portal, name, NONE, NONE, NONE);
const execute = (rows = 0, portal = "") => message("E", portal, rows);
const run = (text: string) => joined([parse(text), bind(), execute()]);
const [sync, flush, terminate] = [message("S"), message("H"), message("X")];
/** A startup message or a request in its place, which have no type. */
const starting = (code: number, ...parts: (string | number)[]) => message("", code, ...parts);
const startup = starting(3 << 16, "user", "tenant_a", "");
const password = message("p", "its secret");

/**
 * Each message of a response as a word: `D:42` for a row with its first column, `E:25006` for an error, `end` for the
 * end of the connection.
 */
class Raw {
  readonly socket = dial((listener.address() as AddressInfo).port, "127.0.0.1").setNoDelay();
  readonly #words: string[] = [];
  #rest = Buffer.alloc(0);
  /** The answer to SSLRequest is one byte. */
  #isStarting = true;

  /** The position of the next message. */
  get #length() {
    if (this.#isStarting && this.#rest[0] === 78) return 1;
    return this.#rest.length < 5 ? Infinity : 1 + this.#rest.readInt32BE(1);
  }

  constructor() {
    clients.add(this.socket);
    this.socket.on("error", () => {});
    this.socket.on("close", () => this.#words.push("end"));
    this.socket.on("data", (chunk) => {
      this.#rest = Buffer.concat([this.#rest, chunk]);
      while (this.#rest.length >= this.#length) {
        const word = this.#length === 1 ? "N" : wordOf(this.#rest.subarray(0, this.#length));
        this.#rest = this.#rest.subarray(this.#length);
        this.#isStarting &&= word === "N";
        if (word !== "S") this.#words.push(word);
      }
    });
  }

  send(...pieces: Uint8Array[]) {
    this.socket.write(joined(pieces));
  }

  /** Reads up to so many ReadyForQuery (`Z`), to the end, or to another word. */
  async heard(count = 1, word = "Z"): Promise<string> {
    const last = () => this.#words.flatMap((said, index) => (said === word ? [index + 1] : []))[count - 1];
    await until(() => last() !== undefined || this.#words.includes("end"), `${count} ${word}, or the end`);
    return this.#words.splice(0, last() ?? this.#words.length).join(" ");
  }

  ask(...pieces: Uint8Array[]) {
    this.send(...pieces);
    return this.heard();
  }
}

function wordOf(bytes: Buffer): string {
  const type = String.fromCharCode(bytes[0]!);
  if (type === "E")
    return `E:${texts(bytes, 5)
      .find((field) => field.startsWith("C"))!
      .slice(1)}`;
  if (type === "D") return `D:${bytes.subarray(11, 11 + Math.max(0, bytes.readInt32BE(7))).toString()}`;
  return type === "Z" && bytes[5] !== 73 ? `Z${String.fromCharCode(bytes[5]!)}` : type;
}

async function loggedIn(): Promise<Raw> {
  const raw = new Raw();
  raw.send(startup, password);
  expect(await raw.heard()).toBe("R R Z");
  return raw;
}

const FINE = "T D:42 C Z";
const fine = query("select 42");

// -- time ------------------------------------------------------------------------------------------------------------

describe("a flight ends at the guard's own clock", () => {
  const off = "select set_config('statement_timeout', '0', true)";

  test.each([
    ["that has switched off the server's", [run(off), run("select pg_sleep(20)"), sync], "E:25P04 end"],
    [
      "whose Sync never comes",
      [parse("select generate_series(1, 9)"), bind(), execute(1), flush],
      "1 2 D:1 s E:25P04 end",
    ],
    ["that was refused and whose Sync never comes", [parse("delete from x")], "E:25006 E:25P04 end"],
    ["that was cut and whose Sync never comes", [run("select generate_series(1, 1000)"), flush], undefined],
  ])("%s", async (_, pieces, expected) => {
    const raw = await loggedIn();
    raw.send(...pieces);
    const heard = await raw.heard();
    if (expected) expect(heard).toBe(expected);
    expect(heard).toMatch(/E:25P04 end$/);
    await until(async () => (await sessions()).length === 0);
  });

  test("a flight whose response the client does not read ends", async () => {
    caps = { ...CAPS, rows: 1e9, bytes: 1e12 };
    const raw = await loggedIn();
    raw.socket.pause();
    raw.send(query("select repeat('x', 8000) from generate_series(1, 10000000)"));
    await until(async () => (await sessions()).some(({ state }) => state === "active"));
    await until(async () => (await sessions()).length === 0);
    await until(() => open.size === 0);
  });

  test("a login that stops halfway ends too", async () => {
    const raw = new Raw();
    raw.send(startup);
    expect(await raw.heard()).toBe("R E:25P04 end");
  });

  test("a session that is idle between two flights does not end", async () => {
    const raw = await loggedIn();
    expect(await raw.ask(fine)).toBe(FINE);
    await pause(CAPS.milliseconds + 300);
    expect(await raw.ask(fine)).toBe(FINE);
  });
});

// -- chunks ----------------------------------------------------------------------------------------------------------

test("the first flight may arrive with the password, split at any byte", async () => {
  const all = joined([startup, password, fine]);
  for (let at = 0; at < all.length; at++) {
    const raw = new Raw();
    raw.send(all.subarray(0, at));
    await pause(2);
    raw.send(all.subarray(at));
    expect(await raw.heard(2)).toBe(`R R Z ${FINE}`);
    raw.socket.destroy();
  }
});

test("flights may be split at any byte, or arrive in one chunk", async () => {
  const raw = await loggedIn();
  const flights = joined([run("select 1"), parse("select 2", "named"), sync, parse("delete from x"), sync, fine, sync]);
  const heard = `1 2 D:1 C 1 Z E:25006 Z ${FINE} Z`;
  for (let at = 0; at < flights.length; at++) {
    raw.send(flights.subarray(0, at));
    await pause(1);
    raw.send(flights.subarray(at));
    expect(await raw.heard(4)).toBe(heard);
    expect(await raw.ask(message("C", "Snamed"), sync)).toBe("3 Z");
  }
  raw.send(...Array.from({ length: 50 }, () => flights.slice()).flatMap((all) => [all, message("C", "Snamed"), sync]));
  expect(await raw.heard(250)).toBe(Array(50).fill(`${heard} 3 Z`).join(" "));
});

// -- order -----------------------------------------------------------------------------------------------------------

test("the cancel of a truncated response hits no other flight", async () => {
  const raw = await loggedIn();
  for (let round = 0; round < 30; round++) {
    raw.send(query(`select generate_series(1, ${101 + round * 50})`), query("select 7, pg_sleep(0.005)"), fine);
    const heard = (await raw.heard(3)).split(" E:54000 ");
    expect(heard[1]).toBe(`Z T D:7 C Z ${FINE}`);
  }
});

test("a cancel by another session leaves the guard in step, and its transactions rolled back", async () => {
  const raw = await loggedIn();
  let isOver = false;
  const cancelling = (async () => {
    while (!isOver) await admin.query("select pg_cancel_backend(pid) from pg_stat_activity where usename = $1", [role]);
  })();
  const set = "select set_config('default_transaction_read_only', 'off', false), pg_sleep(0.001)";
  const write = `with gone as (delete from ${table} returning kept) table gone`;
  const seen = new Set<string>();
  for (let round = 0; round < 300; round++) {
    seen.add(await raw.ask(run(set), run(write), sync));
  }
  isOver = true;
  await cancelling;
  for (const heard of seen) expect(heard).toMatch(/^(1 )?(2 )?(D:off (C )?)?(1 )?(2 )?E:(57014|25006) Z$/);
  expect(await raw.ask(query("show default_transaction_read_only"))).toBe("T D:on C Z");
});

test("a client is told when its server ends, in a flight or between two", async () => {
  for (const pieces of [[], [query("select pg_sleep(20)")]]) {
    const raw = await loggedIn();
    raw.send(...pieces);
    await pause(100);
    await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", [role]);
    expect(await raw.heard()).toMatch(/^(T )?E:57P01 end$/);
  }
});

test("a ROLLBACK that was cancelled is sent again before the next flight", async () => {
  const asked: string[] = [];
  const answers: Uint8Array[] = [];
  let wake = () => {};
  const ready = (status: string) => message("Z", new TextEncoder().encode(status));
  const begun = [message("1"), message("2"), message("C", "BEGIN"), message("I"), ready("T")];
  const cancelled = [message("E", "C57014", new Uint8Array(1)), ready("E")];
  const server = {
    socket: {
      write(bytes: Uint8Array) {
        const isFirst = asked.push(Buffer.from(bytes).toString("latin1")) === 1;
        answers.push(joined(isFirst ? [...begun, ...cancelled] : [message("C", "ROLLBACK"), ready("I")]));
        wake();
        return Promise.resolve();
      },
      async read() {
        if (answers.length === 0) await new Promise<void>((resolve) => (wake = resolve));
        return answers.shift()!;
      },
    },
    cancel: () => Promise.resolve(),
  } as unknown as Handover;
  const sent = [query(""), terminate];
  const messages = new Messages(100, () => Promise.resolve(sent.shift() ?? null));
  const written: Uint8Array[] = [];
  const write = (bytes: Uint8Array) => Promise.resolve(void written.push(bytes));
  await guard({ messages, left: new Promise(() => {}), write }, server, CAPS);
  expect(asked.map((text) => text.split("rollback;").length - 1)).toEqual([1, 1]);
  expect(joined(written)).toEqual(joined([message("I"), ready("I")]));
});

test("after an error that the client has seen, messages up to Sync are dropped", async () => {
  const raw = await loggedIn();
  for (const [failing, code] of [
    ["select 1/0", "22012"],
    ["select generate_series(1, 1000)", "54000"],
  ] as const) {
    raw.send(run(failing), flush);
    expect(await raw.heard(1, `E:${code}`)).toContain("1 ");
    expect(await raw.ask(fine, run("select 1"), sync)).toBe("Z");
  }
});

test.each([
  [
    "a Query in a refused flight is dropped up to Sync",
    [parse("delete from x"), query("select generate_series(1, 1000)"), sync],
    "E:25006 Z",
  ],
  [
    "what follows an error is dropped up to Sync",
    [run("select 1/0"), parse("delete from x"), execute(), query("x"), sync],
    "1 E:22012 Z",
  ],
  [
    "a refusal behind an answer",
    [run("select 1"), parse("delete from x"), bind(), execute(), sync],
    "1 2 D:1 C E:25006 Z",
  ],
  ["a Sync alone", [sync], "Z"],
  ["an empty Query", [query("")], "I Z"],
  ["a Query without a text", [message("Q")], "I Z"],
  ["a Parse without a text", [message("P"), sync], "E:08P01 Z"],
  ["a Parse whose text has no end", [message("P", new TextEncoder().encode("\0delete from x")), sync], "E:08P01 Z"],
  ["our own unnamed statement again", [bind(), execute(), run("select 1"), sync], undefined],
  ["several statements in a Query", [query(`select 1; commit; delete from ${table}`)], "E:42601 Z"],
])("%s", async (_, pieces, expected) => {
  const raw = await loggedIn();
  const heard = await raw.ask(...pieces);
  if (expected) expect(heard).toBe(expected);
  expect(await raw.ask(fine)).toBe(FINE);
});

// -- messages that end a session --------------------------------------------------------------------------------------

/** A type with a length that may be false. */
function header(type: string, length: number): Buffer {
  const bytes = Buffer.from(`${type}0000`);
  bytes.writeInt32BE(length, 1);
  return bytes;
}

test.each([
  ["FunctionCall", [message("F", 1, NONE, NONE, NONE)], "E:0A000 end"],
  ["CopyData", [message("d", "x")], "E:0A000 end"],
  ["CopyDone", [message("c")], "E:0A000 end"],
  ["a Query in an open flight", [parse("select 1"), fine], "E:0A000 end"],
  ["a password again", [password], "E:0A000 end"],
  ["Terminate", [terminate], "end"],
  ["Terminate in the middle of a flight", [run("select pg_sleep(20)"), terminate], "end"],
  ["a length of 3", [header("Q", 3)], "E:08P01 end"],
  ["a length below zero", [header("Q", -1)], "E:08P01 end"],
  ["a length of 2^31 - 1", [header("Q", 2 ** 31 - 1)], "E:54000 end"],
  ["a message above the cap", [query("x".repeat(20_000))], "E:54000 end"],
])("%s ends the session", async (_, pieces, expected) => {
  const raw = await loggedIn();
  raw.send(...pieces);
  const heard = (await raw.heard()).split(" ");
  expect(heard.filter((word) => !/^[12]$/.test(word)).join(" ")).toBe(expected);
  await until(async () => (await sessions()).length === 0);
});

test.each([
  ["a second StartupMessage", startup],
  ["SSLRequest", starting(80_877_103)],
  ["GSSENCRequest", starting(80_877_104)],
  ["CancelRequest", starting(80_877_102, 1, 1)],
])("%s behind the login gets nowhere", async (_, bytes) => {
  const raw = await loggedIn();
  raw.send(bytes.slice(), fine);
  await pause(100);
  raw.socket.end();
  expect((await raw.heard()).replace(/^E:\w+ /, "")).toBe("end");
});

// -- startups --------------------------------------------------------------------------------------------------------

test("names in a startup are read at even places only, and none of its options reaches the server", async () => {
  const raw = new Raw();
  const options = ["options", "-c statement_timeout=0 -c default_transaction_read_only=off", "replication", "true"];
  raw.send(starting(3 << 16, "database", "user", ...options, "user", "tenant_a", ""), password);
  expect(await raw.heard()).toBe("R R Z");
  expect(await raw.ask(query("show statement_timeout"))).toBe("T D:10s C Z");
  expect(await raw.ask(query("show default_transaction_read_only"))).toBe("T D:on C Z");
  expect(await raw.ask(query("IDENTIFY_SYSTEM"))).toBe("E:25006 Z");
});

test.each([
  [
    "SSLRequest and GSSENCRequest before the startup",
    [starting(80_877_103), starting(80_877_104), startup, password],
    "N N R R Z",
  ],
  ["a CancelRequest", [starting(80_877_102, 1, 1)], "end"],
  ["protocol 2", [starting(2 << 16, "user", "tenant_a", "")], "end"],
  ["no user", [starting(3 << 16, ""), password], "R E:28P01 end"],
  ["an empty password", [startup, message("p", "")], "R E:28P01 end"],
  ["no password", [startup, message("p")], "R E:28P01 end"],
  ["a Query for a password", [startup, fine], "R E:28P01 end"],
  ["a startup of four bytes", [Uint8Array.of(0, 0, 0, 4, 0, 0, 0, 0)], "E:08P01 end"],
  ["a long startup", [starting(3 << 16, "user", "x".repeat(10_000), "")], "E:54000 end"],
])("a login with %s", async (_, pieces, expected) => {
  const raw = new Raw();
  raw.send(...pieces);
  expect(await raw.heard()).toBe(expected);
});

// -- SQL -------------------------------------------------------------------------------------------------------------

test.each([
  ["25006", "discard all"],
  ["25006", "prepare gone as select 1"],
  ["25006", "execute gone"],
  ["25006", "declare held cursor with hold for select 1"],
  ["25006", "set session authorization default"],
  ["25006", "set role none"],
  ["25006", "reset role"],
  ["25006", "listen orders"],
  ["25006", "notify orders"],
  ["25006", "create temp table t (a int)"],
  ["25006", "select 1 into temp t"],
  ["25006", "load 'x'"],
  ["25006", "lock table pg_class"],
  ["25006", "savepoint a"],
  ["25006", "release a"],
  ["25006", "copy pg_class to stdout"],
  ["25006", `select * from ${table} for update`],
  ["25006", "select lo_creat(-1)"],
  ["25006", "select lo_from_bytea(0, 'x')"],
  ["42501", "select set_config('role', 'postgres', true)"],
  ["42501", "select set_config('session_authorization', 'postgres', true)"],
  ["42501", "select pg_read_file('postgresql.conf')"],
  ["22000", "select query_to_xml('commit', true, true, '')"],
])("%s: %s", async (code, text) => {
  const raw = await loggedIn();
  for (const pieces of [[query(text)], [run(text), sync]])
    expect(
      (await raw.ask(...pieces))
        .split(" ")
        .filter((word) => !/^[12T]$/.test(word))
        .join(" "),
    ).toBe(`E:${code} Z`);
  expect(await raw.ask(fine)).toBe(FINE);
});

test("nothing of a flight is left in the next: advisory locks, settings, portals, notifications", async () => {
  const raw = await loggedIn();
  await admin.query("listen orders");
  const told: unknown[] = [];
  admin.on("notification", (note) => told.push(note));
  expect(
    await raw.ask(run("select pg_advisory_lock(7), pg_advisory_lock(7)"), run("select pg_notify('orders', 'x')"), sync),
  ).toBe("1 2 D: C 1 2 D: C Z");
  expect(
    await raw.ask(query("select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()")),
  ).toBe("T D:0 C Z");
  expect(await raw.ask(parse("select generate_series(1, 9)"), bind("", "p"), execute(1, "p"), sync)).toBe(
    "1 2 D:1 s Z",
  );
  expect(await raw.ask(execute(1, "p"), sync)).toBe("E:34000 Z");
  expect(await raw.ask(query("select set_config('search_path', 'x', false)"))).toBe("T D:x C Z");
  expect(await raw.ask(query("show search_path"))).toMatch(/public/);
  expect(await raw.ask(query("explain (analyze, costs off) create temp table t as select 1"))).toMatch(/ C Z$/);
  expect(await raw.ask(query("table t"))).toBe("E:42P01 Z");
  expect(await raw.ask(query("select set_config('temp_file_limit', '-1', true)"))).toBe("T E:42501 Z");
  await admin.query("unlisten orders");
  expect(told).toEqual([]);
});
