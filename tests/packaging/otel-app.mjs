// Run by otel.test.ts in Deno and Bun: parallel calls in a pool, with OpenTelemetry's SDK. Prints the spans.
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { createPool, sql } from "pgz-edge";
import { openTelemetry } from "pgz-edge/otel";

const exporter = new InMemorySpanExporter();
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));

const pool = createPool(process.env.URL, { observer: openTelemetry(), max: 1 });
const request = (name) =>
  trace.getTracer("test").startActiveSpan(name, async (span) => {
    await pool.query(sql`select ${name}::text as t from pg_catalog.pg_class limit 1`);
    span.end();
  });
await Promise.all([request("a"), request("b")]);
await pool.close();

const spans = exporter.getFinishedSpans();
const names = new Map(spans.map((span) => [span.spanContext().spanId, span.name]));
const calls = spans.filter(({ parentSpanContext }) => parentSpanContext);
console.log(JSON.stringify(calls.map(({ name, parentSpanContext }) => [name, names.get(parentSpanContext.spanId)])));
