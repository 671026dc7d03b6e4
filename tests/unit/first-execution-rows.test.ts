// The rows of a first run (js/statement/first-execution.ts), over sockets in memory: which rows wait for the catalog,
// which are too many for that or cannot be read, and what is reported if the statement has run.
import { beforeEach, expect, test, vi } from "vitest";
import { Connection } from "../../js/connection/connection.ts";
import { sql } from "../../js/statement/sql.ts";
import { MOST_HELD } from "../../js/util/limits.ts";
import { FIRST_OF_A_DATABASE } from "../../js/values/oid.ts";
import type { CoreConnection } from "../../js/wasm/boundary.ts";
import { behindPrelude, checked, described, failed, firstFlight, over, says, texts } from "../support/first-runs.ts";
import {
  accepted,
  client,
  int4,
  isPending,
  letIn,
  newClient,
  otherClient,
  quiet,
  shutdown,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
/** Without "unnamed" the check before a statement would have a name from the third use on. */
const OPTIONS = { firstRun: "text", prepare: "unnamed" } as const;
beforeEach(() => newClient(OPTIONS));

const text = { name: "t", oid: 25, size: -1 };
const pair = { name: "c", oid: 20_002, size: -1 };
const pairs = { name: "c", oid: 20_003, size: -1 };
const mood = { name: "m", oid: 20_001, size: 4 };
const moods = { name: "m", oid: 20_004, size: -1 };
const record = { name: "r", oid: 2249, size: -1 };
const PAIR = '[20002,"c","pair",[23],["a"]]';
const MOODS = '[[20004,"A","_mood",[20001],[]],[20001,"e","mood",[0],[]]]';

async function firstRun(session?: Session): Promise<Session> {
  const next = session ?? (await letIn());
  expect(await next.flight()).toEqual(firstFlight);
  return next;
}

/** A row of several columns, as text. */
const row = (...cells: string[]) => wire.dataRow(cells.map((cell) => Buffer.from(cell)));

async function goesOn(session: Session): Promise<void> {
  const next = client.query("select n");
  await firstRun(session);
  session.send(checked(), wire.bindComplete(), texts("7"), over(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
}

// -- waiting rows ----------------------------------------------------------------------------------------------------

test("one composite column makes whole rows wait, and a column of fixed size does not", async () => {
  const call = client.query("select n, c");
  const session = await firstRun();
  session.send(checked([int4, pair]), wire.bindComplete(), row("1", "(2)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says(`[${PAIR}]`));
  expect((await call).rows).toEqual([{ n: 1, c: { a: 2 } }]);
  for (const encoded of [false, true]) {
    const other = { ...mood, oid: mood.oid + 100 + Number(encoded) };
    const plain = encoded ? client.json("select t, m") : client.query("select t, m, 2");
    await firstRun(session);
    session.send(checked([text, other]), wire.bindComplete(), row("x", "sad"), over(1));
    const result = await plain;
    const found = "rows" in result ? result.rows : JSON.parse(new TextDecoder().decode(result as Uint8Array));
    expect(found).toEqual([{ t: "x", m: "sad" }]);
  }
});

test("the lowest OID of a database's own types counts as such a type", async () => {
  const call = client.query("select c");
  const session = await firstRun();
  session.send(checked([{ ...pair, oid: FIRST_OF_A_DATABASE }]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says(`[[${FIRST_OF_A_DATABASE},"c","pair",[23],["a"]]]`));
  expect((await call).rows).toEqual([{ c: { a: 1 } }]);
});

test("a cached type without a composite inside needs no further look-up, on any connection", async () => {
  const database = "first-execution-rows";
  newClient({ ...OPTIONS, database });
  const learning = client.query("select m");
  const session = await firstRun();
  session.send(checked([moods]), wire.bindComplete(), texts("{sad}"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says(MOODS));
  expect((await learning).rows).toEqual([{ m: ["sad"] }]);
  await using other = otherClient({ ...OPTIONS, database });
  for (const [user, at] of [
    [client, session],
    [other, undefined],
  ] as const) {
    const call = user.query(`select m, ${at ? 1 : 2}`);
    const next = await firstRun(at);
    next.send(checked([moods]), wire.bindComplete(), texts("{glad}"), over(1));
    expect((await call).rows).toEqual([{ m: ["glad"] }]);
  }
});

test("a type with a composite inside is looked up each time, in an array too", async () => {
  let session: Session | undefined;
  for (const name of ["a", "b"]) {
    const call = client.query(`select c as ${name}`);
    session = await firstRun(session);
    session.send(checked([pairs]), wire.bindComplete(), texts('{"(1)"}'), over(1));
    expect(await session.flight()).toEqual(["Query"]);
    session.send(says(`[[20003,"A","_pair",[20002],[]],[20002,"c","pair",[23],["${name}"]]]`));
    expect((await call).rows).toEqual([{ c: [{ [name]: 1 }] }]);
  }
});

// -- dropped rows ----------------------------------------------------------------------------------------------------

/** Records the names of what the core is told outside of operations. */
function toldCore(): string[] {
  const names: string[] = [];
  const { tell } = Connection.prototype;
  vi.spyOn(Connection.prototype, "tell").mockImplementation(function (this: Connection, command) {
    const noted = (handle: CoreConnection) =>
      new Proxy(handle, {
        get(target, name) {
          names.push(String(name));
          const member = target[name as keyof CoreConnection] as (...given: unknown[]) => unknown;
          return member.bind(target);
        },
      });
    tell.call(this, (handle) => command(noted(handle)));
  });
  return names;
}

test("held rows are dropped from the core when their call is aborted", async () => {
  const told = toldCore();
  try {
    const abort = new AbortController();
    const call = client.query("select c", { signal: abort.signal });
    const session = await firstRun();
    session.send(checked([pair]), wire.bindComplete(), texts("(1)"), over(1));
    expect(await session.flight()).toEqual(["Query"]);
    expect(told).not.toContain("drop_held");
    abort.abort();
    await expect(call).rejects.toMatchObject({ code: "ABORTED" });
    const cancel = await accepted();
    await cancel.flight();
    cancel.peer.end();
    session.send(failed("57014"));
    await quiet();
    expect(told).toContain("drop_held");
  } finally {
    vi.restoreAllMocks();
  }
});

test("too many waiting rows fail the call, and the next call describes", async () => {
  const call = client.query("select c");
  const session = await firstRun();
  session.send(checked([pair]), wire.bindComplete());
  const many = Buffer.concat(Array<Buffer>(17).fill(texts(`(${"1".repeat(MOST_HELD >> 4)})`)));
  session.send(many);
  await expect(call).rejects.toMatchObject({ name: "UsageError", code: "TYPES_NEED_DESCRIBE" });
  await expect(call).rejects.toThrow("more than 4 MiB");
  const cancel = await accepted();
  expect(await cancel.flight()).toEqual(["CancelRequest"]);
  cancel.peer.end();
  session.send(failed("57014"));
  const next = client.query("select c").catch(() => {});
  expect(await session.flight()).toEqual(described);
  session.peer.end();
  await next;
});

test("no row with a record reaches a stream", async () => {
  const opening = client.stream("select r");
  const ending = expect(opening).rejects.toMatchObject({ code: "RECORD_NEEDS_DESCRIBE" });
  const session = await firstRun();
  session.send(checked([record]), wire.bindComplete(), texts("(1)", "(2)"));
  expect(await isPending(opening)).toBe(true);
  session.send(over(2));
  await ending;
  await goesOn(session);
});

test("an error about an unreadable text says whether its stream has shown rows", async () => {
  let session: Session | undefined;
  for (const isSeen of [true, false]) {
    const opening = client.stream(`select n, ${String(isSeen)}`);
    session = await firstRun(session);
    session.send(checked(), wire.bindComplete(), ...(isSeen ? [texts("1")] : []));
    await quiet();
    session.send(texts("odd"), over(2));
    const read = opening.then((stream) => new Response(stream).text());
    await expect(read).rejects.toMatchObject({ code: "INVALID_VALUE", committed: isSeen });
  }
});

// -- failures --------------------------------------------------------------------------------------------------------

test.each([
  ["a server that goes", shutdown, "57P01"],
  ["a lock", () => failed("55P03"), "55P03"],
  ["a conflict, which would be safe to repeat", () => failed("40001"), "40001"],
])(
  "%s during the look-up fails a call whose statement has run, and the statement is not repeated",
  async (_, answer, code) => {
    const call = client.query("select c");
    const session = await firstRun();
    session.send(checked([pair]), wire.bindComplete(), texts("(1)"), over(1));
    expect(await session.flight()).toEqual(["Query"]);
    session.send(answer());
    await expect(call).rejects.toMatchObject({ code, retryable: false });
    expect(await isPending(accepted())).toBe(true);
  },
);

test("a text that is not SQL is not described, not even with values", async () => {
  const call = client.query(sql`select from ${1}`);
  const session = await firstRun();
  session.send(wire.closeComplete(), failed("42601"));
  await expect(call).rejects.toMatchObject({ code: "42601" });
  await goesOn(session);
});

test("BEGIN is sent before a first run, in the same flight", async () => {
  const transaction = client.transaction((tx) => tx.query("select n"));
  const session = await letIn();
  expect(await session.flight()).toEqual(behindPrelude);
  session.send(checked([int4], [], "BEGIN"), wire.bindComplete(), texts("1"), over(1, "T"));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  expect((await transaction).rows).toEqual([{ n: 1 }]);
});

test("before the server is known there may be a pooler, so the statement gets a unique text", async () => {
  newClient({ ...OPTIONS, password: "x", earlyQuery: true, allowCleartextPassword: true });
  const call = client.query("select n").catch(() => {});
  const session = await accepted();
  await session.flight();
  session.send(wire.authentication(3));
  expect((await session.message())!.name).toBe("PasswordMessage");
  let said = "";
  for (let message = await session.message(); !said; message = await session.message())
    if (message!.name === "Parse") said = message!.body.toString().split("\0")[1]!;
  expect(said).toMatch(/^select n\n\/\* [a-z0-9]{5,} \*\/$/);
  session.peer.end();
  await call;
});
