/**
 * The tenant's orders:
 *
 *   GET    /api/orders?after=&limit=   a page: { items, next }, or with `accept: application/x-ndjson` a row per line
 *   GET    /api/orders/7               one
 *   POST   /api/orders                 201 and its Location
 *   PATCH  /api/orders/7               the members that change
 *   DELETE /api/orders/7               204
 *
 * Pages go by the last id (`after`), not by OFFSET. So the thousandth page costs as much as the first, and no row comes
 * twice when rows are added meanwhile. Another tenant's order is a 404, like an order that does not exist, because the
 * policy hides it.
 *
 * Knows the columns of `orders` and what a client may write into them. Must not know the tenant: the scope does.
 */
import { sql, type SqlValue } from "pgz-edge";
import { readJson } from "./body.ts";
import { noStore, tenantStream, type Context } from "./context.ts";
import { requests } from "./limits.ts";
import { Problem } from "./problem.ts";
import { reading, writing } from "./standby.ts";

export interface Order {
  id: number;
  tenant: string;
  reference: string;
  customer: string;
  status: string;
  total: string;
  placed: string;
}

export const columns = sql`id, tenant, reference, customer, status, total, placed`;

export async function listOrders(context: Context): Promise<Response> {
  const { request, url } = context;
  const after = wholeNumber(url, "after", { least: 0, most: Number.MAX_SAFE_INTEGER, none: 0 });
  const limit = wholeNumber(url, "limit", { least: 1, most: requests.maxPage, none: requests.page });
  const page = (count: number) => sql`select ${columns} from orders where id > ${after} order by id limit ${count}`;
  if (request.headers.get("accept")?.includes("application/x-ndjson"))
    return tenantStream(context).respond(page(limit), { format: "ndjson", closeWhenDone: true, headers: noStore });

  // Asks for one row more: if it arrives, there is a next page.
  const { rows } = await reading(context, (database) => database.query<Order>(page(limit + 1)));
  const items = rows.slice(0, limit);
  const next = rows.length > limit ? `/api/orders?after=${items.at(-1)!.id}&limit=${limit}` : null;
  return json({ items, next }, { ...(next && { link: `<${next}>; rel="next"` }) });
}

export async function showOrder(context: Context): Promise<Response> {
  const id = idOf(context);
  const { rows } = await reading(context, (database) =>
    database.query<Order>(sql`select ${columns} from orders where id = ${id}`),
  );
  return json(one(rows));
}

export async function createOrder(context: Context): Promise<Response> {
  const order = checked(await readJson(context.request, requests.bodyBytes), ["reference", "customer", "total"]);
  const [{ rows }, headers] = await writing(context, (database) =>
    database.query<Order>(sql`insert into orders ${sql.values([order])} returning ${columns}`),
  );
  const made = one(rows);
  return json(made, { location: `/api/orders/${made.id}`, ...headers }, 201);
}

export async function changeOrder(context: Context): Promise<Response> {
  const id = idOf(context);
  const change = checked(await readJson(context.request, requests.bodyBytes), []);
  if (Object.keys(change).length === 0) throw new Problem(422, "INVALID", "Name a member to change.");
  const [{ rows }, headers] = await writing(context, (database) =>
    database.query<Order>(sql`update orders set ${sql.set(change)} where id = ${id} returning ${columns}`),
  );
  return json(one(rows), headers);
}

export async function deleteOrder(context: Context): Promise<Response> {
  const id = idOf(context);
  const [{ rowCount }, headers] = await writing(context, (database) =>
    database.exec(sql`delete from orders where id = ${id}`),
  );
  if (!rowCount) throw notFound();
  return new Response(null, { status: 204, headers: { ...noStore, ...headers } });
}

/**
 * The members that a client may write, and the rule for each. schema.sql has the same rules, and the server's check is
 * final.
 */
const members: Readonly<Record<string, readonly [fits: (value: unknown) => boolean, detail: string]>> = {
  reference: [matches(/^[A-Z0-9][A-Z0-9-]{0,39}$/), "1 to 40 capital letters, digits and hyphens"],
  customer: [matches(/^[^\0\p{Surrogate}]{1,200}$/su), "1 to 200 characters"],
  status: [matches(/^(open|paid|shipped)$/), "open, paid or shipped"],
  total: [
    (value) => matches(/^\d{1,10}(\.\d{1,2})?$/)(typeof value === "number" ? String(value) : value),
    "0 or more, with at most two decimals, as text or number",
  ],
};

function matches(pattern: RegExp) {
  return (value: unknown) => typeof value === "string" && pattern.test(value);
}

/** Checks all members, so that one 422 names everything that is wrong. */
function checked(body: unknown, required: readonly string[]): Record<string, SqlValue> {
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw new Problem(422, "INVALID", "The body is a JSON object.");
  const order = body as Record<string, SqlValue>; // JSON has no other values
  const errors = [
    ...required
      .filter((name) => !Object.hasOwn(order, name))
      .map((name) => ({ pointer: `#/${name}`, detail: "missing" })),
    ...Object.entries(order).flatMap(([name, value]) => {
      const rule = Object.hasOwn(members, name) ? members[name]! : undefined;
      if (rule?.[0](value)) return [];
      return [{ pointer: `#/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`, detail: rule?.[1] ?? "unknown" }];
    }),
  ];
  if (errors.length > 0) throw new Problem(422, "INVALID", "Some members are not what they must be.", { errors });
  return order;
}

function idOf({ id }: Context): string {
  if (/^[1-9]\d{0,14}$/.test(id)) return id;
  throw new Problem(400, "BAD_ID", "An id is a whole number.");
}

function wholeNumber(url: URL, name: string, { least, most, none }: { least: number; most: number; none: number }) {
  const text = url.searchParams.get(name);
  if (text === null) return none;
  const value = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
  if (value >= least && value <= most) return value;
  throw new Problem(400, "BAD_PARAMETER", `${name} is a whole number from ${least} to ${most}.`);
}

function one(rows: Order[]): Order {
  if (rows[0]) return rows[0];
  throw notFound();
}

function notFound(): Problem {
  return new Problem(404, "NOT_FOUND", "There is no such order.");
}

function json(body: unknown, headers: Record<string, string> = {}, status = 200): Response {
  return Response.json(body, { status, headers: { ...noStore, ...headers } });
}
