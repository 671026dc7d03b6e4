/**
 * A small application on PostgreSQL. This file has the table of routes, and what surrounds each route: authentication,
 * turning errors into responses, a line in the log, a span. The rest is in each route's own file.
 *
 * Every route except the page and /health requires `authorization: Bearer …` (auth.ts), which determines the tenant.
 */
import { tenantOf } from "./auth.ts";
import { showSummary } from "./cached.ts";
import type { Context } from "./context.ts";
import type { Env, Exports } from "./env.ts";
import { askObject, listen } from "./database.ts";
import { exportOrders } from "./export.ts";
import { follow } from "./feed.ts";
import { showHealth } from "./health.ts";
import { importOrders } from "./import.ts";
import { changeOrder, createOrder, deleteOrder, listOrders, showOrder } from "./orders.ts";
import { showPage } from "./page.ts";
import { Problem, problemOf, problemResponse } from "./problem.ts";
import { runQuery } from "./query.ts";
import { traced } from "./telemetry.ts";
import users from "./users.ts";

export { Invalidations, Summary } from "./cached.ts";
export { Database } from "./database.ts";
export { Feed } from "./feed.ts";

type Handler = (context: Context) => Response | Promise<Response>;

const open: Readonly<Record<string, (context: Omit<Context, "tenant">) => Response | Promise<Response>>> = {
  "GET /": showPage,
  "GET /health": showHealth,
};

const withToken: Readonly<Record<string, Handler>> = {
  "GET /api/orders": listOrders,
  "POST /api/orders": createOrder,
  "GET /api/orders/:id": showOrder,
  "PATCH /api/orders/:id": changeOrder,
  "DELETE /api/orders/:id": deleteOrder,
  "GET /api/export": exportOrders,
  "POST /api/import": importOrders,
  "GET /api/summary": showSummary,
  "GET /changes": follow,
  "GET /listen": listen,
  "GET /user": askObject,
  "GET /users": ({ request, env }) => users.fetch(request, env),
  "GET /query": runQuery,
  "POST /query": runQuery,
};

export default {
  async fetch(request: Request, env: Env, { exports }: { exports: Exports }): Promise<Response> {
    const started = Date.now();
    const requestId = request.headers.get("cf-ray") ?? crypto.randomUUID();
    const { method } = request;
    const { pathname: path } = new URL(request.url); // without its parameters, which may contain data
    const seen: { tenant?: string } = {};
    const [, id] = /^\/api\/orders\/([^/]*)$/.exec(path) ?? [];
    const route = id === undefined ? path : "/api/orders/:id";
    const asked = { request, env, exports, url: new URL(request.url), requestId, id: id ?? "" };
    const response = await traced({ method, route: methodsOf(route).length > 0 ? route : undefined, requestId }, () =>
      answer(asked, route, seen).catch((error: unknown) => answerTo(error, asked)),
    );
    response.headers.set("x-request-id", requestId);
    const { status } = response;
    console.log(JSON.stringify({ requestId, method, path, status, ...seen, ms: Date.now() - started }));
    return response;
  },
};

async function answer(asked: Omit<Context, "tenant">, route: string, seen: { tenant?: string }): Promise<Response> {
  const { request, env } = asked;
  const isOpen = open[`${request.method} ${route}`];
  if (isOpen) return isOpen(asked);

  // Another site's page must not use a visitor's access, such as a session of Cloudflare Access.
  if (!["same-origin", "none", null].includes(request.headers.get("sec-fetch-site")))
    throw new Problem(403, "CROSS_SITE", "Only this Worker's own page may ask.");
  const tenant = (seen.tenant = await tenantOf(request, env));
  const handler = withToken[`${request.method} ${route}`];
  if (handler) return handler({ ...asked, tenant });

  const methods = methodsOf(route);
  if (methods.length === 0) throw new Problem(404, "NOT_FOUND", "There is no such route.");
  const allow = methods.join(", ");
  throw new Problem(405, "METHOD", `Use ${allow}.`, {}, { allow });
}

function answerTo(error: unknown, { request, requestId }: Pick<Context, "request" | "requestId">): Response {
  const problem = problemOf(error);
  const isForLog = problem.status >= 500 || problem.status === 403;
  // A client that has left caused its own error, so it is not logged.
  if (isForLog && !(error instanceof Problem) && !request.signal.aborted) console.error(`${requestId}:`, error);
  return problemResponse(problem, requestId);
}

/** The methods of a route; none if the route does not exist. */
function methodsOf(route: string): string[] {
  return Object.keys({ ...open, ...withToken }).flatMap((name) => {
    const [method, path] = name.split(" ");
    return path === route ? [method!] : [];
  });
}
