// The export and the import by HTTP, in real workerd against PostgreSQL: files in each format, wrong files, both
// tenants, and what remains when a client hangs up in the middle.
import { request } from "node:http";

import { gunzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { pause } from "../support/until.mjs";
import { announce, ONCE, startDemo, type DemoWorker, workerds } from "./demo-server.ts";

type Ask = DemoWorker["acme"];

interface Problem {
  status: number;
  code: string;
  detail: string;
  line?: number;
  column?: string;
  constraint?: string;
}

let demo: Awaited<ReturnType<typeof startDemo>>;
beforeAll(async () => {
  demo = await startDemo();
});

const header = "reference,customer,status,total\n";
const csv = (prefix: string, count: number) =>
  header + Array.from({ length: count }, (_, n) => `${prefix}-${n + 1},Ada,open,${n}.50\n`).join("");
const upload = (ask: Ask, body: BodyInit, headers: Record<string, string> = {}) =>
  ask("/api/import", {
    method: "POST",
    headers: { ...ONCE, "content-type": "text/csv", ...headers },
    body,
    duplex: "half",
  } as RequestInit);
const stored = async (prefix: string) =>
  (
    await demo.admin.query<{ tenant: string; reference: string; customer: string; status: string; total: string }>(
      "select tenant, reference, customer, status, total from orders where reference like $1 order by id",
      [`${prefix}-%`],
    )
  ).rows;

let prefixes = 0;
const prefix = () => `F${process.pid}X${++prefixes}`;

async function refused(answer: Promise<Response>, status: number): Promise<Problem> {
  const response = await answer;
  const text = await response.text();
  expect(response.status, text).toBe(status);
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(text).not.toMatch(/copy |insert into|staging|pgz_edge_test/i);
  return JSON.parse(text) as Problem;
}

describe.each(workerds)("workerd %s", (workerd) => {
  let worker: DemoWorker;
  let acme: Ask;
  let globex: Ask;
  beforeAll(async () => {
    worker = await demo.worker({ workerd });
    ({ acme, globex } = worker);
  });

  const rowsOf = async (tenant: string) =>
    (
      await demo.admin.query<{ row: Record<string, unknown> }>(
        "select json_build_object('id', id, 'tenant', tenant, 'reference', reference, 'customer', customer, " +
          "'status', status, 'total', total::text, 'placed', placed) as row from orders where tenant = $1 order by id",
        [tenant],
      )
    ).rows.map(({ row }) => row);

  test("an export has all rows of the tenant, and no other rows, in each format", async () => {
    const expected = await rowsOf("globex");
    const lines = await globex("/api/export?format=ndjson");
    expect(lines.headers.get("content-disposition")).toBe('attachment; filename="orders-globex.ndjson"');
    expect(
      (await lines.text())
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(expected);

    const columnar = await globex("/api/export?format=columnar");
    expect(columnar.headers.get("content-disposition")).toContain("orders-globex.json");
    const { columns, rows } = (await columnar.json()) as { columns: unknown[]; rows: unknown[][] };
    expect(columns).toHaveLength(7);
    expect(rows).toEqual(expected.map((row) => Object.values(row)));

    for (const path of ["/api/export?format=csv", "/api/export"]) {
      const table = await globex(path);
      expect(table.headers.get("content-type")).toMatch(/^text\/csv/);
      const text = await table.text();
      expect(text.startsWith("id,tenant,reference,customer,status,total,placed\r\n")).toBe(true);
      expect(text).toContain('"O\'Brien, ""Pat"""');
      expect(text.trimEnd().split("\r\n")).toHaveLength(expected.length + 1);
    }
    expect((await (await acme("/api/export?format=ndjson")).text()).split("\n").length - 1).toBe(
      (await rowsOf("acme")).length,
    );
  });

  test("an export is compressed on request, and is the same file uncompressed", async () => {
    const raw = (encoding: string) =>
      new Promise<{ encoding: string | undefined; bytes: Buffer }>((resolve, reject) => {
        const headers = { authorization: `Bearer ${demo.sample.tokens.acme}`, "accept-encoding": encoding };
        request(new URL("/api/export", worker.url), { headers }, (response) => {
          const pieces: Buffer[] = [];
          response.on("data", (piece: Buffer) => pieces.push(piece));
          response.on("end", () =>
            resolve({ encoding: response.headers["content-encoding"], bytes: Buffer.concat(pieces) }),
          );
        })
          .on("error", reject)
          .end();
      });
    const [plain, packed] = [await raw("identity"), await raw("br, gzip")];
    expect([plain.encoding, packed.encoding]).toEqual([undefined, "gzip"]);
    expect(gunzipSync(packed.bytes).equals(plain.bytes)).toBe(true);
    expect(packed.bytes.length).toBeLessThan(plain.bytes.length / 3);
  });

  test("a cell that a spreadsheet would run is exported as text", async () => {
    const mark = prefix();
    expect(await (await upload(globex, `${header}${mark}-1,=1+1,open,1\n`)).json()).toMatchObject({ inserted: 1 });
    expect(await (await globex("/api/export?format=csv")).text()).toContain(`${mark}-1,"'=1+1",open`);
    expect(await (await globex("/api/export?format=ndjson")).text()).toContain('"customer":"=1+1"');
  });

  test("an export in an unknown format is refused", async () => {
    for (const format of ["xml", "toString", "json"]) await refused(globex(`/api/export?format=${format}`), 400);
  });

  test.each(["identity", "gzip"])(
    "a client that leaves an export (%s) ends its query within a second",
    async (encoding) => {
      // More data than all buffers between PostgreSQL and a client that does not read.
      await demo.admin.query(
        "insert into orders (tenant, reference, customer, total) " +
          "select 'acme', 'LEAVE-' || n, repeat(md5(n::text), 6), 1 from generate_series(1, 200000) n on conflict do nothing",
      );
      const leave = new AbortController();
      const response = await acme("/api/export?format=ndjson", {
        headers: { "accept-encoding": encoding },
        signal: leave.signal,
      });
      await response.body!.getReader().read();
      await demo.untilBusyWith("from orders order by id");
      leave.abort();
      await demo.untilQuiet();
    },
  );

  test("an imported file's rows are the tenant's, in order", async () => {
    await demo.admin.query("delete from orders where reference like 'LEAVE-%'");
    const mark = prefix();
    const text = `${header}${mark}-1,"Grace ""G"" Hopper",open,1\n${mark}-2,"two\nlines",paid,2.50\n${mark}-3,Zoë,shipped,0`;
    const logged = worker.logs.length;
    const response = await upload(acme, text);
    const bytes = new TextEncoder().encode(text).length;
    expect([response.status, await response.json()]).toEqual([200, { rows: 3, bytes, inserted: 3, skipped: 0 }]);
    // A success is no error in the log.
    expect(worker.logs.slice(logged).join("\n")).not.toMatch(/error|abort/i);
    expect(await stored(mark)).toEqual([
      { tenant: "acme", reference: `${mark}-1`, customer: 'Grace "G" Hopper', status: "open", total: "1.00" },
      { tenant: "acme", reference: `${mark}-2`, customer: "two\nlines", status: "paid", total: "2.50" },
      { tenant: "acme", reference: `${mark}-3`, customer: "Zoë", status: "shipped", total: "0.00" },
    ]);
    // The same file again, and by the other tenant.
    expect(await (await upload(acme, text)).json()).toMatchObject({ inserted: 0, skipped: 3 });
    expect(await (await upload(globex, text)).json()).toMatchObject({ inserted: 3, skipped: 0 });
    expect((await stored(mark)).map(({ tenant }) => tenant)).toEqual([
      "acme",
      "acme",
      "acme",
      "globex",
      "globex",
      "globex",
    ]);
  });

  test.each(["\r", "\r\n"])(
    "a file whose lines end with %j is imported, and its lines are counted on the way",
    async (end) => {
      const mark = prefix();
      const lines = csv(mark, 3).replaceAll("\n", end);
      let more = () => {};
      const body = new ReadableStream<Uint8Array>({
        async start(controller) {
          for (const piece of lines.split(/(?<=\r)/)) controller.enqueue(Buffer.from(piece));
          await new Promise<void>((resolve) => (more = resolve));
          controller.close();
        },
      });
      const response = await upload(acme, body, { accept: "application/x-ndjson" });
      let text = "";
      for await (const piece of response.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>)
        if ((text += piece).includes('{"rows":3,')) more();
      expect(JSON.parse(text.trimEnd().split("\n").at(-1)!)).toMatchObject({ done: { rows: 3, inserted: 3 } });
    },
  );

  test.each([1, 2, 100])("a file with a byte order mark is imported in pieces of %i", async (length) => {
    const mark = prefix();
    const bytes = Buffer.from(`\ufeff${csv(mark, 2)}`);
    const pieces = Array.from({ length: Math.ceil(bytes.length / length) }, (_, at) =>
      bytes.subarray(at * length, (at + 1) * length),
    );
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const piece = pieces.shift();
        if (piece) controller.enqueue(piece);
        else controller.close();
      },
    });
    const response = await upload(acme, body);
    expect([response.status, await response.json()]).toMatchObject([200, { rows: 2, inserted: 2 }]);
  });

  test.each(["ref,customer,status,total", "reference,customer,total", "reference;customer;status;total"])(
    "the first line %s is refused, and the right one named",
    async (first) => {
      const response = await upload(acme, csv(prefix(), 2).replace(/.*/, first));
      const { detail, ...problem } = (await response.json()) as Problem;
      expect([response.status, problem]).toMatchObject([422, { line: 1, code: "22P04" }]);
      expect(detail).toContain("reference,customer,status,total");
    },
  );

  test("an import reports its progress while the file is still arriving", async () => {
    const mark = prefix();
    const rows = csv(mark, 4_000).split(/(?<=\n)/);
    let sent = 0;
    let more = () => {};
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        if (sent === 2_000) await new Promise<void>((resolve) => (more = resolve));
        controller.enqueue(Buffer.from(rows.slice(sent, (sent += 1_000)).join("")));
        if (sent >= rows.length) controller.close();
      },
    });
    const response = await upload(acme, body, { accept: "application/x-ndjson" });
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    const lines: Record<string, unknown>[] = [];
    let text = "";
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
      const parts = (text + piece).split("\n");
      text = parts.pop()!;
      lines.push(...parts.map((part) => JSON.parse(part) as Record<string, unknown>));
      if (lines.at(-1)?.["rows"] === 1_999) more(); // all rows sent so far, and the report came before the rest
    }
    expect(lines.some(({ rows }) => rows === 1_999)).toBe(true);
    const progress = lines.slice(0, -1) as { rows: number; bytes: number }[];
    expect(progress.map(({ bytes }) => bytes)).toEqual(progress.map(({ bytes }) => bytes).sort((a, b) => a - b));
    expect(lines.at(-1)).toEqual({
      done: { rows: 4_000, bytes: rows.join("").length, inserted: 4_000, skipped: 0 },
    });
    expect(await stored(mark)).toHaveLength(4_000);
  });

  const bad: [string, (mark: string) => string, Partial<Problem>][] = [
    ["a total that is no number", (mark) => `${mark}-2,Ada,open,abc\n`, { line: 3, column: "total", code: "22P02" }],
    ["a total below 0", (mark) => `${mark}-2,Ada,open,-1\n`, { line: 3, constraint: "orders_total", code: "23514" }],
    ["a status that is none", (mark) => `${mark}-2,Ada,lost,1\n`, { line: 3, constraint: "orders_status" }],
    ["a customer that is missing", (mark) => `${mark}-2,,open,1\n`, { line: 3, column: "customer", code: "23502" }],
    ["a cell too few", (mark) => `${mark}-2,Ada,open\n`, { line: 3, code: "22P04" }],
    ["a cell too many", (mark) => `${mark}-2,Ada,open,1,1\n`, { line: 3, code: "22P04" }],
    ["a quote that never ends", (mark) => `${mark}-2,"Ada,open,1\n`, { line: 4, code: "22P04" }],
  ];
  test.each(bad)("a line with %s is named, and nothing is stored", async (_, line, expected) => {
    const mark = prefix();
    const text = csv(mark, 1) + line(mark);
    expect(await refused(upload(acme, text), 422)).toMatchObject(expected);
    const told = await (await upload(acme, text, { accept: "application/x-ndjson" })).text();
    expect(JSON.parse(told.trimEnd().split("\n").at(-1)!)).toMatchObject({ problem: { status: 422, ...expected } });
    expect(await stored(mark)).toEqual([]);
  });

  test("a wrong line at the beginning of a long file is still reported", async () => {
    const mark = prefix();
    const text = csv(mark, 200_000).replace(",open,", ",lost,");
    expect(await refused(upload(acme, text), 422)).toMatchObject({ line: 2, constraint: "orders_status" });
    expect(await stored(mark)).toEqual([]);
  });

  test("a wrong line is reported when a client that pauses has sent all of its file", async () => {
    const rows = csv(prefix(), 20_000).replace(",open,", ",lost,");
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        // COPY has failed by then, while the Worker is reading the body.
        if (sent) await pause(sent === 200_000 ? 1_000 : 0);
        controller.enqueue(Buffer.from(rows.slice(sent, (sent += 200_000))));
        if (sent >= rows.length) controller.close();
      },
    });
    const response = await upload(acme, body, { accept: "application/x-ndjson" });
    let told = "";
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
      told += piece;
      if (piece.includes("problem")) expect(sent).toBeGreaterThanOrEqual(rows.length);
    }
    expect(JSON.parse(told.trimEnd().split("\n").at(-1)!)).toMatchObject({ problem: { status: 422, line: 2 } });
  });

  test("an upload of the wrong format or without a valid token is refused", async () => {
    expect(await refused(upload(acme, "reference,total\nX-1,1\n"), 422)).toMatchObject({ line: 1 });
    expect(await refused(upload(acme, new Uint8Array([...Buffer.from(header), 0xff, 10])), 422)).toMatchObject({
      line: 2,
    });
    await refused(upload(acme, csv("X", 1), { "content-type": "application/json" }), 415);
    await refused(upload(acme, csv("X", 1), { "content-encoding": "gzip" }), 415);
    expect(await refused(upload(acme, ""), 422)).toMatchObject({ line: 1 });
    await refused(upload(worker.bearing("x".repeat(64)), csv("X", 1)), 401);
  });

  test.each(["application/json", "application/x-ndjson"])(
    "an upload that breaks off (%s) stores nothing",
    async (accept) => {
      const mark = prefix();
      const sending = request(new URL("/api/import", worker.url), {
        method: "POST",
        headers: { authorization: `Bearer ${demo.sample.tokens.acme}`, "content-type": "text/csv", accept },
      });
      sending.on("error", () => {});
      sending.write(csv(mark, 10_000));
      await demo.untilBusyWith("copy staging");
      await pause(100);
      sending.destroy();
      await demo.untilQuiet();
      expect(await stored(mark)).toEqual([]);
    },
  );

  test("exports and imports leave no connection and no table", async () => {
    const look = "select state, query from pg_stat_activity where usename = $1";
    await expect.poll(async () => (await demo.admin.query(look, [demo.sample.appRole])).rows).toEqual([]);
    expect((await demo.admin.query("select from pg_class where relname = 'staging'")).rowCount).toBe(0);
  });
});

