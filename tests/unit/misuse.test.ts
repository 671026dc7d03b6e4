// What users of other drivers type first, and other slips: each works, or is refused with an error of the driver that
// says what to write, before anything is sent.
import { expect, test } from "vitest";
import { Client, createClient } from "../../js/api/client.ts";
import { CALL_OPTIONS } from "../../js/api/options.ts";
import { createPool, Pool } from "../../js/pool/pool.ts";
import { sql, toCall, toQuery } from "../../js/statement/sql.ts";
import { ConnectionError, PgzError } from "../../js/util/errors.ts";
import { observers } from "../../js/util/observer.ts";
import { useMemoryServer } from "../support/memory-session.ts";

useMemoryServer();

/** Bypasses the compiler's checks. */
type Loose = Record<string, (...given: unknown[]) => unknown>;

const place = { host: "h", user: "u", sslmode: "disable" as const };
const connect = () => Promise.reject(new ConnectionError("CONNECT_FAILED", "as told", { stage: "tcp" }));

async function thrown(act: () => unknown): Promise<unknown> {
  try {
    const result = await act();
    if (typeof (result as AsyncIterator<unknown>)?.next === "function") await (result as AsyncIterator<unknown>).next();
    return undefined;
  } catch (error) {
    return error;
  }
}

const odd = [null, 5, "text", Symbol("s"), [], [1], () => {}, {}, { nonsense: 1 }, new Map(), true];
/** Calls, with valid arguments. */
const calls: Record<string, readonly unknown[]> = {
  query: ["select 1", [], {}],
  rows: ["select 1", [], {}],
  exec: ["select 1", [], {}],
  json: ["select 1", {}],
  stream: ["select 1", {}],
  respond: ["select 1", {}],
  simple: ["select 1", {}],
  cursor: ["select 1", 10, {}],
  batch: [["select 1"], {}],
  prepare: ["select 1", {}],
  describe: ["select 1", {}],
  notify: ["channel", "payload", {}],
  listen: ["channel", {}],
  copyFrom: ["copy t from stdin", ["x"], {}],
  copyFromRows: ["t", ["a"], [[1]], {}],
  copyTo: ["copy t to stdout", {}],
  copyToRows: ["select 1", {}],
  transaction: [() => {}, {}],
  scope: [{ role: "r" }],
  acquire: [{}],
};

test.each(Object.keys(calls))("invalid arguments of %s give an error of the driver", async (name) => {
  const client = createClient({ ...place, connect });
  const pool = createPool({ ...place, connect, acquireTimeout: 50 });
  const others: string[] = [];
  const scope = client.scope({ settings: { "a.b": 1 } });
  for (const owner of [client, pool, scope] as unknown as Loose[]) {
    if (!(name in owner)) continue;
    for (const given of odd)
      for (let at = 0; at <= calls[name]!.length; at++) {
        const args = [...calls[name]!];
        args[at] = given;
        const error = await thrown(() => owner[name]!(...args));
        if (error && !(error instanceof PgzError)) others.push(`${at}: ${String(given)}: ${String(error)}`);
      }
  }
  expect([...new Set(others)]).toEqual([]);
  await pool.close();
  await client.close();
});

test("invalid values of any option give an error of the driver", async () => {
  const client = createClient({ ...place, connect });
  const others: string[] = [];
  for (const name of [...CALL_OPTIONS, "isolation", "retry", "settings"])
    for (const given of odd)
      for (const [call, args] of Object.entries(calls)) {
        if (call === "acquire") continue;
        const error = await thrown(() => (client as unknown as Loose)[call]!(...args.slice(0, -1), { [name]: given }));
        if (error && !(error instanceof PgzError)) others.push(`${call} ${name}: ${String(given)}: ${String(error)}`);
      }
  expect([...new Set(others)]).toEqual([]);
});

test("invalid arguments of the sql tag, clients and pools give an error of the driver", async () => {
  const others: string[] = [];
  const makers: Loose = {
    createClient: createClient as never,
    createPool: createPool as never,
    observers: observers as never,
    ...(sql as unknown as Loose),
    sql: sql as never,
  };
  for (const [name, make] of Object.entries(makers))
    for (const given of [undefined, ...odd])
      for (const more of [[], ["id"], [[1]], [undefined], [null]]) {
        const error = await thrown(() => String((make(given, ...more) as { text?: unknown } | undefined)?.text));
        if (error && !(error instanceof PgzError)) others.push(`${name}(${String(given)}): ${String(error)}`);
      }
  expect([...new Set(others)]).toEqual([]);
});

const message = (code: string, text: RegExp) => expect.objectContaining({ code, message: expect.stringMatching(text) });

