// The example Worker by HTTP alone, in the newest workerd and in the one for Node 20: they tell a Worker of a client
// that left in different ways.
import { request } from "node:http";
import { beforeAll, describe, expect, test } from "vitest";
import { eventRows } from "../../worker-example/sample-data.mjs";
import type { Worker } from "../../worker-example/serve.mjs";
import { startDemo, tightLimits } from "./demo-server.ts";

interface Failure {
  code: string;
  message: string;
  hint?: string;
  position?: string | number;
}

/** The status for a POST that announces so many bytes and sends none of them. */
const announce = (url: URL, bytes: number) =>
  new Promise<number | undefined>((resolve, reject) => {
    const posting = request(url, { method: "POST", headers: { "content-length": bytes } }, ({ statusCode }) => {
      resolve(statusCode);
      posting.destroy();
    });
    posting.on("error", reject).flushHeaders();
  });

let demo: Awaited<ReturnType<typeof startDemo>>;
beforeAll(async () => {
  demo = await startDemo();
  const { admin, sample } = demo;
  await admin.query(`create sequence tickets; grant all on tickets to ${sample.role}`);
  // A role that may write, so that the read-only transaction alone has to refuse.
  await admin.query(`grant insert, update, delete on users to ${sample.role}`);
  await admin.query(`alter role ${sample.role} set default_transaction_read_only = off`);
}, 30_000);

