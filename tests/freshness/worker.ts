// The program of the test as a Worker: answers by `cached`, with the invalidator in a Durable Object.
//   POST /open, /evict   for the test; all other paths are answered
import { DurableObject } from "cloudflare:workers";
import { createClient, createPool } from "pgz-edge";
import { cached, invalidatorObject, type CacheInvalidator } from "pgz-edge/cache";
import { PUBLICATION, SLOT, TIMES, statementOf } from "./statements.mjs";

interface Env {
  readonly DATABASE_URL: string;
  /** The URL of the test. */
  readonly TEST: string;
  readonly INVALIDATIONS: { getByName(name: string): CacheInvalidator & { evict(): Promise<void> } };
}

async function tell({ TEST }: Env, path: string, body: string): Promise<void> {
  const response = await fetch(`${TEST}${path}`, { method: "POST", body });
  if (!response.ok) throw new Error(await response.text());
}

export class Invalidations extends invalidatorObject(DurableObject, (env: Env, _: DurableObjectState) => ({
  ...TIMES,
  slot: SLOT,
  publication: PUBLICATION,
  db: createPool(env.DATABASE_URL, { max: 2 }),
  purge: (tags) => tell(env, "/purge", JSON.stringify(tags)),
  onFailure: (error) => void tell(env, "/failure", String(error)).catch(() => {}),
})) {
  readonly #state: DurableObjectState;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    this.#state = state;
  }

  evict(): void {
    (this.#state as unknown as { abort(reason: string): void }).abort("evicted by the test");
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const object = env.INVALIDATIONS.getByName("one");
    const { pathname } = new URL(request.url);
    if (pathname === "/open") return Response.json(await object.open(await request.json()));
    if (pathname === "/evict") {
      await object.evict().catch(() => {});
      return new Response();
    }
    const invalidator: CacheInvalidator = {
      open: (opening) => object.open(opening),
      remember: (learned) => object.remember(learned),
      abandon: (fill) => object.abandon(fill),
      async close(closing) {
        await tell(env, "/closed", closing.id);
        await object.close(closing);
      },
    };
    const { text, values = [], maxAge, tenant } = statementOf(pathname);
    const db = createClient(env.DATABASE_URL);
    const isTenants = tenant !== undefined;
    const asked = isTenants ? db.scope({ role: "cache_tenant", settings: { "app.tenant": `${tenant}` } }) : db;
    return await cached(
      request,
      asked,
      { text, values },
      {
        ...{ maxAge, invalidator, closeWhenDone: true, signal: request.signal },
        ...(isTenants ? { separatedBy: { tenant } } : {}),
      },
    );
  },
};
