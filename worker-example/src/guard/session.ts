// A client of the guard, from its first byte to its last: its startup and password, the login of its tenant's role, and
// what it is told when it has to go.
//
// Knows tenants and the streams of a socket. Must not know what may pass (guard.ts).
import { logIn, type Handover } from "pgz-edge";
import { guard, within, type Caps, type Client } from "./guard.ts";
import { Ended, errorResponse, int32, joined, message, Messages, texts } from "./messages.ts";

/** A socket as a Worker's handler `connect` gets it. */
export interface Inbound {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

export interface Tenant {
  /** What its code logs in with. */
  readonly password: string;
  /** `postgres://tenant_a:…@db.example.com/app?sslmode=verify-full` */
  readonly url: string;
}

/** By the user name that its code logs in with. */
export type Tenants = Readonly<Record<string, Tenant>>;

/**
 * Of each session. The second is the server's own word beside the guard's BEGIN; the first ends what runs too long with
 * an error, where the guard's clock ends the session.
 */
const SETTINGS = { statement_timeout: "10s", default_transaction_read_only: "on" };

const SSL_REQUEST = 80_877_103;
const GSS_REQUEST = 80_877_104;
const VERSION_3 = 3;
const AUTHENTICATION_OK = 0;
const CLEARTEXT_PASSWORD = 3;

/** Bytes of a startup and of a password. */
const LONGEST_LOGIN = 10_000;
/** What a client may have sent ahead while its end is still seen. */
const AHEAD = 64 << 10;
/** How long a client that does not read may hold up its own end. */
const LAST_WORDS = 1_000;

export async function serve(socket: Inbound, tenants: Tenants, caps: Caps): Promise<void> {
  const { client, end } = opened(socket);
  let server: Handover | undefined;
  let last: Uint8Array | undefined;
  try {
    const tenant = await within(caps.milliseconds, greet(client, tenants));
    if (!tenant) return;
    server = await logIn(tenant.url, { startup: SETTINGS });
    await within(caps.milliseconds, client.write(welcome(server)));
    client.messages.longest = caps.message;
    await guard(client, server, caps);
  } catch (error) {
    last = farewell(error);
  } finally {
    void server?.socket.close();
    await end(last);
  }
}

/** The startup and the password of a client: its tenant, or `undefined` when it leaves. */
async function greet(client: Client, tenants: Tenants): Promise<Tenant | undefined> {
  const next = async (isStarting: boolean) => {
    for (;;) {
      const found = client.messages.next(isStarting);
      if (found) return found.bytes;
      if (!(await client.messages.more())) return undefined;
    }
  };
  let startup = await next(true);
  while (startup && [SSL_REQUEST, GSS_REQUEST].includes(int32(startup, 4))) {
    await client.write(new TextEncoder().encode("N")); // the link never leaves the runtime
    startup = await next(true);
  }
  if (!startup || int32(startup, 4) >> 16 !== VERSION_3) return undefined; // a CancelRequest: leaving cancels too
  //  names at even places, their values behind them
  const pairs = texts(startup, 8);
  const user = pairs.find((_, at) => at % 2 === 1 && pairs[at - 1] === "user") ?? "";
  await client.write(message("R", CLEARTEXT_PASSWORD));
  const answer = await next(false);
  if (!answer) return undefined;
  const tenant = Object.hasOwn(tenants, user) ? tenants[user] : undefined;
  if (tenant && (await isSame(texts(answer, 5)[0] ?? "", tenant.password))) return tenant;
  throw new Ended("28P01", "password authentication failed");
}

/** In a time that does not tell where they differ. */
async function isSame(given: string, wanted: string): Promise<boolean> {
  const hash = (text: string) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const [a, b] = (await Promise.all([hash(given), hash(wanted)])).map((bytes) => new Uint8Array(bytes));
  return a!.reduce((found, byte, at) => found | (byte ^ b![at]!), 0) === 0;
}

function welcome(server: Handover): Uint8Array {
  const statuses = [...server.parameters].map(([name, value]) => message("S", name, value));
  return joined([message("R", AUTHENTICATION_OK), ...statuses, message("Z", new TextEncoder().encode("I"))]);
}

/** Hosts and roles are not the client's to know. */
function farewell(error: unknown): Uint8Array {
  if (error instanceof Ended) return errorResponse("FATAL", error.code, error.message);
  console.error(error);
  return errorResponse("FATAL", "08006", "the guard has no connection to the database");
}

/** The two streams as a client, and its end: with last words, if there are any, but it waits for nobody. */
function opened({ readable, writable }: Inbound) {
  // What is sent ahead waits in here, and the end is seen behind it.
  const ahead = new TransformStream<Uint8Array, Uint8Array>(
    undefined,
    undefined,
    new ByteLengthQueuingStrategy({ highWaterMark: AHEAD }),
  );
  const left = readable.pipeTo(ahead.writable).catch(() => {});
  const [reader, writer] = [ahead.readable.getReader(), writable.getWriter()];
  const read = () =>
    reader.read().then(
      ({ value }) => value ?? null,
      () => null,
    );
  const write = (bytes: Uint8Array) => writer.write(bytes).catch(() => {});
  const client: Client = { messages: new Messages(LONGEST_LOGIN, read), left, write };
  const end = async (last: Uint8Array | undefined) => {
    if (last) void write(last);
    await within(LAST_WORDS, writer.close()).catch((error: unknown) => void writer.abort(error).catch(() => {}));
  };
  return { client, end };
}