test("arguments that would be ignored are refused, and the error says what to write", async () => {
  const client = createClient({ ...place, connect }) as unknown as Loose;
  const { query, rows, json, exec } = {
    query: (...given: unknown[]) => thrown(() => client.query!(...given)),
    rows: (...given: unknown[]) => thrown(() => client.rows!(...given)),
    json: (...given: unknown[]) => thrown(() => client.json!(...given)),
    exec: (...given: unknown[]) => thrown(() => client.exec!(...given)),
  };
  const callback = () => {};
  const noCallback = message("INVALID_OPTION", /No call takes a callback: await/);
  expect(await query("select 1", callback)).toEqual(noCallback);
  expect(await query("select $1", [1], callback)).toEqual(noCallback);
  expect(await query("select $1", [1], {}, callback)).toEqual(noCallback);
  expect(await query({ text: "select $1", values: [1] }, callback)).toEqual(noCallback);
  expect(await exec("select 1", callback)).toEqual(noCallback);
  expect(await json("select 1", callback)).toEqual(noCallback);
  expect(await json("select $1", [1])).toEqual(message("INVALID_QUERY", /sql`… \$\{value\} …`/));
  expect(await query(sql`select ${1}`, [1])).toEqual(message("INVALID_QUERY", /Values belong in the query/));
  expect(await rows({ text: "select 1", rowMode: "array" })).toEqual(
    message("INVALID_QUERY", /no "rowMode": options are the next argument/),
  );
  expect(await query({ text: "select 1", name: "one" })).toEqual(
    message("INVALID_QUERY", /no "name": the driver names prepared statements/),
  );
  expect(await query("select 1", "select 2")).toEqual(message("INVALID_OPTION", /must be an object/));
  expect(await thrown(() => client.transaction!(["select 1"]))).toEqual(message("INVALID_OPTION", /use batch/));
  for (const rows of [{ id: 1 }, Promise.resolve([[1]]), "x", null])
    expect(await thrown(() => client.copyFromRows!("t", ["id"], rows))).toEqual(
      message("INVALID_OPTION", /await a promise/),
    );
  expect(await thrown(() => client.copyFromRows!("t", "id,name", [[1]]))).toEqual(
    message("INVALID_QUERY", /an array of names/),
  );
});

test("a call that is no tag says so when it is written as one, whatever its other arguments are", async () => {
  const client = createClient({ ...place, connect });
  const pool = createPool({ ...place, connect });
  const strings = Object.assign(["copy t to ", "", ""], { raw: ["copy t to ", "", ""] });
  const noTag = message("INVALID_QUERY", /only query, first, rows and exec are tags: .*stream\(sql`…`\)/);
  const others = "json stream respond simple cursor batch prepare describe copyFrom copyFromRows copyTo copyToRows";
  for (const owner of [client, pool] as unknown as Loose[])
    for (const name of others.split(" "))
      for (const values of [[], [1, 2]])
        expect(await thrown(() => owner[name]!(strings, ...values)), name).toEqual(noTag);
});

test("`new Client` and `new Pool` give an error that names the function to call", () => {
  for (const given of ["postgres://u:p@h/d", place, undefined]) {
    expect(() => new Client(given as never)).toThrow(/createClient\(url, options\)/);
    expect(() => new Pool(given as never, {} as never, undefined as never)).toThrow(/createPool\(url, options\)/);
    expect(() => new (Pool as unknown as new (url: unknown) => Pool)(given)).toThrow(PgzError);
  }
});

test("an unknown method of an observer is refused, also of a class", async () => {
  class Watching {
    onQueryStarted() {}
  }
  for (const observer of [{ onQueryStarted: () => {} }, new Watching()])
    expect(() => createClient({ ...place, observer } as never)).toThrow(
      message("UNKNOWN_OPTION", /method "onQueryStarted" of option "observer".*"onQueryStart"/),
    );
  class Good {
    readonly seen: unknown[] = [];
    onQueryEnd(event: unknown) {
      this.seen.push(event);
    }
  }
  await createClient({ ...place, observer: new Good() }).close();
});

test("values may follow a text as an argument, and sql.values accepts an object", () => {
  expect(toCall("select $1, $2", [[1, "a"]])).toEqual([{ text: "select $1, $2", values: [1, "a"] }, {}]);
  expect(toCall("select $1", [[1], { maxRows: 1 }])[1]).toEqual({ maxRows: 1 });
  expect(toCall("select 1", [[]])[0]).toEqual({ text: "select 1", values: [] });
  const whole = sql.unsafe("select $2, $1, $1", [1, 2]);
  expect(whole).toEqual({ text: "select $2, $1, $1", values: [1, 2] });
  expect(toQuery(whole)).toBe(whole);
  expect(() => sql`select * from (${whole}) as t`).toThrow(message("INVALID_QUERY", /whole statement/));
  expect(() => sql.unsafe("select $1", [undefined])).toThrow(message("INVALID_PARAMETER", /\$1 is undefined/));
  expect(sql`insert into t ${sql.values({ a: 1, b: 2 })}`).toMatchObject({
    text: 'insert into t ("a", "b") values ($1, $2)',
    values: [1, 2],
  });
});

test("the error for an undefined value quotes the text before it", () => {
  const user: { id?: number } = {};
  expect(() => sql`select * from users where active and id = ${user.id!} and name = ${"x"}`).toThrow(
    message("INVALID_PARAMETER", /^Value 1 of the query, after "where active and id =", is undefined/),
  );
});

test("errors of sql.set and sql.values name the function", () => {
  expect(() => sql.set({})).toThrow(message("INVALID_QUERY", /^sql\.set needs/));
  expect(() => sql.values({})).toThrow(message("INVALID_QUERY", /^sql\.values needs/));
  expect(() => sql.values([1] as never)).toThrow(message("INVALID_QUERY", /^sql\.values needs/));
});
