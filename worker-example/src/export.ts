/**
 * `GET /api/export?format=csv|ndjson|columnar`: all of the tenant's orders as a file.
 *
 * The rows stream from PostgreSQL to the client, so an export of any length needs a few hundred kilobytes here. A
 * client that leaves cancels the query. Who sends `accept-encoding: gzip` gets a fifth of the bytes or less.
 *
 * A file that broke off, because of a cap or an error behind the first row, has no clean end: a client that sees the
 * end has all rows.
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
    // People open it in spreadsheets, which run a cell that begins with = as a formula.
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

/** Cloudflare's edge asks for gzip in every client's name, and says what the client itself has asked for. */
function acceptedEncoding(request: Request & { cf?: { clientAcceptEncoding?: string } }): string {
  return request.cf?.clientAcceptEncoding ?? request.headers.get("accept-encoding") ?? "";
}

function isFormat(name: string): name is keyof typeof extensions {
  return Object.hasOwn(extensions, name);
}
