// ETag, If-None-Match and 304, over a stream of any bytes.
import { beforeEach, expect, test } from "vitest";
import { conditional, type ConditionalOptions } from "../../js/api/conditional.ts";
import { standardToon } from "../../js/rows/standard-toon.ts";
import { installRuntime, type Runtime } from "../../js/runtime/runtime.ts";
import { PgzError } from "../../js/util/errors.ts";

beforeEach(() => installRuntime({ name: "here", background: () => {} } as unknown as Runtime));

interface Source {
  chunks: string[];
  error?: Error;
}

/** A caller whose stream gives these chunks, and then fails if there is an error. Counts what was asked of it. */
function callerOf({ chunks, error }: Source) {
  const asked = { queries: 0, cancelled: 0, closed: 0 };
  const encoder = new TextEncoder();
  const caller = {
    async stream() {
      asked.queries++;
      const left = [...chunks];
      return new ReadableStream<Uint8Array>(
        {
          pull(controller) {
            const next = left.shift();
            if (next !== undefined) controller.enqueue(encoder.encode(next));
            else if (error) controller.error(error);
            else controller.close();
          },
          cancel: () => void asked.cancelled++,
        },
        { highWaterMark: 0 },
      );
    },
    async close() {
      asked.closed++;
    },
  };
  return { caller, asked };
}

const ask = (ifNoneMatch?: string, method = "GET") =>
  new Request("https://example.com/", {
    method,
    headers: ifNoneMatch === undefined ? {} : { "if-none-match": ifNoneMatch },
  });

const answer = (source: Source, request = ask(), options: ConditionalOptions = {}) =>
  conditional(request, callerOf(source).caller, "select 1", options);

const tagged = async (source: Source, options?: ConditionalOptions) =>
  (await answer(source, ask(), options)).headers.get("etag")!;

const SOME = { chunks: ['{"a":1}\n', '{"a":2}\n'] };

test("an answer has all bytes, their number, and a weak tag of 24 characters of their hash", async () => {
  const response = await answer(SOME);
  expect(response.status).toBe(200);
  expect(await response.text()).toBe('{"a":1}\n{"a":2}\n');
  expect(response.headers.get("content-length")).toBe("16");
  const tag = response.headers.get("etag")!;
  expect(tag).toMatch(/^W\/"[A-Za-z0-9+/]{24}"$/);
  expect(await tagged({ chunks: ['{"a":1}\n{"a":2}\n'] })).toBe(tag);
  expect(await tagged({ chunks: ['{"a":2}\n', '{"a":1}\n'] })).not.toBe(tag);
});

test("no rows have another tag in another format, and no other type and bytes make the same text", async () => {
  const typed = (type: string, text: string) => tagged({ chunks: [text] }, { headers: { "content-type": type } });
  expect(await typed("text/x1", "1")).not.toBe(await typed("text/x", "11"));
  const tags = await Promise.all(
    [{}, { format: "csv" }, { format: "toon" }, { format: "toon", toon: standardToon }].map((options) =>
      tagged({ chunks: [] }, options as ConditionalOptions),
    ),
  );
  expect(new Set(tags).size).toBe(4);
});

test("If-None-Match holds the tag in each form that RFC 9110 allows", async () => {
  const weak = await tagged(SOME);
  const strong = weak.slice(2);
  for (const given of [weak, strong, "*", ` ${weak} `, `"other", ${weak}`, `${strong},W/"a, b"`, `"a, b" ,${weak}`])
    expect((await answer(SOME, ask(given))).status, given).toBe(304);
  const cut = strong.slice(1, -1);
  for (const given of ["", '"other"', cut, `"${cut},"`, `"x${cut}"`, `w/${strong}`, weak.toLowerCase(), '"*"', "**"])
    expect((await answer(SOME, ask(given))).status, given).toBe(200);
});

test("a 304 has no body, and keeps the headers but for those of the body", async () => {
  const headers = {
    "cache-control": "no-cache",
    vary: "accept",
    "x-mine": "1",
    "content-type": "application/mine",
    "content-language": "en",
    "last-modified": "Tue, 01 Dec 2026 00:00:00 GMT",
  };
  const tag = await tagged(SOME, { headers });
  const response = await answer(SOME, ask(tag), { headers });
  expect(response.body).toBe(null);
  expect(Object.fromEntries(response.headers)).toEqual({
    "cache-control": "no-cache",
    vary: "accept",
    "x-mine": "1",
    etag: tag,
  });
});

test("a result longer than the bound comes whole, without a tag and a length", async () => {
  const text = SOME.chunks.join("");
  const tag = await tagged(SOME, { etagUpTo: text.length });
  const response = await answer(SOME, ask(tag), { etagUpTo: text.length - 1 });
  expect([response.status, await response.text()]).toEqual([200, text]);
  for (const name of ["etag", "content-length"]) expect(response.headers.has(name)).toBe(false);
  // "*" is any answer, also one without a tag.
  const { caller, asked } = callerOf(SOME);
  const any = await conditional(ask("*"), caller, "select 1", { etagUpTo: 3 });
  expect([any.status, any.headers.has("etag"), asked.cancelled]).toEqual([304, false, 1]);
  const empty = await answer({ chunks: [] }, ask(), { etagUpTo: 0 });
  expect([empty.headers.has("etag"), await empty.text()]).toEqual([true, ""]);
});

