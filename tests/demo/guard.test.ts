// The guard of worker-example/src/guard in workerd, in front of a real server: what may pass, what is truncated, and
// what a client cannot leave behind.
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { linkDriver } from "../../worker-example/build.mjs";
import { Messages, message } from "../../worker-example/src/guard/messages.ts";
import { mayPass } from "../../worker-example/src/guard/reading.ts";
import { startWorker } from "../workerd/host.mjs";
import { pause } from "../support/until.mjs";
import { ownServer } from "./demo-server.ts";
import type { Step, Task } from "./guard-client.ts";

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const roles = ["a", "b"].map((name) => `guard_${name}_${process.pid}`) as [string, string];
const table = `guarded_${process.pid}`;

let admin: pg.Client;
let worker: Awaited<ReturnType<typeof startWorker>>;
let stopServer: () => unknown;

beforeAll(async () => {
  const { server, stop } = await ownServer();
  stopServer = stop;
  admin = new pg.Client({ connectionString: server.superuserUrl });
  await admin.connect();
  await admin.query(`create table ${table} (tenant name, note text);
    alter table ${table} enable row level security;
    create policy own on ${table} using (tenant = current_user)`);
  const tenants: Record<string, { password: string; url: string }> = {};
  for (const [index, role] of roles.entries()) {
    await admin.query(
      `create role ${role} login password 'of-the-role'; grant select, insert, delete on ${table} to ${role}`,
    );
    await admin.query(`insert into ${table} values ($1, 'kept')`, [role]);
    const url = new URL(server.superuserUrl);
    Object.assign(url, { username: role, password: "of-the-role", search: "?sslmode=disable" });
    tenants[`tenant_${"ab"[index]}`] = { password: "its secret", url: url.href };
  }
  linkDriver();
  worker = await startWorker({
    entry: here("guard-client.ts"),
    which: "newest",
    options: { compatibilityFlags: ["nodejs_compat"] },
    outbound: {
      entry: here("../../worker-example/src/guard/worker.ts"),
      options: { bindings: { TENANTS: JSON.stringify(tenants) } },
    },
  });
});

afterAll(async () => {
  await worker?.stop();
  await admin.query(`drop table ${table}`);
  for (const role of roles) await admin.query(`drop role ${role}`);
  await admin.end();
  await stopServer();
});

const ask = async (
  driver: Task["driver"],
  steps: readonly (Step | string)[],
  login = "tenant_a:its%20secret",
  isEager = false,
) => {
  const task = {
    driver,
    isEager,
    url: `postgres://${login}@db.internal/any`,
    steps: steps.map((step) => (typeof step === "string" ? { text: step } : step)),
  };
  const response = await fetch(worker.url, { method: "POST", body: JSON.stringify(task) });
  return (await response.json()) as unknown[];
};
const busy = async (role: string) =>
  (await admin.query("select query from pg_stat_activity where usename = $1 and state = 'active'", [role])).rows;
/** Gives up sooner than until() of tests/support, because the guard's own cap ends a statement after ten seconds. */
const until = async (isReached: () => Promise<boolean>) => {
  for (let waited = 0; !(await isReached()); waited += 10) {
    if (waited > 5_000) throw new Error("not within 5 s");
    await pause(10);
  }
};
const rows = `select tenant, note from ${table}`;

