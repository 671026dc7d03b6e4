// OpenTelemetry: an observer that makes spans and records metrics, by the stable conventions for databases
// (docs/observer.md#opentelemetry).
//
// Knows @opentelemetry/api, which the application brings, and the events of an observer. Must not know how a call runs.
// The attributes of spans are in attributes.ts.
import {
  context,
  metrics,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type MeterProvider,
  type ObservableResult,
  type Span,
  type TracerProvider,
} from "@opentelemetry/api";
import type { Observer, ServerAddress, Pool, QueryEnd } from "../index.ts";
import { endOf, measuredOf, returnsRows, sqlStateOf, startOf, statusOf, type Attributes } from "./attributes.ts";

/** Options of {@link openTelemetry}. */
export interface OpenTelemetryOptions {
  /** The provider of the tracer. Default: the global provider, also if it is registered later. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** The provider of the meter. Default: the global provider, which must be registered before. */
  readonly meterProvider?: MeterProvider | undefined;
  /** `db.client.connection.pool.name`. Default: `host:port/database`. */
  readonly poolName?: string | undefined;
  /**
   * Whether spans contain the messages of the server's errors and notices, and errors as events. Default false, because
   * messages may quote data: spans then have SQLSTATEs, and the driver's own messages.
   */
  readonly messages?: boolean | undefined;
}

/** The observer that {@link openTelemetry} returns, for option `observer` of a client or a pool. */
export interface OpenTelemetry extends Observer {
  /** Also measures a pool's connections by state, and how many calls wait. Returns a function that stops this. */
  watch(pool: Pick<Pool, "stats" | "options">, name: string): () => void;
}

/** A span that has begun. */
interface Open {
  readonly span: Span;
  readonly context: Context;
  readonly attributes: Attributes;
}

const NAME = "pgz-edge";

/**
 * Returns an observer that makes a span for each call, and records metrics of calls and connections. The parent of a
 * span is the span that is active where the call is made.
 *
 * @example
 * const pool = createPool(url, { observer: openTelemetry() });
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): OpenTelemetry {
  const { tracerProvider = trace, meterProvider = metrics, poolName, messages = false } = options;
  const tracer = tracerProvider.getTracer(NAME);
  const meter = meterProvider.getMeter(NAME);
  const measure = instruments(meter);
  const open = new Map<number, Open>();
  const poolOf = (address: ServerAddress) => ({
    [POOL]: poolName ?? `${address.host}:${address.port}/${address.database}`,
  });

  return {
    onQueryStart(event) {
      const { name, attributes } = startOf(event);
      const parent = context.active();
      const span = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, parent);
      const within = trace.setSpan(parent, span);
      open.set(event.id, { span, context: within, attributes });
      return (work) => context.with(within, work);
    },
    onQueryEnd(event) {
      const begun = open.get(event.id);
      if (!begun) return;
      open.delete(event.id);
      endSpan(begun.span, event, messages);
      measure.call(event, begun);
    },
    onSlowQuery: () => measure.slow.add(1),
    onNotice({ queryId, severity, code, message }) {
      const text = messages && message !== undefined ? { message } : {};
      open.get(queryId ?? 0)?.span.addEvent("pgz.notice", { severity: severity ?? "", code: code ?? "", ...text });
    },
    onConnect(event) {
      if (!event.error) measure.createTime.record(event.durationMs / 1_000, poolOf(event));
    },
    onAcquire(event) {
      if (!event.error) measure.waitTime.record(event.waitMs / 1_000, poolOf(event));
      else if (event.error.code === "ACQUIRE_TIMEOUT") measure.timeouts.add(1, poolOf(event));
    },
    onRelease: (event) => measure.useTime.record(event.useMs / 1_000, poolOf(event)),
    watch: (pool, name) => watch(meter, pool, name),
  };
}

/**
 * Returns the active span as W3C trace context, for option `sqlComment`. Returns `undefined` without a span.
 *
 * @example
 * const db = createClient(url, { observer: openTelemetry(), sqlComment: traceContext, prepare: "unnamed" });
 */
export function traceContext(): { traceparent: string } | undefined {
  const active = trace.getSpan(context.active())?.spanContext();
  if (!active || !trace.isSpanContextValid(active)) return undefined;
  const flags = (active.traceFlags & TraceFlags.SAMPLED).toString(16).padStart(2, "0");
  return { traceparent: `00-${active.traceId}-${active.spanId}-${flags}` };
}