describe.each(["newest", "node-20"] as const)("workerd %s", (workerd) => {
  let worker: Worker;
  beforeAll(async () => {
    worker = await demo.worker({ workerd });
  }, 30_000);

  const ask = (q: string, init: RequestInit = {}) =>
    fetch(new URL("/query", worker.url), {
      method: "POST",
      headers: { "content-type": "application/json", "accept-encoding": "identity" },
      body: JSON.stringify({ q, format: "ndjson" }),
      ...init,
    });

  test("streams every row, once and in order", async () => {
    const response = await ask("select id from events order by id");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toMatch(/^application\/x-ndjson/);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    const text = await response.text();
    const expected = Array.from({ length: eventRows }, (_, index) => `{"id":${9_000_000_001 + index}}\n`).join("");
    expect(text === expected).toBe(true);
  });

  test("gives the server's own JSON for every column of the sample", async () => {
    const lines = (await (await ask("select * from events where id % 1000 < 8")).text()).trimEnd().split("\n");
    const { rows } = await demo.admin.query<{ json: Record<string, unknown> }>(
      "select row_to_json(e) as json from events e where id % 1000 < 8",
    );
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(rows.map(({ json }) => json));
  });

  test("/query by GET and /users", async () => {
    const got = await fetch(new URL(`/query?q=${encodeURIComponent("select 1 as one")}`, worker.url));
    expect(await got.text()).toBe('{"one":1}\n');
    const users = await fetch(new URL("/users?after=998", worker.url));
    expect(
      (await users.text())
        .trimEnd()
        .split("\n")
        .map((line) => (JSON.parse(line) as { id: number }).id),
    ).toEqual([999, 1000]);
    expect((await fetch(new URL("/users?after=x", worker.url))).status).toBe(400);
  });

  test("/user, by the pool of a Durable Object", async () => {
    const user = async (id: unknown) => fetch(new URL(`/user?id=${id}`, worker.url));
    const all = await Promise.all(Array.from({ length: 50 }, async (_, n) => (await user(n + 1)).json()));
    all.forEach((row, n) => expect(row).toMatchObject({ id: n + 1, name: `User ${n + 1}` }));
    expect(await (await user(0)).text()).toBe("");
    for (const none of ["x", 2 ** 31, ""]) expect((await user(none)).status).toBe(none === "" ? 200 : 400);
  });

  test("/listen, and who hears it", async () => {
    const listen = (channel: string, init?: RequestInit) =>
      fetch(new URL(`/listen?channel=${channel}`, worker.url), init);
    expect((await listen("secrets")).status).toBe(400);
    expect((await listen("users", { headers: { "sec-fetch-site": "cross-site" } })).status).toBe(403);
    const leave = new AbortController();
    const response = await listen("users", { signal: leave.signal });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader.read()).value).toBe('event: listening\ndata: {"channel":"users"}\n\n');
    await demo.admin.query("notify users, '42'");
    expect((await reader.read()).value).toBe('event: notification\ndata: {"channel":"users","payload":"42"}\n\n');
    leave.abort();
    const look = "select from pg_stat_activity where usename = $1 and query ilike 'listen%'";
    // The old workerd notices with the next write that nobody is there.
    for (const deadline = performance.now() + 5_000; (await demo.admin.query(look, [demo.sample.role])).rowCount;) {
      await demo.admin.query("notify users");
      expect(performance.now()).toBeLessThan(deadline);
    }
  });

  test("answers 400 and the server's words when the query fails before its first row", async () => {
    const response = await ask("select *\nfrom evnts");
    expect(response.status).toBe(400);
    const failure = (await response.json()) as Failure;
    expect(failure).toMatchObject({ code: "42P01", message: 'relation "evnts" does not exist' });
    expect(Number(failure.position)).toBe(15);
    expect(Object.keys(failure).every((key) => ["code", "message", "hint", "position"].includes(key))).toBe(true);

    const hinted = (await (await ask("select lenght('a')")).json()) as Failure;
    expect(hinted.hint).toMatch(/No function matches/);
  });

  test("breaks the stream off, never ends it cleanly, when the query fails after rows have gone out", async () => {
    const response = await ask("select n, 1 / (150000 - n) as inverse from generate_series(1, 200000) n");
    expect(response.status).toBe(200);
    let bytes = "";
    const read = async () => {
      for await (const chunk of response.body ?? []) bytes += Buffer.from(chunk as Uint8Array).toString("latin1");
    };
    // The one for Node 20 ends every chunked body cleanly, also one whose stream has failed (worker-example/serve.mjs).
    if (workerd === "newest") await expect(read()).rejects.toThrow();
    else await read();
    const lines = bytes.split("\n");
    expect(lines.length).toBeLessThanOrEqual(150_000);
    // whole lines only; of a broken body the client may miss the end
    if (workerd !== "newest") expect(lines.at(-1)).toBe("");
  });

  const refused: [string, string][] = [
    ["delete from users", "25006"],
    ["select nextval('tickets')", "25006"],
    ["with gone as (delete from users returning id) select * from gone", "25006"],
    ["commit; drop table users", "42601"],
    ["select 1; delete from users", "42601"],
    ["create table mine (id int)", "25006"],
    ["select set_config('transaction_read_only', 'off', true), nextval('tickets')", "25001"],
    ["do $$ begin commit; delete from users; end $$", "2D000"],
    ["do $$ begin perform set_config('transaction_read_only', 'off', true); delete from users; end $$", "25001"],
    ["copy users from stdin", "25006"],
    ["copy users to program 'cat'", "42501"],
    ["select pg_read_file('/etc/passwd')", "42501"],
  ];
  test.each(refused)("refuses %s", async (q, code) => {
    const response = await ask(q);
    expect([response.status, await response.json()]).toMatchObject([400, { code }]);
    const { rows } = await demo.admin.query<{ users: string; called: boolean }>(
      "select count(*) as users, (select is_called from tickets) as called from users",
    );
    expect(rows).toEqual([{ users: "1000", called: false }]);
  });

  // They run alone, in a transaction that ends with them: nothing is left for the next visitor.
  test.each(["commit", "set transaction read write", "rollback", "set default_transaction_read_only = off"])(
    "%s reaches nothing",
    async (q) => {
      expect((await ask(q)).status).toBe(200);
      expect(((await (await ask("delete from users")).json()) as Failure).code).toBe("25006");
    },
  );

  test("refuses what is no query", async () => {
    const status = async (path: string, init?: RequestInit) => (await fetch(new URL(path, worker.url), init)).status;
    expect(await status("/query")).toBe(400);
    expect(await status("/query", { method: "PUT", body: "{}" })).toBe(405);
    expect(await status("/query", { method: "POST", body: "not json" })).toBe(400);
    expect(await status("/query", { method: "POST", body: '{"q": 1}' })).toBe(400);
    expect(
      await status("/query", { method: "POST", body: JSON.stringify({ q: `select '${"x".repeat(70_000)}'` }) }),
    ).toBe(413);
    expect(await announce(new URL("/query", worker.url), 600_000)).toBe(413);
    expect(await status("/query?q=select%201&format=xml")).toBe(400);
    expect(await status("/query?q=select%201", { headers: { "sec-fetch-site": "cross-site" } })).toBe(403);
    expect(await status("/elsewhere")).toBe(404);
  });

  test("a client that leaves a running stream cancels the query", async () => {
    const leave = new AbortController();
    const response = await ask("select * from events, generate_series(1, 20)", { signal: leave.signal });
    await response.body?.getReader().read();
    await demo.untilBusyWith("generate_series(1, 20)");
    leave.abort();
    expect(await demo.untilQuiet()).toBeLessThan(1_000);
  });

  test("a client that leaves before the first row cancels the query", async () => {
    const leave = new AbortController();
    const response = ask("select pg_sleep(20)", { signal: leave.signal });
    await demo.untilBusyWith("pg_sleep(20)");
    leave.abort();
    await expect(response).rejects.toThrow();
    expect(await demo.untilQuiet()).toBeLessThan(1_000);
  });

  test("leaves no connection behind", async () => {
    for (const deadline = performance.now() + 5_000; ;) {
      // The Durable Object keeps its own for the next request.
      const look = "select query, state from pg_stat_activity where usename = $1 and application_name !~ 'object$'";
      const { rows } = await demo.admin.query(look, [demo.sample.role]);
      if (rows.length === 0) break;
      expect(performance.now(), JSON.stringify(rows)).toBeLessThan(deadline);
    }
  });

  test("a database that refuses the Worker is a 502 without a word of its own", async () => {
    const wrong = await demo.worker({ workerd, databaseUrl: demo.sample.readerUrl.replace(/:[^:@]+@/, ":hunter2@") });
    const response = await fetch(new URL("/query?q=select%201", wrong.url));
    const text = await response.text();
    expect([response.status, (JSON.parse(text) as Failure).code]).toEqual([502, "DATABASE_UNAVAILABLE"]);
    expect(text).not.toMatch(/hunter2|28P01|127\.0\.0\.1|localhost/);
    expect(text).not.toContain(demo.sample.role);
    await wrong.stop();
  });
});

