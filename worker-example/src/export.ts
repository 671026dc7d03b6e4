/**
 * `GET /api/export?format=csv|ndjson|columnar`: all of the tenant's orders as a file.
 *
 * The rows stream from PostgreSQL to the client, so an export of any length needs a few hundred kilobytes here. A
 * client that leaves cancels the query. With `accept-encoding: gzip` the response has a fifth of the bytes or less.
 *
 * A file that breaks off, because of a cap or an error after the first row, has no clean end. So a client that sees the
 * end has all rows, except under the workerd of Node 20 (docs/workers.md).
 */
import { sql, type Format } from "pgz-edge";
import { noStore, tenantStream, type Context } from "./context.ts";
import { exporting } from "./limits.ts";
import { columns } from "./orders.ts";
import { Problem } from "./problem.ts";

/** Format -> the file's extension. */
const extensions = { csv: "csv", ndjson: "ndjson", columnar: "json" } as const satisfies Partial<
  Record<Format, string>
>;

export function exportOrders(context: Context): Promise<Response> {
  const { request, tenant, url } = context;
  const format = url.searchParams.get("format") ?? "csv";
  if (!isFormat(format))
    throw new Problem(400, "UNKNOWN_FORMAT", `The format is one of ${Object.keys(extensions).join(", ")}.`);
  return tenantStream(context).respond(sql`select ${columns} from orders order by id`, {
    ...exporting,
    format,
    // People open the file in spreadsheets, which run a cell that begins with = as a formula.
    csvFormulas: "escape",
    gzip: /\bgzip\b/.test(acceptedEncoding(request)),
    closeWhenDone: true,
    headers: {
      ...noStore,
      vary: "accept-encoding",
      "content-disposition": `attachment; filename="orders-${tenant}.${extensions[format]}"`,
    },
  });
}

/**
 * Cloudflare's edge requests gzip on behalf of every client. `cf.clientAcceptEncoding` has what the client itself
 * accepts.
 */
function acceptedEncoding(request: Request & { cf?: { clientAcceptEncoding?: string } }): string {
  return request.cf?.clientAcceptEncoding ?? request.headers.get("accept-encoding") ?? "";
}

function isFormat(name: string): name is keyof typeof extensions {
  return Object.hasOwn(extensions, name);
}
