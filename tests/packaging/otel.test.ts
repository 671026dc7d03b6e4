// `pgz-edge/otel` as it is published, with OpenTelemetry's own SDK, against a real server: spans, their parents and
// their ends, measurements, and the absence of secrets.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { context, trace, SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { MeterProvider, MetricReader, type HistogramMetricData, type MetricData } from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Client, Observer, PoolOptions } from "../../js/index.ts";
import { testServers } from "../integration/servers.ts";

const pgz = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");
const otel = (await import("../../dist/otel.js" as string)) as typeof import("../../js/adapters/otel.ts");
const { sql } = pgz;
const { host, port, database, user, password } = testServers().servers[0]!;
const target = { host, port, database, user, password, sslmode: "disable" as const };
const SECRETS = new RegExp(`secret|${password}|postgres://`);

class Reader extends MetricReader {
  protected override onForceFlush = async () => {};
  protected override onShutdown = async () => {};
}

const exporter = new InMemorySpanExporter();
const reader = new Reader();
const providers = {
  tracerProvider: new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  meterProvider: new MeterProvider({ readers: [reader] }),
};
const tracer = providers.tracerProvider.getTracer("test");

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
afterAll(() => context.disable());
beforeEach(() => exporter.reset());

const observer = otel.openTelemetry(providers);

async function withClient(work: (client: Client) => Promise<unknown>, options: object = {}): Promise<ReadableSpan[]> {
  await using client = pgz.createClient({ ...target, observer, ...options });
  await work(client);
  return exporter.getFinishedSpans();
}

async function metric(name: string): Promise<MetricData | undefined> {
  const { resourceMetrics } = await reader.collect();
  return resourceMetrics.scopeMetrics
    .flatMap(({ metrics }) => metrics)
    .find(({ descriptor }) => descriptor.name === name);
}

const PLACE = {
  "db.system.name": "postgresql",
  "db.namespace": database,
  "server.address": host,
  ...(port !== 5432 && { "server.port": port }),
};
const milliseconds = ({ duration: [seconds, nanos] }: ReadableSpan) => seconds * 1e3 + nanos / 1e6;

test("a call is a span of kind CLIENT with the conventions' name and attributes", async () => {
  const [span, ...others] = await withClient((db) =>
    db.query(sql`select relname from pg_catalog.pg_class where relname <> ${"secret value"} limit 2`),
  );
  expect(others).toEqual([]);
  expect(span).toMatchObject({ name: "SELECT pg_catalog.pg_class", kind: SpanKind.CLIENT, ended: true });
  expect(span!.status.code).toBe(SpanStatusCode.UNSET);
  expect(span!.attributes).toEqual({
    ...PLACE,
    "db.query.summary": "SELECT pg_catalog.pg_class",
    "db.query.text": "select relname from pg_catalog.pg_class where relname <> $1 limit 2",
    "db.operation.name": "SELECT",
    "db.response.returned_rows": 2,
  });
});

test("literals of a text without parameters are hidden, and parameters are shown only on request", async () => {
  const values = [1, "shown", null, new Uint8Array(3), { a: [1] }];
  const [plain, shown] = await withClient(
    async (db) => {
      await db.query("select 'secret literal' as t");
      await db.query({ text: "select $1::int4, $2::text, $3::text, $4::bytea, $5::jsonb", values });
    },
    { observeParameters: true },
  );
  expect(plain!.attributes["db.query.text"]).toBe("select ? as t");
  const parameters = values.map((_, at) => shown!.attributes[`db.query.parameter.${at}`]);
  expect(parameters).toEqual(["1", "shown", "null", "3 bytes", '{"a":[1]}']);
});

test("a batch has its size from 2 on, its texts together, BATCH, and what its items have in common", async () => {
  const spans = await withClient(async (db) => {
    await db.batch(["select 1 from pg_class", "select 2 from pg_class"]);
    await db.batch(["select 1", "begin"]).catch(() => {});
    await db.batch(["select 'secret'"]);
    await db.batch([]);
  });
  const told = spans.map(({ name, attributes }) => [
    name,
    attributes["db.query.summary"],
    attributes["db.operation.batch.size"],
    attributes["db.query.text"],
  ]);
  expect(told).toEqual([
    ["BATCH SELECT pg_class", "BATCH SELECT pg_class", 2, "select ? from pg_class; select ? from pg_class"],
    ["BATCH", "BATCH", 2, "select ?; begin"],
    ["SELECT", "SELECT", undefined, "select ?"],
  ]);
});