describe.each(["pg", "pgz-edge"] as const)("%s", (driver) => {
  test("a client reads its tenant's rows, and no others", async () => {
    const [a, b] = roles.map((tenant) => [{ tenant, note: "kept" }]);
    expect(await ask(driver, [rows, rows])).toEqual([a, a]);
    expect(await ask(driver, [rows], "tenant_b:its%20secret")).toEqual([b]);
  });

  test("parameters and prepared statements work, with responses of each kind in order", async () => {
    const named = { name: "twice", text: "select $1::int4 * 2 as n", values: [21] };
    expect(await ask(driver, [named, named, "select 1 / 0", "", "show server_encoding", named])).toEqual([
      [{ n: 42 }],
      [{ n: 42 }],
      "22012",
      [],
      [{ server_encoding: "UTF8" }],
      [{ n: 42 }],
    ]);
  });

  test.each([
    ["25006", `insert into ${table} values (current_user, 'new')`],
    ["25006", `with gone as (delete from ${table} returning note) select * from gone`],
    ["25006", `explain analyze delete from ${table}`],
    ["25006", "commit"],
    ["25006", "-- a comment\n/* and /* another */ */ set transaction read write"],
    ["25006", "do $$ begin commit; end $$"],
    ["25006", "set session characteristics as transaction read write"],
    ["25006", "copy (select 1) to stdout"],
    ["42601", `select 1; commit; delete from ${table}`],
    ["25001", "select set_config('transaction_read_only', 'off', true)"],
    ["42501", `select set_config('role', '${roles[1]}', false)`],
  ])("is refused by %s: %s", async (code, text) => {
    const values = text.startsWith("select set_config") ? [] : undefined;
    expect(await ask(driver, [text, { text, ...(values && { values }) }, "select 1 as a"])).toEqual([
      code,
      code,
      [{ a: 1 }],
    ]);
    expect((await admin.query(`select note from ${table}`)).rows).toHaveLength(2);
  });

  test("a client leaves no setting behind", async () => {
    const set = "select set_config('statement_timeout', '0', false) as a, set_config('app.x', 'y', false) as b";
    const left = "select current_setting('statement_timeout') as a, coalesce(current_setting('app.x', true), '') as b";
    expect(await ask(driver, [set, left])).toEqual([[{ a: "0", b: "y" }], [{ a: "10s", b: "" }]]);
  });

  test("a client gets at most ten thousand rows, and the server stops", async () => {
    const [whole, cut, cutAgain, next] = await ask(driver, [
      "select generate_series(1, 10000) as n",
      "select generate_series(1, 100000000) as n",
      { text: "select generate_series(1, $1::int8) as n", values: ["100000000"] },
      "select 1 as a",
    ]);
    expect(whole).toHaveLength(10_000);
    expect([cut, cutAgain, next]).toEqual(["54000", "54000", [{ a: 1 }]]);
    expect(await busy(roles[0])).toEqual([]);
  });

  test("a client gets at most 16 MiB, and no message of more than 1 MiB", async () => {
    expect(await ask(driver, ["select repeat('x', 500000) from generate_series(1, 100)", "select 1 as a"])).toEqual([
      "54000",
      [{ a: 1 }],
    ]);
    expect(await ask(driver, ["select repeat('x', 2000000)"])).toEqual(["54000"]);
  });

  test("a client that has left costs the server nothing more", async () => {
    const leaving = ask(driver, [{ text: "select pg_sleep(9)", leaveAfter: 500 }], "tenant_b:its%20secret");
    await until(async () => (await busy(roles[1])).length === 1);
    expect(await leaving).toHaveLength(1);
    await until(async () => (await busy(roles[1])).length === 0);
  });

  test("a client may pipeline, and a truncated or refused response reaches no other query", async () => {
    const slow = "select 1 as a, pg_sleep(0.01)::text as b";
    const steps = ["select generate_series(1, 10050) as n", slow, "delete from x", slow, { text: "select 1 as a" }];
    for (let round = 0; round < 10; round++)
      expect(await ask(driver, steps, undefined, true)).toEqual([
        "54000",
        [{ a: 1, b: "" }],
        "25006",
        [{ a: 1, b: "" }],
        [{ a: 1 }],
      ]);
  });

  test.each(["tenant_a:wrong", "nobody:its%20secret", "__proto__:x", "tenant_b:"])(
    "a login as %s is refused",
    async (login) => {
      expect(await ask(driver, ["select 1"], login)).toEqual(["28P01"]);
    },
  );
});

test.each([
  [
    true,
    ["select 1", " \n(select 1)", "WITH a as (select 1) table a", "/* a /* b */ c */ values (1)", ";; show all", ""],
  ],
  [true, ["-- only a comment", "explain analyze delete from a"]],
  [
    false,
    ["delete from a", "selected", "/* select */ delete from a", "-- select\rdelete from a", "/*/ select */ commit"],
  ],
  [false, ["begin", "prepare a as select 1", "execute a", "call a()", "fetch a", "\u00a0select 1", "$$select"]],
])("passes: %s %j", (expected, all) => {
  expect(all.map(mayPass)).toEqual(all.map(() => expected));
});

test("messages are whole however their bytes arrive, and a long message is refused at its header", async () => {
  const all = [...message("Q", "select 1"), ...message("S"), ...message("P", "", "x")];
  for (const size of [1, 2, 3, 5, 8, 100]) {
    let at = 0;
    const read = () => Promise.resolve(at < all.length ? Uint8Array.from(all.slice(at, (at += size))) : null);
    const messages = new Messages(100, read);
    const types = [];
    do for (let next; (next = messages.next());) types.push(next.type + next.bytes.length);
    while (await messages.more());
    expect(types).toEqual(["Q14", "S5", "P8"]);
  }
  const long = new Messages(100, () => Promise.resolve(Uint8Array.of(81, 0, 0, 0, 101)));
  await long.more();
  expect(() => long.next()).toThrow("no message of more than 100 bytes");
});
