// `cached` on each version of PostgreSQL, with an invalidator in the same process: which answers may be stored, for how
// long, under which tags, and why not.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { cached } from "../../js/cache/cached.ts";
import type { CachedOptions, CacheInvalidator } from "../../js/cache/cached-options.ts";
import { Invalidator } from "../../js/cache/invalidator.ts";
import type { InvalidatorStats } from "../../js/cache/options.ts";
import { EVERYTHING, tagOf } from "../../js/cache/tags.ts";
import { testServers } from "../integration/servers.ts";
import { testDatabase } from "../support/test-database.ts";
import { until } from "../support/until.mjs";
import { createClient, createPool, sql, type Client, type Pool, type QueryInput, type Scope } from "./driver.ts";

const SETUP = readFileSync(new URL("../../js/cache/cache.sql", import.meta.url), "utf8");
/** Each query has a URL of its own. */
const requestOf = (query: QueryInput) => {
  const { text, values } = typeof query === "string" ? { text: query, values: [] } : query;
  return new Request(`https://example.com/?q=${encodeURIComponent(JSON.stringify([text, values]))}`);
};

describe.each(testServers().servers.filter(({ own }) => own))("PostgreSQL $name", (server) => {
  const database = testDatabase({ url: server.url, superuserUrl: server.superuserUrl! }, "cache_cached");
  const SLOT = "cache_cached";
  const publication = `cache_${server.major}`;
  const abort = new AbortController();
  let db: Pool;
  let invalidator: Invalidator;
  let running: Promise<unknown>;
  let purged: string[] = [];
  let tag = "";
  const failures: unknown[] = [];
  const stats = (): InvalidatorStats => invalidator.stats;

  beforeAll(async () => {
    await database.create();
    db = createPool(database.superuserUrl);
    await db.simple(SETUP);
    await db.simple(`create table products (id int4 primary key, name text);
      insert into products values (1, 'a'), (2, 'b');
      create table hidden (id int4 primary key);
      create table secrets (id int4 primary key);
      alter table secrets enable row level security;
      create publication ${publication} for table products, secrets`);
    await db.query("select pg_create_logical_replication_slot($1, 'pgoutput')", [SLOT]);
    const { rows } = await db.query<{ oid: number }>("select 'products'::regclass::oid as oid");
    tag = tagOf(rows[0]!.oid);
    const purge = async (tags: readonly string[]) => void purged.push(...tags);
    const times = { settle: 20, maxFill: 60_000, signal: abort.signal };
    const onFailure = (error: unknown) => void failures.push(error);
    invalidator = new Invalidator(db, { slot: SLOT, publication, purge, onFailure, ...times });
    running = invalidator.run();
    await until(() => stats().state === "following");
    // Transactions from before this life, also of other databases, may still run.
    await until(async () => (await get(sql`select 1 as ready`)).headers.has("cdn-cache-control"));
  });
  afterAll(async () => {
    abort.abort();
    await running;
    await until(
      async () =>
        (await db.query("select from pg_replication_slots where slot_name = $1 and active", [SLOT])).rows.length === 0,
    );
    await db.query("select pg_drop_replication_slot($1)", [SLOT]);
    await db.close();
    await database.drop();
  });

  /** The answer, with its body read. */
  interface Given extends Partial<CachedOptions> {
    readonly on?: Pool | Client | Scope;
    readonly url?: string;
    readonly etag?: string;
  }
  async function get(query: QueryInput, { on = db, url = requestOf(query).url, etag, ...options }: Given = {}) {
    const request = new Request(url, etag === undefined ? {} : { headers: { "if-none-match": etag } });
    const response = await cached(request, on, query, { maxAge: 60, invalidator, ...options });
    return { headers: response.headers, status: response.status, text: await response.text() };
  }
  const broken = (open: () => unknown): CacheInvalidator => ({
    ...{ open: open as CacheInvalidator["open"], remember: () => {}, close: () => {}, abandon: () => {} },
  });
  const why = ({ headers }: { headers: Headers }) => {
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.has("cdn-cache-control")).toBe(false);
    expect(headers.has("cache-tag")).toBe(false);
    return /^pgz-edge; fwd=bypass; detail="(.*)"$/.exec(headers.get("cache-status")!)![1];
  };

  test("an answer has its lifetime for the cache in front only, and its tags", async () => {
    const answer = await get(sql`select id, name from products where id = ${1}`);
    expect(answer.text).toBe('{"id":1,"name":"a"}\n');
    expect(Object.fromEntries(answer.headers)).toEqual({
      "cache-control": "max-age=0, must-revalidate",
      "cdn-cache-control": "max-age=60",
      "cache-tag": `${tag},${EVERYTHING}`,
      "content-type": "application/x-ndjson; charset=utf-8",
      etag: expect.stringMatching(/^W\/"[\da-f-]{36}"$/),
    });
    const other = await get(sql`select name from products`, { tagHeader: "surrogate-key", format: "json" });
    expect(other.text).toBe('[{"name":"a"},{"name":"b"}]');
    expect(other.headers.get("surrogate-key")).toBe(`${tag} ${EVERYTHING}`);
    await until(() => stats().fills === 0);
  });

  test("a commit purges it", async () => {
    await get(sql`select id, name from products`);
    await until(() => stats().fills === 0);
    purged = [];
    await db.exec("update products set name = 'c' where id = 2");
    await until(() => purged.includes(tag));
  });

  test("a statement that a session has prepared reads the table that now has the name", async () => {
    await db.simple(`create schema nearer;
      create table public.named (id int4 primary key); insert into public.named values (1);
      alter publication ${publication} add table public.named, tables in schema nearer`);
    for (const prepare of ["auto", "named"] as const) {
      const startup = { search_path: "nearer,public" };
      await using own = createPool(database.superuserUrl, { max: 1, prepare, startup });
      const text = "select id from named";
      const stored = () => until(async () => (await get(text, { on: own })).headers.has("cdn-cache-control"));
      await stored();
      for (let run = 0; run < 3; run++) expect((await own.query(text)).rows).toEqual([{ id: 1 }]);
      await db.simple("create table nearer.named (id int4 primary key); insert into nearer.named values (2)");
      // What the session has prepared still reads the other table.
      expect((await own.query(text)).rows).toEqual([{ id: 1 }]);
      await stored();
      expect((await get(text, { on: own })).text).toBe('{"id":2}\n');
      await db.exec("drop table nearer.named");
    }
    await db.simple("drop schema nearer; drop table public.named");
  });

  test.each([
    ["select * from hidden", "public.hidden is not in the publication"],
    ["select now() from products", "now"],
    ["select current_user::text", "it depends on who asks"],
    ["select * from pg_class", "system catalog"],
    ["select id from secrets", "it depends on who asks"],
  ])("%s is not stored: %s", async (text, reason) => {
    expect(why(await get(text))).toContain(reason);
    await until(() => stats().fills === 0);
  });

  test("a parameter that may be the present is not stored", async () => {
    const query = (value: string) => sql`select id from products where name < ${value}`;
    expect((await get(query("b"))).headers.has("cdn-cache-control")).toBe(true);
    expect(why(await get(query("yesterday")))).toBe("a parameter may be the present time");
  });

  test("a change of definitions makes what was learned unknown, and what is learned later is known", async () => {
    const query = sql`select count(*) from products`;
    expect((await get(query)).headers.has("cdn-cache-control")).toBe(true);
    await db.exec("alter table products add column price int4");
    await until(async () => (await get(query)).headers.get("cache-control") === "no-store");
    await until(async () => (await get(query)).headers.has("cdn-cache-control"));
  });

  test("a body that takes longer than maxFill breaks off", async () => {
    const query = sql`select name from products where id < ${9}`;
    await get(query); // learns it
    const impatient: CacheInvalidator = {
      ...{ remember: (learned) => invalidator.remember(learned), close: (fill) => invalidator.close(fill) },
      ...{ abandon: (fill) => invalidator.abandon(fill) },
      open: (opening) => ({ ...invalidator.open(opening), maxFill: 10_000 }),
    };
    const response = await cached(requestOf(query), db, query, { maxAge: 60, invalidator: impatient });
    expect(response.headers.has("cdn-cache-control")).toBe(true);
    const now = performance.now.bind(performance);
    using _ = vi.spyOn(performance, "now").mockImplementation(() => now() + 10_000);
    await expect(response.text()).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
  });

  test("a client of one request learns too, and is closed when all is done", async () => {
    const query = sql`select name from products where id = ${1} or id = ${2}`;
    await get(query);
    await db.exec("alter table products add column color text");
    await until(async () => (await get(query)).headers.get("cache-control") === "no-store");
    await until(async () => {
      const on = createClient(database.superuserUrl);
      const { headers } = await get(query, { on, closeWhenDone: true });
      await until(() => on.stats().state === "closed");
      return headers.has("cdn-cache-control");
    });
    const never = broken(() => new Promise(() => {}));
    const on = createClient(database.superuserUrl);
    await get(query, { on, closeWhenDone: true, invalidator: never, invalidatorTimeout: 20 });
    await until(() => on.stats().state === "closed");
    for (const options of [{ maxAge: 0 }, {}]) {
      const on = createClient(database.superuserUrl);
      await expect(get("select 1 / 0", { on, closeWhenDone: true, ...options })).rejects.toThrow();
      await until(() => on.stats().state === "closed");
    }
  });

  test("a client that goes on is not used behind an answer: the next call learns first", async () => {
    const query = sql`select 'goes on' as it from products where id = ${1}`;
    await using on = createClient(database.superuserUrl);
    await until(async () => (await get(query, { on })).headers.has("cdn-cache-control"));
    await db.exec("grant select on products to public");
    await until(async () => {
      const { headers } = await get(query, { on });
      await on.query("select 1"); // it would be refused beside a transaction
      return headers.get("cache-control") === "no-store";
    });
    await until(async () => (await get(query, { on })).headers.has("cdn-cache-control"));
  });

  test("of two calls that wait for one learning the second goes on when the first is aborted", async () => {
    const query = sql`select id, id as again from products where id = ${1}`;
    const abort = new AbortController();
    const first = get(query, { signal: abort.signal });
    const second = get(query);
    abort.abort();
    await expect(first).rejects.toMatchObject({ code: "ABORTED" });
    expect((await second).text).toBe('{"id":1,"again":1}\n');
  });

  test("settings of the session are part of what is learned", async () => {
    const query = sql`select id from products where name = 'a'`;
    expect((await get(query)).headers.has("cdn-cache-control")).toBe(true);
    const separator = database.superuserUrl.includes("?") ? "&" : "?";
    await using on = createClient(`${database.superuserUrl}${separator}options=-c%20TimeZone=Asia/Tokyo`);
    expect(why(await get(query, { on }))).toBe("another query was answered under the same URL");
    await until(async () =>
      (await get(query, { on, url: "https://example.com/tokyo" })).headers.has("cdn-cache-control"),
    );
  });

  test("settings that change between two calls, own changes and temporary tables are noticed", async () => {
    const query = sql`select id from products where name = 'b'`;
    await using on = createClient(database.superuserUrl);
    expect((await get(query, { on })).headers.has("cdn-cache-control")).toBe(true);
    await on.exec("set timezone = 'Asia/Tokyo'");
    expect(why(await get(query, { on }))).toContain("other settings");
    await on.exec("reset timezone");
    await get(query, { on });
    await on.exec("begin");
    await on.exec("update products set name = 'z' where id = 2");
    expect(why(await get(query, { on }))).toBe("the session has an open transaction or temporary tables");
    await on.exec("rollback");
    expect((await get(query, { on })).headers.has("cdn-cache-control")).toBe(true);
    await on.exec("create temp table products (id int4, name text)");
    await get(query, { on });
    expect(why(await get(query, { on }))).toMatch(/^pg_temp_\d+\.products is temporary$/);
    await on.exec("drop table products");
    await until(() => stats().fills === 0);
  });

  test("two queries under one URL: neither is stored, and both are purged", async () => {
    const url = "https://example.com/cart";
    const first = sql`select name from products where id = ${1}`;
    // A session whose schema has changed has to describe the question first.
    await until(async () => (await get(first, { url })).headers.has("cdn-cache-control"));
    expect((await get(first, { url, format: "json" })).headers.has("cdn-cache-control")).toBe(true);
    await until(() => stats().fills === 0);
    purged = [];
    failures.length = 0;
    const second = sql`select name from products where id = ${2}`;
    expect(why(await get(second, { url }))).toBe("another query was answered under the same URL");
    await until(() => purged.includes(tag));
    expect(failures).toEqual([expect.objectContaining({ code: "INVALID_QUERY" })]);
    expect(String(failures[0])).not.toContain("cart");
    expect(why(await get(first, { url }))).toBe("another query was answered under the same URL");
  });

  test("what depends on who asks is stored where the cache tells visitors apart, in a scope too", async () => {
    const query = sql`select name from products where name > current_setting('app.tenant', true) or id = 1`;
    expect(why(await get(query))).toBe("it depends on who asks (option separatedBy)");
    await using client = createClient(database.superuserUrl);
    const scope = (tenant: string) => client.scope({ settings: { "app.tenant": tenant } });
    const of = (tenant: string) => ({ on: scope(tenant), separatedBy: { tenant } });
    expect((await get(query, of("a"))).headers.has("cdn-cache-control")).toBe(true);
    // One URL, but not for the cache.
    expect((await get(query, of("b"))).headers.has("cdn-cache-control")).toBe(true);
    const { flights } = client.stats();
    const again = await get(query, of("b"));
    expect(again.headers.has("cdn-cache-control")).toBe(true);
    expect(client.stats().flights - flights).toBe(1);
    await expect(get(query, { on: scope("a") })).rejects.toThrow("separatedBy");
    for (const separatedBy of [{}, { tenant: undefined }, "a" as never, { tenant: new Map([["id", "a"]]) }])
      await expect(get(query, { separatedBy })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });

  test("the moment and the query take one flight, once both are prepared", async () => {
    const query = sql`select id from products where id = 2`;
    await using on = createClient(database.superuserUrl);
    for (let run = 0; run < 2; run++) await get(query, { on }); // the statements are prepared
    const { flights } = on.stats();
    expect((await get(query, { on })).headers.has("cdn-cache-control")).toBe(true);
    expect(on.stats().flights - flights).toBe(1);
  });

  test("an isolate that has not learned a statement itself waits for the invalidator once", async () => {
    const query = sql`select name, id from products where id = ${2}`;
    await until(async () => (await get(query)).headers.has("cdn-cache-control"));
    const other = (await import(
      "../../js/cache/cached.ts?other" as string
    )) as typeof import("../../js/cache/cached.ts");
    const ask = async (on: Pool | Client, asked: CacheInvalidator) => {
      const response = await other.cached(requestOf(query), on, query, { maxAge: 60, invalidator: asked });
      await response.text();
      return response;
    };
    expect((await ask(db, invalidator)).headers.has("cdn-cache-control")).toBe(true);
    await using on = createClient(database.superuserUrl);
    await on.query("select 1");
    const { flights } = on.stats();
    let answer!: (refused: { refusal: "down" }) => void;
    const asking = ask(
      on,
      broken(() => new Promise((resolve) => (answer = resolve))),
    );
    await until(() => on.stats().flights > flights, "the query has left");
    answer({ refusal: "down" });
    expect(why(await asking)).toBe("the invalidator does not follow the database");
  });

  test("parsers and limits of the client's do not change what is asked", async () => {
    const parse = (text: string) => text.toUpperCase();
    await using on = createClient({
      connectionString: database.superuserUrl,
      maxFieldBytes: 10,
      types: { text: parse, bool: () => "no" },
    });
    const query = sql`select id from products where id = 2`;
    expect((await get(query, { on })).headers.has("cdn-cache-control")).toBe(true);
  });

  test("a request with Authorization is not stored unless the cache tells visitors apart", async () => {
    const query = sql`select id from products where id = 1`;
    const request = new Request(requestOf(query), { headers: { authorization: "Bearer x" } });
    const ask = async (separatedBy?: object) => {
      const response = await cached(request, db, query, { maxAge: 60, invalidator, separatedBy: separatedBy as never });
      await response.text();
      return response;
    };
    const etag = (await get(query)).headers.get("etag")!;
    expect(why(await ask())).toBe("the request has Authorization (option separatedBy)");
    request.headers.set("if-none-match", etag);
    expect(why(await ask())).toBe("the request has Authorization (option separatedBy)");
    expect((await ask({ user: 1 })).headers.has("cdn-cache-control")).toBe(true);
  });

  test("an invalidator whose life is younger than the question stores nothing", async () => {
    const query = sql`select id from products where id = 1`;
    await get(query);
    const young: CacheInvalidator = {
      ...broken(() => {}),
      open: (opening) => ({ ...invalidator.open(opening), age: 0 }),
      abandon: (fill) => invalidator.abandon(fill),
    };
    expect(why(await get(query, { invalidator: young }))).toBe("the invalidator does not follow the database");
  });

  test("an invalidator that is late, fails or refuses costs the storing, and nothing else", async () => {
    const query = sql`select id from products where id = 1`;
    await get(query);
    const never = await get(query, { invalidator: broken(() => new Promise(() => {})), invalidatorTimeout: 20 });
    expect([never.text, why(never)]).toEqual(['{"id":1}\n', "the invalidator has not answered"]);
    const failing = await get(query, { invalidator: broken(() => Promise.reject(new Error("gone"))) });
    expect(why(failing)).toBe("the invalidator has not answered");
    const texts = {
      down: "the invalidator does not follow the database",
      elsewhere: "the invalidator follows another database or server",
      behind: "the invalidator is behind the database",
      full: "the invalidator has too many answers that have not ended",
    };
    for (const [refusal, text] of Object.entries(texts))
      expect(why(await get(query, { invalidator: broken(() => ({ refusal })) }))).toBe(text);
  });

  test("an answer that is no invalidator's costs the storing, and holds no connection", async () => {
    const query = sql`select name from products where id <> ${7}`;
    await get(query); // learns it
    await using on = createPool(database.superuserUrl, { max: 1 });
    for (const answer of [5, "down", { refusal: "of a later release" }, { tags: "pg" }, { refusal: "toString" }])
      expect(why(await get(query, { on, invalidator: broken(() => answer) }))).toBe("the invalidator has not answered");
    const odd = { life: "a", tags: ["a\nb"], maxFill: 60_000, parameterTypes: [23] };
    await expect(get(query, { on, invalidator: broken(() => odd) })).rejects.toThrow(TypeError); // no header has that
    await until(() => on.stats().acquired === 0);
  });

  test("a statement that writes or locks never runs", async () => {
    for (const text of ["delete from products returning id", "select id from products for update"])
      await expect(get(text)).rejects.toMatchObject({ code: "INVALID_QUERY" });
    expect((await db.query("select from products")).rows).toHaveLength(2);
  });

  test("a view that comes to lock is refused from the call on that learns of it", async () => {
    await db.simple("create view locking as select id from products");
    const ask = () => get("select id from locking");
    await until(async () => (await ask()).headers.has("cdn-cache-control"));
    await db.simple("create or replace view locking as select id from products for update");
    await until(() =>
      ask().then(
        () => false,
        (error: unknown) => (error as { code?: string }).code === "INVALID_QUERY",
      ),
    );
    await expect(ask()).rejects.toMatchObject({ code: "INVALID_QUERY" });
    await db.simple("drop view locking");
  });

  test("what is learned in one scope is not known of another", async () => {
    await db.simple(`create schema one; create view one.seen as select id from products;
      create schema two; create view two.seen as select id from products for update;
      create schema three; create view three.seen as select id + 1 as id from products`);
    const ask = (schema: string) =>
      get("select min(id) from seen", {
        ...{ on: db.scope({ settings: { search_path: `${schema}, public` } }), separatedBy: { schema } },
      });
    await until(async () => (await ask("one")).headers.has("cdn-cache-control"));
    await expect(ask("two")).rejects.toMatchObject({ code: "INVALID_QUERY" });
    await until(async () => (await ask("one")) && (await ask("three")).headers.has("cdn-cache-control"));
    await db.simple("drop schema one cascade; drop schema two cascade; drop schema three cascade");
  });

  test("learning ends with its call's deadline or signal, also where another call learns", async () => {
    const query = sql`select id, 'locked' as it from products where id = ${1}`;
    await using other = createClient(database.superuserUrl);
    await other.transaction(async (tx) => {
      await tx.simple("lock table products in access exclusive mode");
      const abort = new AbortController();
      const first = get(query, { timeout: 300 });
      const second = get(query, { signal: abort.signal });
      await expect(first).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
      abort.abort();
      await expect(second).rejects.toMatchObject({ code: "ABORTED" });
    });
    expect((await get(query)).text).toBe('{"id":1,"it":"locked"}\n');
  });

  test("a query that fails, and a reader that leaves, leave no fill open and no connection in use", async () => {
    await expect(get(sql`select 1 / ${0}::int4 as n`)).rejects.toMatchObject({ code: "22012" });
    const large = sql`select id, repeat('x', 100000) as x from products, generate_series(1, 200)`;
    const request = requestOf(large);
    const response = await cached(request, db, large, { maxAge: 60, invalidator });
    const reader = response.body!.getReader();
    await reader.read();
    expect(stats().fills).toBe(1);
    await reader.cancel();
    await until(() => stats().fills === 0);
    await db.waitIdle();
    const head = await cached(new Request(request, { method: "HEAD" }), db, large, { maxAge: 60, invalidator });
    expect([head.status, await head.text(), head.headers.get("cdn-cache-control")]).toEqual([200, "", "max-age=60"]);
    await until(() => stats().fills === 0);
  });

  test("a body that fails before it is read closes the fill and the client", async () => {
    const large = sql`select id, repeat('x', 100000) as x from products, generate_series(1, 200) as n`;
    const on = createClient(database.superuserUrl);
    const abort = new AbortController();
    const options = { maxAge: 60, invalidator, signal: abort.signal, closeWhenDone: true };
    const { body } = await cached(requestOf(large), on, large, options);
    abort.abort();
    await until(() => on.stats().state === "closed");
    await until(() => stats().fills === 0);
    await body!.cancel().catch(() => {});
  });

  test("what does not fit is refused before anything is sent", async () => {
    const options = { maxAge: 60, invalidator };
    const cyclic: Record<string, unknown> = { tenant: "a" };
    cyclic["self"] = cyclic;
    const calls: (() => Promise<unknown>)[] = [
      () => cached(new Request(requestOf("select 1"), { method: "POST" }), db, "select 1", options),
      () => get("select 1", { maxAge: 0 }),
      () => get("select 1", { maxAge: 1.5 }),
      () => get("select 1", { status: 201 } as never),
      () => cached(requestOf("select 1"), db, "select 1", undefined as never),
      () => cached(undefined as never, db, "select 1", options),
      () => get("select 1", { invalidator: undefined as never }),
      () => get("select 1", { tagHeader: "x-tags" as never }),
      () => get("select 1", { headers: { "Set-Cookie": "a=b" } }),
      () => get("select 1", { headers: { "a b": "c" } }),
      () => get("select 1", { headers: 5 as never }),
      ...[0, -1, NaN, Infinity, 1e12, "abc", 1n, null].map(
        (invalidatorTimeout) => () => get("select 1", { invalidatorTimeout: invalidatorTimeout as never }),
      ),
      ...[{}, { props: {} }, { tenant: "" }, { a: [null, { b: "" }] }, ["a"], "a", cyclic].map(
        (separatedBy) => () => get("select 1", { separatedBy: separatedBy as never }),
      ),
      () => get("select 1", { headers: { etag: '"a"' } }),
      () => get("select 1", { headers: { "x-accel-expires": "60" } }),
      () => get("select 1", { on: createClient({ host: "a.hyperdrive.local", user: "a", password: "b" }) }),
      () => db.transaction((tx) => cached(requestOf("select 1"), tx as never, "select 1", options)),
    ];
    for (const call of calls) await expect(call(), String(call)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    for (const query of [undefined, null, {}, 5, { text: 5 }, { text: "select 1", values: 1 }])
      await expect(cached(requestOf("select 1"), db, query as never, options)).rejects.toMatchObject({
        code: "INVALID_QUERY",
      });
    const byName = Object.assign(Object.create(null), { a: { b: 1 }, c: Object.assign(Object.create(null), { d: 2 }) });
    expect((await get("select 1", { separatedBy: byName })).status).toBe(200);
    expect((await get({ text: "select 1" } as never, { url: "https://example.com/one" })).status).toBe(200);
  });

  test("parameters that have the types from before a change of definitions are noticed", async () => {
    await db.simple(`create function chosen(int4) returns text immutable language sql as 'select $1::text';
      create function chosen_now() returns text volatile language sql as 'select clock_timestamp()::text'`);
    const query = { text: "select chosen($1) as it", values: [1] };
    await until(async () => (await get(query)).headers.has("cdn-cache-control"));
    await db.simple(`create function chosen(text) returns text immutable language sql as $$select 'text'$$;
      create or replace function chosen(int4) returns text volatile language sql as 'select chosen_now()'`);
    await until(async () => !(await get(query)).headers.has("cdn-cache-control"));
    let answer = await get(query);
    await until(async () => (answer = await get(query)).headers.has("cdn-cache-control"));
    expect(answer.text).toBe('{"it":"text"}\n');
    await db.simple("drop function chosen(int4); drop function chosen(text)");
  });

  test("a statement is learned again though each request aborts its signal at its end", async () => {
    const query = sql`select id, 'signal' as it from products where id = ${1}`;
    const ask = async () => {
      const abort = new AbortController();
      const { headers } = await get(query, { signal: abort.signal });
      abort.abort();
      return headers.has("cdn-cache-control");
    };
    await until(ask);
    await db.exec("grant select on products to public");
    await until(async () => !(await ask()));
    await until(ask);
  });

  // Last, because a 304 is open for maxFill.
  test("a request with its ETag is answered 304 without a query, until a commit to what it has read", async () => {
    const query = sql`select name, id from products where id = ${1}`;
    await until(async () => (await get(query)).headers.has("cdn-cache-control"));
    await using on = createClient(database.superuserUrl);
    const { headers } = await get(query, { on });
    const etag = headers.get("etag")!;
    await until(() => stats().fills === 0);
    const { flights } = on.stats();
    const given = { vary: "accept", "content-language": "en" };
    const confirmed = await get(query, { on, etag: `"x", ${etag}`, headers: given });
    expect(confirmed.status).toBe(200); // another form: the headers are others
    const plain = await get(query, { on, etag: `"x", ${etag}` });
    expect([plain.status, plain.text]).toEqual([304, ""]);
    expect(Object.fromEntries(plain.headers)).toEqual({
      "cache-control": "max-age=0, must-revalidate",
      ...{ "cdn-cache-control": "max-age=60", "cache-tag": `${tag},${EVERYTHING}`, etag },
    });
    expect(on.stats().flights - flights).toBe(1);
    await using others = createClient(database.superuserUrl, { columnNames: "camelCase" });
    expect((await get(query, { on: others, etag })).status).toBe(200); // another form too
    const slow: CacheInvalidator = {
      ...broken(() => {}),
      open: (opening) => ({ ...invalidator.open(opening), maxFill: 0 }),
      abandon: (fill) => invalidator.abandon(fill),
    };
    const late = await get(query, { on, etag, invalidator: slow });
    expect([late.status, why(late)]).toEqual([200, "the query took longer than maxFill of the invalidator"]);
    const etagOfGiven = confirmed.headers.get("etag")!;
    await until(async () => (await get(query, { on, etag: etagOfGiven, headers: given })).status === 304);
    expect((await get(query, { on, etag: etagOfGiven, headers: given })).headers.get("vary")).toBe("accept");
    await db.exec("insert into products values (3, 'c')");
    await until(async () => (await get(query, { on, etag })).status === 200);
    await db.exec("delete from products where id = 3");
  });
});