function endSpan(span: Span, event: QueryEnd, messages: boolean): void {
  if (span.isRecording()) {
    span.setAttributes(endOf(event));
    const { error } = event;
    if (error) {
      const { isError, message } = statusOf(error, messages);
      if (isError) span.setStatus({ code: SpanStatusCode.ERROR, ...(message && { message }) });
      if (isError && messages) span.recordException(error);
    }
  }
  span.end();
}

// -- metrics ---------------------------------------------------------------------------------------------------------

const POOL = "db.client.connection.pool.name";
const STATE = "db.client.connection.state";

/** The conventions' buckets, in seconds and in rows. */
const DURATIONS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];
const ROWS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];

type Meter = ReturnType<MeterProvider["getMeter"]>;

function instruments(meter: Meter) {
  const seconds = (name: string, description: string) =>
    meter.createHistogram(name, { unit: "s", description, advice: { explicitBucketBoundaries: DURATIONS } });
  const count = (name: string, unit: string, description: string) => meter.createCounter(name, { unit, description });
  const duration = seconds("db.client.operation.duration", "Duration of database client operations.");
  const returnedRows = meter.createHistogram("db.client.response.returned_rows", {
    unit: "{row}",
    description: "The actual number of records returned by the database operation.",
    advice: { explicitBucketBoundaries: ROWS },
  });
  // Metrics of pgz-edge itself, by its own names.
  const pgzDuration = seconds("pgz.query.duration", "Duration of calls.");
  const rows = count("pgz.query.rows", "{row}", "Rows returned or changed.");
  const errors = count("pgz.query.errors", "{call}", "Calls that failed.");
  return {
    slow: count("pgz.query.slow", "{call}", "Calls that ran for slowQueryThreshold."),
    createTime: seconds("db.client.connection.create_time", "The time it took to create a new connection."),
    waitTime: seconds("db.client.connection.wait_time", "The time it took to obtain an open connection from the pool."),
    useTime: seconds(
      "db.client.connection.use_time",
      "The time between borrowing a connection and returning it to the pool.",
    ),
    timeouts: count(
      "db.client.connection.timeouts",
      "{timeout}",
      "The number of connection timeouts that have occurred trying to obtain a connection from the pool.",
    ),
    call(event: QueryEnd, { context, attributes }: Open): void {
      const took = (event.waitMs + event.durationMs) / 1_000;
      const { error } = event;
      const measured = measuredOf(event, attributes);
      duration.record(took, measured, context);
      if (returnsRows(event)) returnedRows.record(event.rows!, measured, context);
      const state = error && sqlStateOf(error);
      const dimension = state === undefined ? {} : { "db.sqlstate": state };
      pgzDuration.record(took, dimension, context);
      if (event.rows) rows.add(event.rows, dimension, context);
      if (error) errors.add(1, dimension, context);
    },
  };
}

function watch(meter: Meter, pool: Parameters<OpenTelemetry["watch"]>[0], name: string): () => void {
  const gauge = (suffix: string, unit: string, description: string, read: () => [value: number, state?: string][]) => {
    const instrument = meter.createObservableUpDownCounter(`db.client.connection.${suffix}`, { unit, description });
    const observe = (result: ObservableResult) => {
      for (const [value, state] of read()) result.observe(value, { [POOL]: name, ...(state && { [STATE]: state }) });
    };
    instrument.addCallback(observe);
    return () => instrument.removeCallback(observe);
  };
  const ends = [
    gauge("count", "{connection}", "The number of connections that are currently in the state.", () => {
      const { idle, acquired } = pool.stats();
      return [
        [idle, "idle"],
        [acquired, "used"],
      ];
    }),
    gauge("max", "{connection}", "The maximum number of open connections allowed.", () => [[pool.stats().max]]),
    gauge("idle.max", "{connection}", "The maximum number of idle connections.", () => [[pool.stats().max]]),
    gauge("idle.min", "{connection}", "The minimum number of idle connections.", () => [[pool.options.min]]),
    gauge("pending_requests", "{request}", "The number of requests that wait for a connection.", () => [
      [pool.stats().waiting],
    ]),
  ];
  return () => ends.forEach((end) => end());
}
