/**
 * A small application over PostgreSQL. This file is its table of routes, and what happens around each of them: who may
 * ask, what an error becomes, a line in the log, a span. A route's own file says the rest.
 *
 * Every route but the page and /health wants `authorization: Bearer …` (auth.ts), and knows its tenant from it.
 */
import { tenantOf } from "./auth.ts";
import type { Context } from "./context.ts";
import type { Env } from "./env.ts";
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
  "GET /changes": follow,
  "GET /listen": listen,
  "GET /user": askObject,
  "GET /users": ({ request, env }) => users.fetch(request, env),
  "GET /query": runQuery,
  "POST /query": runQuery,
};

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const started = Date.now();
    const requestId = request.headers.get("cf-ray") ?? crypto.randomUUID();
    const { method } = request;
    const { pathname: path } = new URL(request.url); // not its parameters, which may be data
    const seen: { tenant?: string } = {};
    const [, id] = /^\/api\/orders\/([^/]*)$/.exec(path) ?? [];
    const route = id === undefined ? path : "/api/orders/:id";
    const asked = { request, env, url: new URL(request.url), requestId, id: id ?? "" };
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

  // Another site's page must not use what lets this visitor in, such as Cloudflare Access.
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
  // A client that has left is the reason of its own error.
  if (isForLog && !(error instanceof Problem) && !request.signal.aborted) console.error(`${requestId}:`, error);
  return problemResponse(problem, requestId);
}

/** Of a route that there is none: no method. */
function methodsOf(route: string): string[] {
  return Object.keys({ ...open, ...withToken }).flatMap((name) => {
    const [method, path] = name.split(" ");
    return path === route ? [method!] : [];
  });
}
