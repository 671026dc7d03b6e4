// A Worker in front of PostgreSQL for untrusted code. It speaks plain PostgreSQL, so the code's driver needs no change.
// It forwards only statements that read, within caps, under the tenant's own role.
//
// It is reached by a service binding's `connect()`, or as `globalOutbound` of a Dynamic Worker, whose every socket then
// ends here (docs/guard.md). It does not depend on the rest of the example: deploy it as its own Worker.
import type { Caps } from "./guard.ts";
import { serve, type Inbound, type Tenants } from "./session.ts";

interface Env {
  /** A secret, as JSON: each tenant's user name, with its password and the connection string of its own role. */
  readonly TENANTS: string;
}

const CAPS: Caps = { rows: 10_000, bytes: 16 << 20, message: 1 << 20, milliseconds: 15_000 };

export default {
  /** `waitUntil` keeps the Worker running after the client has gone, until the client's query is cancelled. */
  connect(socket: Inbound, env: Env, ctx: { waitUntil(work: Promise<unknown>): void }): Promise<void> {
    const session = serve(socket, JSON.parse(env.TENANTS) as Tenants, CAPS);
    ctx.waitUntil(session);
    return session;
  },
};