test("a database that is down is a 502, and the process that hosts the Worker lives on", async () => {
  const lost = await demo.worker({ databaseUrl: "postgres://someone:hunter2@127.0.0.1:9/secret_database" });
  const response = await fetch(new URL("/query?q=select%201", lost.url));
  const text = await response.text();
  expect(response.status).toBe(502);
  expect(text).not.toMatch(/someone|hunter2|secret_database|127\.0\.0\.1/);
  expect((await fetch(lost.url)).status).toBe(200);
  await lost.stop();
}, 30_000);

describe("caps", () => {
  let worker: Worker;
  beforeAll(async () => {
    worker = await demo.worker({ tight: true });
  }, 30_000);

  /** What comes of a query: the lines that arrived, and how it ended. */
  async function outcome(q: string) {
    const response = await fetch(new URL(`/query?q=${encodeURIComponent(q)}`, worker.url)).catch(() => undefined);
    if (response === undefined) return { lines: 0, end: "broken off" };
    if (!response.ok) return { lines: 0, end: ((await response.json()) as Failure).code };
    let text = "";
    try {
      for await (const chunk of response.body ?? []) text += new TextDecoder().decode(chunk as Uint8Array);
    } catch {
      return { lines: text.split("\n").length - 1, end: "broken off" };
    }
    return { lines: text.split("\n").length - 1, end: "clean" };
  }

  test("rows", async () => {
    expect(await outcome(`select generate_series(1, ${tightLimits.maxRows})`)).toEqual({
      lines: tightLimits.maxRows,
      end: "clean",
    });
    const over = await outcome(`select generate_series(1, ${tightLimits.maxRows + 1})`);
    expect(over.lines).toBeLessThanOrEqual(tightLimits.maxRows);
    expect(over.end).toMatch(/RESPONSE_TOO_LARGE|broken off/);
    expect(await demo.untilQuiet()).toBeLessThan(1_000);
  });

  test("bytes", async () => {
    expect(await outcome("select repeat('x', 50000) as x")).toEqual({ lines: 1, end: "clean" });
    expect(await outcome("select repeat('x', 200000)")).toEqual({ lines: 0, end: "RESPONSE_TOO_LARGE" });
    const over = await outcome("select repeat('x', 30000) from generate_series(1, 100)");
    expect(over.lines).toBeLessThanOrEqual(3);
    expect(over.end).toMatch(/RESPONSE_TOO_LARGE|broken off/);
    expect(await demo.untilQuiet()).toBeLessThan(1_000);
  });

  test("time", async () => {
    expect(await outcome("select pg_sleep(20)")).toEqual({ lines: 0, end: "QUERY_TIMEOUT" });
    const over = await outcome("select pg_sleep(0.2)::text, repeat('x', 1000) from generate_series(1, 90)");
    expect(over.end).toMatch(/QUERY_TIMEOUT|broken off/);
    expect(await demo.untilQuiet()).toBeLessThan(1_000);
  });
});