describe("caps", () => {
  let worker: DemoWorker;
  beforeAll(async () => {
    worker = await demo.worker({ tight: true });
  });

  test("an export with too many rows breaks off", async () => {
    // It may break off before workerd has sent the head, and then there is no Response.
    const exported = worker.acme("/api/export", { headers: { "accept-encoding": "identity" } });
    await expect(exported.then((response) => response.text())).rejects.toThrow();
    await demo.untilQuiet();
    expect((await worker.globex("/api/export")).status).toBe(200);
  });

  test("an import with too many rows or bytes is a 413 and stores nothing, announced or not", async () => {
    const mark = prefix();
    expect(await (await upload(worker.acme, csv(mark, 500))).json()).toMatchObject({ inserted: 500 });
    const more = prefix();
    expect(await refused(upload(worker.acme, csv(more, 501)), 413)).toMatchObject({ code: "TOO_MANY_ROWS" });
    // COPY accepts each kind of line end, and a last line without one.
    for (const text of [csv(more, 501).replaceAll("\n", "\r"), csv(more, 501).trimEnd()])
      expect(await refused(upload(worker.acme, text), 413)).toMatchObject({ code: "TOO_MANY_ROWS" });
    const long = `${header}${more}-1,${"x".repeat(100_000)},open,1\n`;
    const url = new URL("/api/import", worker.url);
    expect(await announce(url, demo.sample.tokens.acme, "text/csv", long.length)).toBe(413);
    expect(await refused(upload(worker.acme, new Blob([long]).stream()), 413)).toMatchObject({ code: "TOO_LARGE" });
    expect(await stored(more)).toEqual([]);
  });

  test("an import that takes too long is a 504 and stores nothing", async () => {
    const hasty = await demo.worker({ hasty: true });
    const mark = prefix();
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(Buffer.from(csv(mark, 10))),
    });
    expect(await refused(upload(hasty.acme, body), 504)).toMatchObject({ code: "QUERY_TIMEOUT" });
    await demo.untilQuiet();
    expect(await stored(mark)).toEqual([]);
  });
});
