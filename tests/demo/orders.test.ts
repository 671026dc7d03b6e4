// The routes below /api/orders by HTTP, in real workerd against PostgreSQL: good and bad input, two tenants, callers
// without access, and what a response must not say.
import { beforeAll, describe, expect, test } from "vitest";
import { orderRows } from "../../worker-example/sample-data.mjs";
import { ONCE, startDemo, type DemoWorker, workerds } from "./demo-server.ts";

interface Order {
  id: number;
  tenant: string;
  reference: string;
  customer: string;
  status: string;
  total: string;
  placed: string;
}

interface Page {
  items: Order[];
  next: string | null;
}

type Ask = DemoWorker["acme"];

let demo: Awaited<ReturnType<typeof startDemo>>;
beforeAll(async () => {
  demo = await startDemo();
});

const send = (ask: Ask, method: string, path: string, body: unknown, type = "application/json") =>
  ask(path, {
    method,
    headers: { ...ONCE, "content-type": type },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

let made = 0;
const newOrder = () => ({ reference: `TEST-${process.pid}-${++made}`, customer: "Ada", total: "19.90" });

async function read<T>(response: Response | Promise<Response>, status = 200): Promise<T> {
  const text = await (await response).text();
  expect((await response).status, text).toBe(status);
  return JSON.parse(text) as T;
}

/** Returns the problem, which is always problem+json with the request's id. */
async function problem(answer: Response | Promise<Response>, status: number) {
  const response = await answer;
  const body = await read<Record<string, unknown>>(response, status);
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(body).toMatchObject({ status, title: expect.any(String) as unknown, detail: expect.any(String) as unknown });
  expect(body["requestId"]).toBe(response.headers.get("x-request-id"));
  expect(JSON.stringify(body)).not.toMatch(/select|insert into|127\.0\.0\.1|localhost|pgz_edge_test/i);
  return body;
}

describe.each(workerds)("workerd %s", (workerd) => {
  let worker: DemoWorker;
  let acme: Ask;
  let globex: Ask;
  beforeAll(async () => {
    worker = await demo.worker({ workerd });
    ({ acme, globex } = worker);
  });

  const create = async (ask: Ask, order: object = newOrder()) =>
    read<Order>(send(ask, "POST", "/api/orders", order), 201);

  test("paging by the last id gives all rows once, in order, of this tenant only", async () => {
    const rows: Order[] = [];
    let path: string | null = "/api/orders?limit=77";
    while (path) {
      const response = await globex(path);
      const { items, next }: Page = await read(response);
      expect(response.headers.get("link")).toBe(next && `<${next}>; rel="next"`);
      rows.push(...items);
      path = next;
    }
    const { rows: expected } = await demo.admin.query<{ id: string; total: string; placed: string }>(
      "select id, total, to_json(placed)#>>'{}' as placed from orders where tenant = 'globex' order by id",
    );
    expect(rows.map(({ id, total, placed }) => ({ id: String(id), total, placed }))).toEqual(expected);
    expect(rows.length).toBeGreaterThanOrEqual(orderRows.globex);
    expect(new Set(rows.map(({ tenant }) => tenant))).toEqual(new Set(["globex"]));
    expect((await read<Page>(acme("/api/orders"))).items).toHaveLength(50);
  });

  test("a full last page has no next", async () => {
    const { items } = await read<Page>(globex("/api/orders?limit=1000"));
    expect(await read<Page>(globex(`/api/orders?after=${items.at(-3)!.id}&limit=2`))).toEqual({
      items: items.slice(-2),
      next: null,
    });
  });

  test("NDJSON streams the same rows, one per line", async () => {
    const response = await acme("/api/orders?after=10&limit=1000", { headers: { accept: "application/x-ndjson" } });
    expect(response.headers.get("content-type")).toMatch(/^application\/x-ndjson/);
    const lines = (await response.text()).trimEnd().split("\n");
    const { items } = await read<Page>(acme("/api/orders?after=10&limit=1000"));
    expect(lines.map((line) => JSON.parse(line) as Order)).toEqual(items);
  });

  test.each(["limit=0", "limit=1001", "limit=x", "limit=", "after=-1", "after=1.5", "after=1e3", `after=${2n ** 64n}`])(
    "a list with %s is refused",
    async (parameters) => {
      expect(await problem(acme(`/api/orders?${parameters}`), 400)).toMatchObject({ code: "BAD_PARAMETER" });
    },
  );

  test("an order is created, read, changed and removed", async () => {
    const order = newOrder();
    const response = await send(acme, "POST", "/api/orders", order);
    const row = await read<Order>(response, 201);
    expect(row).toMatchObject({ ...order, tenant: "acme", status: "open" });
    const path = response.headers.get("location")!;
    expect(path).toBe(`/api/orders/${row.id}`);
    expect(await read(acme(path))).toEqual(row);
    const changed = { ...row, status: "paid", total: "0.05" };
    expect(await read(send(acme, "PATCH", path, { status: "paid", total: 0.05 }))).toEqual(changed);
    expect(await read(send(acme, "PATCH", path, { status: "paid" }, "application/merge-patch+json"))).toEqual(changed);
    const gone = await acme(path, { method: "DELETE" });
    expect([gone.status, await gone.text()]).toEqual([204, ""]);
    for (const method of ["GET", "DELETE"]) await problem(acme(path, { method }), 404);
    await problem(send(acme, "PATCH", path, { status: "open" }), 404);
  });

  test("another tenant's order cannot be read, changed or removed", async () => {
    const { id } = await create(acme);
    const path = `/api/orders/${id}`;
    await problem(globex(path), 404);
    await problem(send(globex, "PATCH", path, { customer: "Eve" }), 404);
    await problem(globex(path, { method: "DELETE" }), 404);
    expect(await read(acme(path))).toMatchObject({ customer: "Ada" });
    // References are unique per tenant.
    const order = newOrder();
    await create(acme, order);
    await create(globex, order);
  });

  test("a tenant in the body is refused, even the caller's own", async () => {
    for (const tenant of ["globex", "acme"]) {
      const answer = await problem(send(acme, "POST", "/api/orders", { ...newOrder(), tenant }), 422);
      expect(answer["errors"]).toEqual([{ pointer: "#/tenant", detail: "unknown" }]);
    }
    const { id } = await create(acme);
    await problem(send(acme, "PATCH", `/api/orders/${id}`, { tenant: "globex" }), 422);
  });

  test("a reference that exists is a 409 that names the constraint", async () => {
    const order = newOrder();
    await create(acme, order);
    const answer = await problem(send(acme, "POST", "/api/orders", order), 409);
    expect(answer).toMatchObject({ code: "23505", constraint: "orders_reference_taken" });
    expect(JSON.stringify(answer)).not.toContain(order.reference);
    const { id } = await create(acme);
    await problem(send(acme, "PATCH", `/api/orders/${id}`, { reference: order.reference }), 409);
  });

  const wrong: [unknown, string[]][] = [
    [{}, ["#/reference", "#/customer", "#/total"]],
    [{ reference: "no", customer: "", total: "-1" }, ["#/reference", "#/customer", "#/total"]],
    [{ ...newOrder(), total: 1.999 }, ["#/total"]],
    [{ ...newOrder(), total: [5] }, ["#/total"]],
    [{ ...newOrder(), total: "12345678901" }, ["#/total"]],
    [{ ...newOrder(), status: "lost" }, ["#/status"]],
    [{ ...newOrder(), customer: "x".repeat(201) }, ["#/customer"]],
    [{ ...newOrder(), customer: "\0" }, ["#/customer"]],
    [{ ...newOrder(), customer: "\ud800" }, ["#/customer"]],
    [{ ...newOrder(), customer: null }, ["#/customer"]],
    [{ ...newOrder(), id: 7, "a/b~": 1, constructor: 1 }, ["#/id", "#/a~1b~0", "#/constructor"]],
  ];
  test.each(wrong)("refuses %j", async (order, pointers) => {
    const { errors } = await problem(send(acme, "POST", "/api/orders", order), 422);
    expect((errors as { pointer: string }[]).map(({ pointer }) => pointer)).toEqual(pointers);
  });

  test("values at the limits are accepted", async () => {
    const order = { ...newOrder(), customer: "😀".repeat(200), total: "9999999999.99" };
    expect(await create(acme, order)).toMatchObject(order);
  });

  test("a body that is not a JSON object, or is too long, is refused", async () => {
    const post = (body: unknown, type?: string) => send(acme, "POST", "/api/orders", body, type);
    await problem(post("{"), 400);
    await problem(post(""), 400);
    for (const body of ["[]", "null", "7"]) await problem(post(body), 422);
    await problem(post({}, "text/plain"), 415);
    await problem(post({ ...newOrder(), note: "x".repeat(20_000) }), 413);
    // Its length is not announced.
    const body = new Blob([" ".repeat(20_000)]).stream();
    const headers = { ...ONCE, "content-type": "application/json" };
    const init = { method: "POST", headers, body, duplex: "half" };
    await problem(acme("/api/orders", init), 413);
    const { id } = await create(acme);
    await problem(send(acme, "PATCH", `/api/orders/${id}`, {}), 422);
  });

  test.each(["x", "0", "-1", "1.0", "1e3", "9999999999999999", "1%20or%201=1", "%27"])(
    "%s is not a valid id",
    async (id) => {
      for (const method of ["GET", "DELETE"]) await problem(acme(`/api/orders/${id}`, { method }), 400);
      await problem(send(acme, "PATCH", `/api/orders/${id}`, { status: "paid" }), 400);
    },
  );

  test("no token or a wrong token is a 401, and changes nothing", async () => {
    const count = async () => (await demo.admin.query<{ n: string }>("select count(*) as n from orders")).rows[0]!.n;
    const before = await count();
    const token = demo.sample.tokens.acme;
    const wrong = ["", "acme", token.slice(1), `${token}0`, token.replace(/^./, "x"), `${token} x`, "constructor"];
    for (const one of wrong) {
      const ask = worker.bearing(one);
      for (const path of ["/api/orders", "/users", "/user?id=1", "/listen", "/query?q=select%201", "/elsewhere"]) {
        const response = await ask(path);
        expect(response.headers.get("www-authenticate")).toMatch(/^Bearer /);
        await problem(response, 401);
      }
      await problem(send(ask, "POST", "/api/orders", newOrder()), 401);
    }
    for (const authorization of [token, `Basic ${token}`, "Bearer"])
      await problem(fetch(new URL("/api/orders", worker.url), { headers: { authorization } }), 401);
    await problem(fetch(new URL(`/api/orders?token=${token}`, worker.url)), 401);
    expect(await count()).toBe(before);
  });

  test("the page and /health need no token", async () => {
    expect((await fetch(worker.url)).status).toBe(200);
    expect(await read(fetch(new URL("/health", worker.url)))).toEqual({ ok: true });
  });

  test("unknown paths and methods are refused", async () => {
    const response = await acme("/api/orders", { method: "PUT" });
    expect(response.headers.get("allow")).toBe("GET, POST");
    await problem(response, 405);
    expect((await acme("/api/orders/7", { method: "POST" })).headers.get("allow")).toBe("GET, PATCH, DELETE");
    for (const path of ["/api", "/api/orders/", "/api/orders/7/x", "/elsewhere"])
      expect((await acme(path)).status, path).toBe(path === "/api/orders/" ? 400 : 404);
    await problem(acme("/api/orders", { headers: { "sec-fetch-site": "cross-site" } }), 403);
  });

  test("each request is one line in the log, with the id of its response and without its parameters", async () => {
    const response = await acme("/api/orders?limit=3");
    const requestId = response.headers.get("x-request-id");
    await expect
      .poll(() =>
        worker.logs.map((line) => JSON.parse(line) as object).find((line) => Object(line).requestId === requestId),
      )
      .toMatchObject({ method: "GET", path: "/api/orders", status: 200, tenant: "acme" });
    expect(worker.logs.join()).not.toContain(demo.sample.tokens.acme);
    expect(worker.logs.join()).not.toContain("limit=3");
  });
});

test("the policy holds for any SQL: without a tenant no row is visible, and no row moves to another tenant", async () => {
  const { default: pg } = await import("pg");
  const app = new pg.Client({ connectionString: demo.sample.appUrl });
  await app.connect();
  try {
    await expect(app.query("select * from orders")).rejects.toMatchObject({ code: "42704" });
    await app.query("set app.tenant = ''");
    expect((await app.query("select * from orders")).rowCount).toBe(0);
    await app.query("set app.tenant = 'globex'");
    expect((await app.query("select from orders where tenant <> 'globex'")).rowCount).toBe(0);
    expect((await app.query("delete from orders where tenant = 'acme'")).rowCount).toBe(0);
    for (const statement of [
      "update orders set tenant = 'acme'",
      "insert into orders (tenant, reference, customer, total) values ('acme', 'X-1', 'Eve', 1)",
      "alter table orders disable row level security",
    ])
      await expect(app.query(statement), statement).rejects.toMatchObject({ code: "42501" });
  } finally {
    await app.end();
  }
});

test("a tenant may have several tokens while one replaces another", async () => {
  const { acme, globex } = demo.sample.tokens;
  const next = "n".repeat(64);
  const worker = await demo.worker({ tokens: { acme: [acme, next], globex } });
  for (const [token, tenant] of [
    [acme, "acme"],
    [next, "acme"],
    [globex, "globex"],
  ])
    expect((await read<Page>(worker.bearing(token!)("/api/orders?limit=1"))).items).toMatchObject([{ tenant }]);
  await worker.stop();
});

test.each([{ acme: "short" }, { acme: ["n".repeat(64), ""] }, { "Acme Inc": "n".repeat(64) }])(
  "invalid secrets (%j) are refused, and the response does not say why",
  async (tokens) => {
    const worker = await demo.worker({ tokens });
    expect(await problem(worker.bearing("n".repeat(64))("/api/orders"), 500)).toMatchObject({ code: "INTERNAL" });
    expect((await fetch(new URL("/health", worker.url))).status).toBe(200);
    await worker.stop();
  },
);

test("pages and bodies are capped", async () => {
  const worker = await demo.worker({ tight: true });
  expect((await read<Page>(worker.acme("/api/orders"))).items).toHaveLength(5);
  await problem(worker.acme("/api/orders?limit=11"), 400);
  await problem(send(worker.acme, "POST", "/api/orders", { ...newOrder(), note: "x".repeat(1_000) }), 413);
  await worker.stop();
});

test("the time of a request is capped", async () => {
  const worker = await demo.worker({ hasty: true });
  await demo.admin.query("begin; lock table orders");
  const answer = await problem(worker.acme("/api/orders"), 504).finally(() => demo.admin.query("rollback"));
  expect(answer).toMatchObject({ code: "QUERY_TIMEOUT" });
  await demo.untilQuiet();
  await worker.stop();
});
