// The spans of the example's requests, as a streaming tail Worker sees them: one around each request, the driver's
// spans beneath it, and no secret in any of them.
import { beforeAll, expect, test } from "vitest";
import { startDemo, type DemoWorker } from "./demo-server.ts";

interface Span {
  id: string;
  name: string;
  parent: string | undefined;
  attributes: Record<string, unknown>;
  status?: { code: string };
}

/** Logs each span when it is closed. */
const TAIL = `
const spans = new Map();
export default {
  tailStream: () => ({ event, spanContext }) => {
    const { type, info } = event;
    if (type === "spanOpen") spans.set(event.spanId, { id: event.spanId, name: event.name, parent: spanContext.spanId, attributes: {} });
    const span = spans.get(spanContext?.spanId);
    if (!span) return;
    if (type === "attributes") for (const { name, value } of info)
      span.attributes[name] = typeof value === "bigint" ? Number(value) : value;
    if (type === "spanUpdate") Object.assign(span, { status: info.status });
    if (type === "spanClose") console.log("span " + JSON.stringify(span));
  },
};`;

let demo: Awaited<ReturnType<typeof startDemo>>;
let worker: DemoWorker;
beforeAll(async () => {
  demo = await startDemo();
  worker = await demo.worker({ tail: TAIL });
});

const spans = () =>
  worker.logs.flatMap((line) => (line.startsWith("span ") ? [JSON.parse(line.slice(5)) as Span] : []));

/** Returns the request's own span, and the driver's spans beneath it, once all are closed. */
async function spansOf(response: Response, calls: number) {
  const requestId = response.headers.get("x-request-id");
  await response.text();
  const find = () => {
    const request = spans().find(({ attributes }) => attributes["app.request.id"] === requestId);
    return { request, beneath: spans().filter(({ parent }) => request && parent === request.id) };
  };
  const ofDriver = ({ attributes }: Span) => "db.system.name" in attributes;
  await expect.poll(() => find().request && find().beneath.filter(ofDriver).length).toBe(calls);
  const { request, beneath } = find();
  return { request: request!, calls: beneath.filter(ofDriver) };
}

test("a request has a span named by its route, with its query beneath", async () => {
  const { request, calls } = await spansOf(await worker.acme("/api/orders/7"), 1);
  expect(request.name).toBe("GET /api/orders/:id");
  expect(request.attributes).toMatchObject({
    "http.request.method": "GET",
    "http.route": "/api/orders/:id",
    "http.response.status_code": 200,
  });
  expect(calls[0]!.name).toBe("SELECT orders");
  // Its rows belong to a tenant, so the query bypasses a cache that does not know tenants.
  const sent = /^select id, .* where id = \$1\n\/\* cache: false, by now\(\) \*\/$/;
  expect(calls[0]!.attributes["db.query.text"]).toMatch(sent);
});

test("a streaming request and one of several statements have spans too", async () => {
  const { calls } = await spansOf(await worker.acme("/api/export?format=ndjson"), 1);
  expect(calls[0]!.attributes["db.response.returned_rows"]).toBe(20_000);
  const init = { method: "POST", headers: { "content-type": "text/csv" }, body: "reference,customer,status,total\n" };
  const names = (await spansOf(await worker.acme("/api/import", init), 4)).calls.map(({ name }) => name);
  expect(names.sort()).toEqual(["COMMIT", "COPY staging", "CREATE TABLE staging", "INSERT orders SELECT staging"]);
});

test("a refusal is not an error of the service, and an error's texts are not in a span", async () => {
  const init = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: '{"reference":"A-000001","customer":"a secret","total":1}',
  };
  const { request, calls } = await spansOf(await worker.acme("/api/orders", init), 1);
  expect(request.attributes["http.response.status_code"]).toBe(409);
  expect(request.status?.code).not.toBe("error");
  expect(calls[0]).toMatchObject({ attributes: { "error.type": "23505" }, status: { code: "error" } });
  const text = JSON.stringify(spans());
  for (const secret of ["a secret", "A-000001", demo.sample.tokens.acme, new URL(demo.sample.appUrl).password])
    expect(text).not.toContain(secret);
});

test("a path without a route does not become a span name", async () => {
  const { request } = await spansOf(await worker.acme("/wp-admin/7"), 0);
  expect(request).toMatchObject({ name: "GET", attributes: { "http.response.status_code": 404 } });
});
