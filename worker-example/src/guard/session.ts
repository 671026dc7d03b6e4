// One client of the guard, from its first byte to its last: its startup and password, the login with its tenant's role,
// and the error that it gets when the guard ends its session.
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
  /** The password that the tenant's code logs in with. */
  readonly password: string;
  /** `postgres://tenant_a:…@db.example.com/app?sslmode=verify-full` */
  readonly url: string;
}

/** The tenants by the user name that their code logs in with. */
export type Tenants = Readonly<Record<string, Tenant>>;

/**
 * Settings of each server session. The first ends a statement that runs too long with an error, where the guard's time
 * limit would end the session. With the second the server refuses writes by itself, in addition to the guard's BEGIN.
 */
const SETTINGS = { statement_timeout: "10s", default_transaction_read_only: "on" };

const SSL_REQUEST = 80_877_103;
const GSS_REQUEST = 80_877_104;
const VERSION_3 = 3;
const AUTHENTICATION_OK = 0;
const CLEARTEXT_PASSWORD = 3;

/** Maximum bytes of a startup or password message. */
const LONGEST_LOGIN = 10_000;
/**
 * Bytes that the guard buffers of a client that sends ahead. Up to this number it still notices that the client has
 * left.
 */
const AHEAD = 64 << 10;
/** Milliseconds that the guard waits for a client that does not read, before it aborts the connection. */
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

/** Reads the startup and the password of a client. Returns its tenant, or `undefined` when the client leaves. */
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
  if (!startup || int32(startup, 4) >> 16 !== VERSION_3) return undefined; // ignores a CancelRequest: leaving cancels
  // names at even indexes, each followed by its value
  const pairs = texts(startup, 8);
  const user = pairs.find((_, at) => at % 2 === 1 && pairs[at - 1] === "user") ?? "";
  await client.write(message("R", CLEARTEXT_PASSWORD));
  const answer = await next(false);
  if (!answer) return undefined;
  const tenant = Object.hasOwn(tenants, user) ? tenants[user] : undefined;
  if (tenant && (await isSame(texts(answer, 5)[0] ?? "", tenant.password))) return tenant;
  throw new Ended("28P01", "password authentication failed");
}

/** Compares hashes in constant time, so the time does not reveal where the two differ. */
async function isSame(given: string, wanted: string): Promise<boolean> {
  const hash = (text: string) => crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const [a, b] = (await Promise.all([hash(given), hash(wanted)])).map((bytes) => new Uint8Array(bytes));
  return a!.reduce((found, byte, at) => found | (byte ^ b![at]!), 0) === 0;
}

function welcome(server: Handover): Uint8Array {
  const statuses = [...server.parameters].map(([name, value]) => message("S", name, value));
  return joined([message("R", AUTHENTICATION_OK), ...statuses, message("Z", new TextEncoder().encode("I"))]);
}

/** The error message that ends the session. It names no host and no role; the log has the details. */
function farewell(error: unknown): Uint8Array {
  if (error instanceof Ended) return errorResponse("FATAL", error.code, error.message);
  console.error(error);
  return errorResponse("FATAL", "08006", "the guard has no connection to the database");
}

/**
 * Wraps the two streams as a client and an `end` function. `end` sends the last message, if there is one, and waits for
 * the client at most LAST_WORDS milliseconds.
 */
function opened({ readable, writable }: Inbound) {
  // Buffers what the client sends ahead, so that the end of the stream is seen even while the guard is not reading.
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
