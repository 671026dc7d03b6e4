// A Worker in front of PostgreSQL for code that one does not trust: it speaks plain PostgreSQL, so that code's driver
// needs no change, and forwards only what reads, within caps, under the tenant's own role.
//
// It is reached by a service binding's `connect()`, or as `globalOutbound` of a Dynamic Worker, whose every socket then
// ends here (docs/guard.md). It stands by itself: deploy it as a Worker of its own.
import type { Caps } from "./guard.ts";
import { serve, type Inbound, type Tenants } from "./session.ts";

interface Env {
  /** A secret, as JSON: each tenant's user name, and the connection string of its own role. */
  readonly TENANTS: string;
}

const CAPS: Caps = { rows: 10_000, bytes: 16 << 20, message: 1 << 20, milliseconds: 15_000 };

export default {
  /** `waitUntil`: what is left to do when the client has gone, ending its query, is done too. */
  connect(socket: Inbound, env: Env, ctx: { waitUntil(work: Promise<unknown>): void }): Promise<void> {
    const session = serve(socket, JSON.parse(env.TENANTS) as Tenants, CAPS);
    ctx.waitUntil(session);
    return session;
  },
};