test("errors have SQLSTATE or the driver's code, and the server's message, which quotes data, only on request", async () => {
  const fail = async (db: Client) => {
    await expect(db.query(sql`select ${"secret value"}::text::int4`)).rejects.toMatchObject({ code: "22P02" });
    await expect(db.query("select pg_sleep(9)", { timeout: 50 })).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
    await expect(db.query("select 1", { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "ABORTED" });
    const late = AbortSignal.timeout(20);
    await expect(db.query("select pg_sleep(9)", { signal: late })).rejects.toMatchObject({ code: "ABORTED" });
  };
  const brief = (spans: ReadableSpan[]) =>
    spans.map(({ status, attributes }) => [
      status.code,
      attributes["error.type"],
      attributes["db.response.status_code"],
      status.message?.split(" ")[0],
    ]);
  const { ERROR, UNSET } = SpanStatusCode;
  const told = await withClient(fail);
  expect(brief(told)).toEqual([
    [ERROR, "22P02", "22P02", undefined],
    [ERROR, "QUERY_TIMEOUT", undefined, "The"],
    [UNSET, "ABORTED", undefined, undefined],
    [ERROR, "ABORTED", undefined, "The"],
  ]);
  expect(told.flatMap(({ events }) => events)).toEqual([]);
  expect(inspect(told, { depth: 9 })).not.toMatch(SECRETS);

  exporter.reset();
  const [shown] = await withClient(fail, { observer: otel.openTelemetry({ ...providers, messages: true }) });
  expect(shown!.status.message).toMatch(/invalid input syntax .* "secret value"/);
  expect(shown!.events.map(({ name }) => name)).toEqual(["exception"]);
});

test("a failed connect is an error of the call that wanted the connection", async () => {
  const spans = await withClient((db) => expect(db.query("select 1")).rejects.toThrow(), {
    password: "secret that is wrong",
    user: "nobody of this name",
  });
  expect(spans).toHaveLength(1);
  expect(spans[0]!.status.code).toBe(SpanStatusCode.ERROR);
  expect(inspect(spans, { depth: 9 })).not.toMatch(SECRETS);
});

test("a span is a child of the span active at the call, even through a pool's queue, and covers the wait", async () => {
  await using pool = pgz.createPool({ ...target, observer, max: 1 });
  await Promise.all(
    ["a", "b", "c"].map((caller) =>
      tracer.startActiveSpan(caller, async (parent) => {
        await pool.query(`select pg_sleep(0.1) as ${caller}`);
        expect(trace.getSpan(context.active())).toBe(parent);
        parent.end();
      }),
    ),
  );
  const spans = exporter.getFinishedSpans();
  const parents = spans.filter(({ kind }) => kind !== SpanKind.CLIENT);
  expect(parents).toHaveLength(3);
  for (const parent of parents) {
    const child = spans.find(({ parentSpanContext }) => parentSpanContext?.spanId === parent.spanContext().spanId);
    expect(child!.attributes["db.query.text"]).toBe(`select pg_sleep(?) as ${parent.name}`);
    const turn = "abc".indexOf(parent.name) + 1;
    expect(milliseconds(child!)).toBeGreaterThanOrEqual(turn * 100 - 5);
  }
});

test("transactions, cursors, abandoned loops, COPY and scopes have a span for each call, which ends with the call", async () => {
  const spans = await withClient(async (db) => {
    await db.exec("create temporary table things (n int4)");
    await db.transaction(async (tx) => {
      await tx.exec("insert into things values (1)");
      await tx.transaction((inner) => inner.exec("insert into things values (2)"));
    });
    for await (const batch of db.cursor("select n from things", 1)) void batch;
    for await (const row of db.rows("select generate_series(1, 1000000) as n from things")) {
      void row;
      break;
    }
    await db.copyFromRows("things", ["n"], [[3], [4]]);
    await db.scope({ settings: { "app.tenant": "secret" } }).query("select n from things");
  });
  const told = spans.map(({ name, attributes, status }) => [name, attributes["error.type"], status.code]);
  const { UNSET } = SpanStatusCode;
  expect(told).toEqual([
    ["CREATE TABLE things", undefined, UNSET],
    ["INSERT things", undefined, UNSET],
    ["SAVEPOINT", undefined, UNSET],
    ["INSERT things", undefined, UNSET],
    ["RELEASE", undefined, UNSET],
    ["COMMIT", undefined, UNSET],
    ["SELECT things", undefined, UNSET],
    ["SELECT things", "ABORTED", UNSET],
    ["COPY things", undefined, UNSET],
    ["SELECT things", undefined, UNSET],
  ]);
  expect(inspect(spans, { depth: 9 })).not.toMatch(SECRETS);
});

test("a call that is retried after conflicts is one span", async () => {
  const spans = await withClient(
    async (db) => {
      const text = `do $$ begin raise exception sqlstate '40001'; end $$`;
      await expect(db.exec(text)).rejects.toMatchObject({ code: "40001" });
      await db.simple(`create function pg_temp.conflict() returns int4 language plpgsql as
        'begin raise exception sqlstate ''40001''; end'`);
      await expect(db.query("select pg_temp.conflict()")).rejects.toMatchObject({ code: "40001" });
    },
    { retryOnSerialization: 3 },
  );
  expect(spans.map(({ attributes }) => attributes["error.type"])).toEqual(["40001", undefined, "40001"]);
});

test("a stream's span ends when its reader has reached the end, not after the clean-up", async () => {
  const spans = await withClient(async (db) => {
    const reader = (await db.stream("select repeat('x', 1000) from generate_series(1, 1000000)")).getReader();
    await reader.read();
    expect(exporter.getFinishedSpans()).toEqual([]);
    const left = reader.cancel();
    expect(exporter.getFinishedSpans()).toHaveLength(1);
    await left;
  });
  expect(spans).toHaveLength(1);
});

test("measurements have the conventions' names, units, buckets and attributes, beside pgz's own", async () => {
  const options: PoolOptions = { observer, max: 1, acquireTimeout: 4_000, slowQueryThreshold: 1 };
  const pool = pgz.createPool({ ...target, ...options });
  const end = observer.watch(pool, "main");
  await pool.query("select relname from pg_class limit 3");
  const lease = await pool.acquire();
  await expect(pool.query("select 1")).rejects.toMatchObject({ code: "ACQUIRE_TIMEOUT" });
  await lease.query("select 1 / 0").catch(() => {});
  await lease.query("select pg_sleep(0.01)");

  const points = async (name: string) => (await metric(name))?.dataPoints ?? [];
  const poolName = `${host}:${port}/${database}`;
  const duration = (await metric("db.client.operation.duration")) as HistogramMetricData;
  expect(duration.descriptor).toMatchObject({ unit: "s", type: "HISTOGRAM" });
  const found = duration.dataPoints.find(({ attributes }) => attributes["db.query.summary"] === "SELECT pg_class");
  expect(found!.value.buckets.boundaries).toEqual([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]);
  expect(found!.attributes).toEqual({ ...PLACE, "db.query.summary": "SELECT pg_class" });
  expect(duration.dataPoints.map(({ attributes }) => attributes["error.type"])).toContain("22012");
  const rows = (await metric("db.client.response.returned_rows")) as HistogramMetricData;
  expect(rows.dataPoints[0]!.value.buckets.boundaries).toEqual([
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000,
  ]);

  const main = (value: number, state?: string) =>
    expect.objectContaining({
      value,
      attributes: {
        "db.client.connection.pool.name": "main",
        ...(state && { "db.client.connection.state": state }),
      },
    });
  expect(await points("db.client.connection.count")).toEqual([main(0, "idle"), main(1, "used")]);
  expect(await points("db.client.connection.max")).toEqual([main(1)]);
  expect(await points("db.client.connection.idle.max")).toEqual([main(1)]);
  expect(await points("db.client.connection.idle.min")).toEqual([main(0)]);
  expect(await points("db.client.connection.pending_requests")).toEqual([main(0)]);
  const named = { "db.client.connection.pool.name": poolName };
  for (const name of ["create_time", "wait_time", "use_time", "timeouts"]) {
    const [point] = await points(`db.client.connection.${name}`);
    expect(point?.attributes, name).toEqual(named);
  }

  for (const name of ["pgz.query.duration", "pgz.query.rows", "pgz.query.errors", "pgz.query.slow"])
    expect((await points(name)).length, name).toBeGreaterThan(0);
  const [failed] = (await points("pgz.query.errors")).filter(({ attributes }) => attributes["db.sqlstate"] === "22012");
  expect(failed!.value).toBe(1);
  const all = (await reader.collect()).resourceMetrics;
  expect(inspect(all, { depth: 12 })).not.toMatch(SECRETS);
  await lease.release();
  await pool.close();
  end();
});

test("notices are events of their call's span, and have their text only on request", async () => {
  const text = "do $$ begin raise warning 'secret notice'; end $$";
  const [quiet] = await withClient((db) => db.exec(text));
  expect(quiet!.events).toMatchObject([{ name: "pgz.notice", attributes: { severity: "WARNING", code: "01000" } }]);
  expect(inspect(quiet, { depth: 9 })).not.toMatch(SECRETS);
  exporter.reset();
  const [loud] = await withClient((db) => db.exec(text), {
    observer: otel.openTelemetry({ ...providers, messages: true }),
  });
  expect(loud!.events[0]!.attributes).toMatchObject({ message: "secret notice" });
});

test("a second observer still sees every event", async () => {
  const heard: string[] = [];
  const mine: Observer = { onQueryEnd: ({ text }) => void heard.push(text) };
  const spans = await withClient((db) => db.query("select 1"), { observer: pgz.observers(observer, mine) });
  expect(spans).toHaveLength(1);
  expect(heard).toEqual(["select 1"]);
});

test("the trace context is appended to unnamed statements", async () => {
  const options = { sqlComment: otel.traceContext, prepare: "unnamed", max: 1 };
  const spans = await withClient(
    async (db) => {
      for (let run = 0; run < 3; run++)
        await tracer.startActiveSpan("request", async (parent) => {
          const { rows } = await db.query<{ query: string }>(
            "select query from pg_stat_activity where pid = pg_backend_pid()",
          );
          const query = exporter.getFinishedSpans().at(-1)!.spanContext();
          expect(rows[0]!.query).toMatch(new RegExp(`\\n/\\*traceparent='00-${query.traceId}-${query.spanId}-01'\\*/`));
          parent.end();
        });
      const { rows } = await db.query<{ query: string }>(
        "select query from pg_stat_activity where pid = pg_backend_pid()",
      );
      expect(rows[0]!.query).toContain("traceparent");
    },
    { ...options, max: undefined },
  );
  expect(spans.length).toBeGreaterThan(0);
});

test.each([
  ["client", () => pgz.createClient({ ...target, prepare: "unnamed", pipelining: 1, sqlComment: otel.traceContext })],
  ["pool", () => pgz.createPool({ ...target, prepare: "unnamed", max: 1, sqlComment: otel.traceContext })],
])("a call that waits for its turn on a %s has its own caller's trace", async (_, open) => {
  await using db = open();
  const asked = "select query from pg_stat_activity where pid = pg_backend_pid() and pg_sleep(0.02) is not null";
  const calls = ["a", "b", "c"].map((name) =>
    tracer.startActiveSpan(name, async (parent) => {
      const { rows } = await db.query<{ query: string }>(`${asked} -- ${name}`);
      expect(rows[0]!.query).toContain(`-${parent.spanContext().spanId}-01'*/`);
      parent.end();
    }),
  );
  await Promise.all(calls);
});

const bin = (name: string) => fileURLToPath(new URL(`../../node_modules/.bin/${name}`, import.meta.url));

test.each([
  ["Deno", bin("deno"), ["run", "-A"]],
  ["Bun", bin("bun"), []],
])("spans have their callers as parents in %s", (_, command, parameters) => {
  const app = fileURLToPath(new URL("otel-app.mjs", import.meta.url));
  const env = { ...process.env, URL: `postgres://${user}:${password}@${host}:${port}/${database}?sslmode=disable` };
  const output = execFileSync(command, [...parameters, app], { env, encoding: "utf8" });
  expect(JSON.parse(output)).toEqual([
    ["SELECT pg_catalog.pg_class", "a"],
    ["SELECT pg_catalog.pg_class", "b"],
  ]);
});