test("a client that leaves a long result cancels the query, and it does not run ahead of its reader", async () => {
  const { caller, asked } = callerOf({ chunks: Array.from({ length: 10 }, () => "x".repeat(10)) });
  const { body } = await conditional(ask(), caller, "select 1", { etagUpTo: 15 });
  const reader = body!.getReader();
  for (let n = 0; n < 3; n++) expect((await reader.read()).value).toHaveLength(10);
  await reader.cancel();
  expect(asked).toEqual({ queries: 1, cancelled: 1, closed: 0 });
});

test("HEAD has the headers of GET; where the result is longer than the bound its query is cancelled", async () => {
  const get = await answer(SOME);
  const head = await answer(SOME, ask(undefined, "HEAD"));
  expect(Object.fromEntries(head.headers)).toEqual(Object.fromEntries(get.headers));
  expect([head.body, head.headers.get("content-length")]).toEqual([null, "16"]);
  expect((await answer(SOME, ask(get.headers.get("etag")!, "HEAD"))).status).toBe(304);
  const { caller, asked } = callerOf(SOME);
  const long = await conditional(ask(undefined, "HEAD"), caller, "select 1", { etagUpTo: 3 });
  expect([long.status, long.body, asked.cancelled]).toEqual([200, null, 1]);
});

test("a query that fails while its result is held rejects the call; later it fails the body", async () => {
  const failing = { chunks: ["1234"], error: new Error("division by zero") };
  await expect(answer(failing)).rejects.toBe(failing.error);
  const response = await answer(failing, ask(), { etagUpTo: 3 });
  await expect(response.text()).rejects.toThrow("division by zero");
});

test("an error of a held result says that nothing was passed on, and whether the call may be made again", async () => {
  for (const [code, mayRunAgain] of [
    ["22012", false],
    ["40001", true],
  ] as const) {
    const error = new PgzError(code, "", { hasNoEffect: mayRunAgain, committed: true });
    expect(error).toMatchObject({ committed: true, retryable: false });
    await expect(answer({ chunks: ["1234"], error })).rejects.toMatchObject({
      committed: false,
      retryable: mayRunAgain,
      hasNoEffect: mayRunAgain,
    });
  }
});

test("what cannot be asked is refused before the query, and closes the client if that is asked for", async () => {
  const refused: [method: string, options: object, text: RegExp][] = [
    ["POST", {}, /for GET and HEAD, not for POST: use respond/],
    ["GET", { etagUpTo: -1 }, /"etagUpTo" must be a whole number/],
    ["GET", { etagUpTo: "1" }, /"etagUpTo" must be a whole number/],
    ["GET", { format: "xml" }, /"format" must be one of/],
    ["GET", { headers: { "a b": "c" } }, /"headers" has a name/],
    ["GET", { gzip: "yes" }, /"gzip" must be one of/],
    ["GET", { status: 404 }, /"status" of respond\(\) is 200 or 304 here/],
    ["GET", { headers: { ETag: '"mine"' } }, /makes the header etag/],
  ];
  for (const [method, options, text] of refused) {
    for (const closeWhenDone of [true, false]) {
      const { caller, asked } = callerOf(SOME);
      const given = { ...options, closeWhenDone } as ConditionalOptions;
      const error = await conditional(ask(undefined, method), caller, "select 1", given).catch(
        (caught: Error) => caught,
      );
      expect(error).toMatchObject({ code: "INVALID_OPTION", message: expect.stringMatching(text) as string });
      expect(asked).toEqual({ queries: 0, cancelled: 0, closed: closeWhenDone ? 1 : 0 });
    }
  }
});

test("what is no Request, no caller and no options is refused by its name", async () => {
  const { caller, asked } = callerOf(SOME);
  const refused: [Parameters<typeof conditional>, RegExp][] = [
    [[{ method: "GET", headers: { host: "a" } } as never, caller, "select 1"], /whose headers have get\(\)/],
    [[undefined as never, caller, "select 1"], /takes a Request/],
    [[ask(), {} as never, "select 1", { closeWhenDone: true }], /then a client/],
    [[ask(), null as never, "select 1", { closeWhenDone: true }], /then a client/],
    [[ask(), caller, "select 1", null as never], /Options must be an object/],
  ];
  for (const [given, text] of refused) {
    const error = await conditional(...given).catch((caught: Error) => caught);
    expect(error).toMatchObject({ code: "INVALID_OPTION", message: expect.stringMatching(text) as string });
  }
  expect(asked.queries).toBe(0);
});

test("options may be inherited, as those of every call", async () => {
  const given: object[] = [];
  const { caller } = callerOf(SOME);
  const stream = (_: unknown, options: object) => (given.push(options), caller.stream());
  const options = Object.create(Object.freeze({ format: "csv", maxRows: 7, etagUpTo: 3 })) as ConditionalOptions;
  const response = await conditional(ask(), { stream }, "select 1", options);
  expect(response.headers.get("content-type")).toMatch(/csv/);
  expect(response.headers.has("etag")).toBe(false);
  // A copy, which a cluster may spread.
  expect({ ...given[0] }).toMatchObject({ format: "csv", maxRows: 7, gzip: false });
});
