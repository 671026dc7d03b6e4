/**
 * `GET /health`, for who watches the service: 200 when PostgreSQL answers, else 503. It needs no token, so anybody may
 * ask it at any rate: an isolate asks the database at most once in five seconds.
 */
import { createClient } from "pgz-edge";
import type { Context } from "./context.ts";
import { noStore } from "./context.ts";

const MAX_AGE = 5_000;
const last = { at: 0, ok: true };

export async function showHealth({ env, requestId }: Pick<Context, "env" | "requestId">): Promise<Response> {
  if (Date.now() - last.at > MAX_AGE) {
    last.at = Date.now(); // before the question, so that nobody asks beside us
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
