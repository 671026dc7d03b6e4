/**
 * Makes a span around each request, with the driver's spans below it. They are workerd's own spans, with
 * OpenTelemetry's names. Cloudflare collects them where `observability.traces` is on (wrangler.jsonc), and exports them
 * by OTLP.
 *
 * Knows workerd's `tracing`. Where it is missing, as before 2026-06, nothing is traced and nothing else changes. The
 * span of a request ends with the head of its response; the span of a streaming query lasts until its last row.
 */
import * as workers from "cloudflare:workers";
import { workersTracing } from "pgz-edge/otel/workers";

/** Passed to each client: its calls become spans. */
export const observer = workersTracing();

interface Span {
  setAttributes(attributes: Record<string, string | number>): void;
  setStatus(status: { code: "error" }): void;
  end(): void;
}

interface Tracing {
  startSpan(name: string): Span;
  withActiveSpan<T>(span: Span, work: () => T): T;
}

/**
 * Runs `work` in a span. `route` is a pattern, so that all orders share one name. It is undefined when the path is no
 * route; the name is then the method only.
 */
export async function traced(
  { method, route, requestId }: { method: string; route: string | undefined; requestId: string },
  work: () => Promise<Response>,
): Promise<Response> {
  const { tracing } = workers as { tracing?: Partial<Tracing> };
  if (!tracing?.startSpan || !tracing.withActiveSpan) return work();
  const span = tracing.startSpan(route === undefined ? method : `${method} ${route}`);
  span.setAttributes({ "http.request.method": method, "app.request.id": requestId });
  if (route !== undefined) span.setAttributes({ "http.route": route });
  try {
    const response = await tracing.withActiveSpan(span, work);
    span.setAttributes({ "http.response.status_code": response.status });
    if (response.status >= 500) span.setStatus({ code: "error" });
    return response;
  } finally {
    span.end();
  }
}
