/**
 * `GET /health`, for monitoring: 200 when PostgreSQL answers, else 503. It needs no token and may be called at any
 * rate, so an isolate asks the database at most once in five seconds.
 */
import { createClient } from "pgz-edge";
import type { Context } from "./context.ts";
import { noStore } from "./context.ts";

const MAX_AGE = 5_000;
const last = { at: 0, ok: true };

export async function showHealth({ env, requestId }: Pick<Context, "env" | "requestId">): Promise<Response> {
  if (Date.now() - last.at > MAX_AGE) {
    last.at = Date.now(); // before the query, so that no concurrent request asks too
    last.ok = await answers(env, requestId);
  }
  return Response.json({ ok: last.ok }, { status: last.ok ? 200 : 503, headers: noStore });
}

async function answers(env: Context["env"], requestId: string): Promise<boolean> {
  try {
    await using client = createClient(env.HYPERDRIVE_APP, { connectTimeout: 2_000, timeout: 2_000 });
    await client.query("select 1");
    return true;
  } catch (error) {
    console.error(`${requestId}: the database cannot be reached:`, error);
    return false;
  }
}
