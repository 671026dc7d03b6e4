// An observer that reports calls as native spans of workerd (`tracing` of `cloudflare:workers`), without an
// OpenTelemetry SDK. The attributes are those of otel.ts.
//
// Knows only the part of `tracing` that it uses. Must not import it: the entrypoint passes what the runtime has.
import type { Observer } from "../index.ts";
import { endOf, startOf, statusOf } from "./attributes.ts";

/** A span of workerd. */
interface NativeSpan {
  setAttributes(attributes: Record<string, string | number | boolean>): void;
  recordException(error: unknown): void;
  setStatus(status: { code: "unset" | "ok" | "error"; message?: string }): void;
  end(): void;
}

/**
 * `tracing` of `cloudflare:workers`. Before 2026-06 it has only `enterSpan`, which ends the span when its callback has
 * finished.
 */
export interface NativeTracing {
  startSpan?(name: string): NativeSpan;
  withActiveSpan?<T>(span: NativeSpan, work: () => T): T;
}

/** Options of `workersTracing`. */
export interface NativeTracingOptions {
  /** Whether spans contain the messages of the server's errors. Default false, because messages may quote data. */
  readonly messages?: boolean | undefined;
}

/** Returns an observer that makes a span for each call. If the runtime has no spans, the observer does nothing. */
export function nativeTracing(
  tracing: NativeTracing | undefined,
  { messages = false }: NativeTracingOptions = {},
): Observer {
  if (!tracing?.startSpan) return {};
  const open = new Map<number, NativeSpan>();
  return {
    onQueryStart(event) {
      const { name, attributes } = startOf(event);
      const span = tracing.startSpan!(name);
      open.set(event.id, span);
      span.setAttributes(attributes);
      return (work) => (tracing.withActiveSpan ? tracing.withActiveSpan(span, work) : work());
    },
    onQueryEnd(event) {
      const span = open.get(event.id);
      if (!span) return;
      open.delete(event.id);
      try {
        span.setAttributes(endOf(event));
        const { error } = event;
        if (!error) return;
        const { isError, message } = statusOf(error, messages);
        if (isError) span.setStatus({ code: "error", ...(message && { message }) });
        if (isError && messages) span.recordException(error);
      } finally {
        span.end();
      }
    },
  };
}
