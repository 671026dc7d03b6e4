// A Worker in front of PostgreSQL for code that one does not trust: it speaks plain PostgreSQL, so that code's driver
// needs no change, and forwards only what reads, within caps, under the tenant's own role.
//
// It is reached by a service binding's `connect()`, or as `globalOutbound` of a Dynamic Worker, whose every socket then
// ends here (docs/guard.md). It stands by itself: deploy it as a Worker of its own.
import { logIn, type Handover } from "pgz-edge";
import { guard, type Caps, type Channel } from "./guard.ts";
import { errorResponse, int32, joined, message, Messages, texts, TooLong } from "./messages.ts";

interface Env {
  /** A secret, as JSON: each tenant's user name, and the connection string of its own role. */
  readonly TENANTS: string;
}

interface Tenant {
  /** What its code logs in with. */
  readonly password: string;
  /** `postgres://tenant_a:…@db.example.com/app?sslmode=verify-full` */
  readonly url: string;
}

type Tenants = Readonly<Record<string, Tenant>>;

const CAPS: Caps = { rows: 10_000, bytes: 16 << 20, message: 1 << 20 };
/** Of each session. The second is the server's own word, and holds where a BEGIN of the guard's did not. */
const SETTINGS = { statement_timeout: "10s", default_transaction_read_only: "on" };

const SSL_REQUEST = 80_877_103;
const GSS_REQUEST = 80_877_104;
const VERSION_3 = 3;
const AUTHENTICATION_OK = 0;
const CLEARTEXT_PASSWORD = 3;

interface Inbound {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

export default {
  /** `waitUntil`: what is left to do when the client has gone, ending its query, is done too. */
  connect(socket: Inbound, env: Env, ctx: { waitUntil(work: Promise<unknown>): void }): Promise<void> {
    const session = serve(socket, env);
    ctx.waitUntil(session);
    return session;
  },
};

async function serve(socket: Inbound, env: Env): Promise<void> {
  const client = channelOf(socket);
  let server: Handover | undefined;
  try {
    const tenant = await greet(client, JSON.parse(env.TENANTS) as Tenants);
    if (!tenant) return;
    server = await logIn(tenant.url, { startup: SETTINGS });
    const statuses = [...server.parameters].map(([name, value]) => message("S", name, value));
    const ready = message("Z", new TextEncoder().encode("I"));
    await client.write(joined([message("R", AUTHENTICATION_OK), ...statuses, ready]));
    await guard(client, server, CAPS);
  } catch (error) {
    await client.write(farewell(error));
  } finally {
    await server?.cancel(); // nothing goes on for a client that has left
    await Promise.allSettled([server?.socket.close(), client.close()]);
  }
}

/** Hosts and roles are not the client's to know. */
function farewell(error: unknown): Uint8Array {
  if (error instanceof TooLong) return errorResponse("FATAL", "54000", error.message);
  console.error(error);
  return errorResponse("FATAL", "08006", "the guard has no connection to the database");
}

/** The startup and the password of a client: its tenant, or `undefined` when it has been refused. */
async function greet(client: Channel, tenants: Tenants): Promise<Tenant | undefined> {
  const messages = new Messages(10_000, true);
  const next = async () => {
    for (;;) {
      const found = messages.next();
      if (found) return found.bytes;
      const chunk = await client.read();
      if (!chunk) return undefined;
      messages.push(chunk);
    }
  };
  let startup = await next();
  while (startup && [SSL_REQUEST, GSS_REQUEST].includes(int32(startup, 4))) {
    await client.write(new TextEncoder().encode("N")); // the link never leaves the runtime
    startup = await next();
  }
  if (!startup || int32(startup, 4) >> 16 !== VERSION_3) return undefined; // a CancelRequest: leaving cancels too
  const pairs = texts(startup, 8);
  const user = pairs[pairs.indexOf("user") + 1] ?? "";
  await client.write(message("R", CLEARTEXT_PASSWORD));
  messages.isStarting = false;
  const answer = await next();
  const given = answer && texts(answer, 5)[0];
  const tenant = Object.hasOwn(tenants, user) ? tenants[user] : undefined;
  if (given !== undefined && tenant && (await isSame(given, tenant.password))) return tenant;
  await client.write(errorResponse("FATAL", "28P01", "password authentication failed"));
  return undefined;
}

/** In a time that does not tell where they differ. */
async function isSame(given: string, wanted: string): Promise<boolean> {
  const hash = (text: string) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const [a, b] = (await Promise.all([hash(given), hash(wanted)])).map((bytes) => new Uint8Array(bytes));
  return a!.reduce((found, byte, at) => found | (byte ^ b![at]!), 0) === 0;
}

/** A client whose connection broke is one that has left. */
function channelOf({ readable, writable }: Inbound): Channel {
  const [reader, writer] = [readable.getReader(), writable.getWriter()];
  return {
    read: () =>
      reader.read().then(
        ({ value }) => value ?? null,
        () => null,
      ),
    write: (bytes) => writer.write(bytes).catch(() => {}),
    close: () => writer.close().catch(() => {}),
  };
}
