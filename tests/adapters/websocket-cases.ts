// A server through a WebSocket: the required behaviour on each runtime, Workers too.
import type * as driver from "../../js/index.ts";
import type { webSocket as WebSockets, WebSocketOptions } from "../../js/runtime/websocket.ts";
import { inTime, pause, until } from "../support/until.mjs";

export interface Setting {
  readonly pgz: typeof driver;
  readonly webSocket: typeof WebSockets;
  readonly proxy: string;
  /** The URL of the server, with sslmode=disable. */
  readonly url: string;
  /** Whether the server speaks TLS. */
  readonly tls: boolean;
  readonly WebSocket?: WebSocketOptions["WebSocket"];
}

export function equal(actual: unknown, expected: unknown): void {
  const [is, should] = [actual, expected].map((value) => JSON.stringify(value));
  if (is !== should) throw new Error(`${is} instead of ${should}`);
}

/** Returns the code and the message of the error. */
async function refused(work: Promise<unknown>, code: string, words: RegExp): Promise<void> {
  const error = (await work.then(
    () => ({ code: "none", message: "" }),
    (reason: unknown) => reason,
  )) as { code: string; message: string };
  equal(error.code, code);
  if (!words.test(error.message)) throw new Error(error.message);
}

/** Waits until the server no longer has the session. */
const ended = (db: driver.Client, pid: number) =>
  until(async () => {
    const { rows } = await db.query({ text: "select 1 from pg_stat_activity where pid = $1", values: [pid] });
    return rows.length === 0;
  });

function clientOf({ pgz, webSocket, proxy, url, WebSocket }: Setting, options: WebSocketOptions = {}) {
  return pgz.createClient(url, { connect: webSocket(proxy, { ...(WebSocket && { WebSocket }), ...options }) });
}

export const cases: Readonly<Record<string, (setting: Setting) => Promise<void>>> = {
  async "queries, a transaction and a batch work"(setting) {
    const { sql } = setting.pgz;
    await using db = clientOf(setting);
    const calls = Array.from({ length: 20 }, (_, n) => db.query<{ n: number }>(sql`select ${n}::int4 as n`));
    equal(
      (await Promise.all(calls)).map(({ rows }) => rows[0]!.n),
      [...calls.keys()],
    );
    equal(await db.transaction(async (tx) => (await tx.query("select 'x' as t")).rows), [{ t: "x" }]);
    equal((await db.batch([sql`select 1 as a`, sql`select 2 as b`])).length, 2);
    await refused(db.query("select 1 / 0"), "22012", /division by zero/);
  },

  async "megabytes pass in both directions"(setting) {
    await using db = clientOf(setting);
    const line = `${"x".repeat(999)}\n`;
    await db.exec("create temporary table lines (line text)");
    const { rowCount } = await db.copyFrom("copy lines from stdin", line.repeat(8_000));
    equal(rowCount, 8_000);
    const reader = (await db.copyTo("copy lines to stdout")).getReader();
    let bytes = 0;
    for (let next = await reader.read(); !next.done; next = await reader.read()) bytes += next.value.length;
    equal(bytes, 8_000_000);
    const { rows } = await db.query("select n from generate_series(1, 100000) n");
    equal(rows.length, 100_000);
  },

  async "an abort cancels on the server"(setting) {
    await using db = clientOf(setting);
    await db.query("select 1");
    const abort = new AbortController();
    const sleeping = db.query("select pg_sleep(60)", { signal: abort.signal });
    void pause(200).then(() => abort.abort());
    await refused(sleeping, "ABORTED", /abort/i);
    equal((await inTime(db.query("select 1 as a"))).rows, [{ a: 1 }]);
  },

  async "each connection of a pool has its own WebSocket"({ pgz, webSocket, proxy, url, WebSocket }) {
    const connect = webSocket(proxy, WebSocket && { WebSocket });
    await using pool = pgz.createPool(url, { max: 3, connect });
    const calls = Array.from({ length: 9 }, () => pool.query<{ pid: number }>("select pg_backend_pid() as pid"));
    const pids = new Set((await Promise.all(calls)).map(({ rows }) => rows[0]!.pid));
    if (pids.size > 3 || pids.size < 1) throw new Error(`${pids.size} backends`);
  },

  async "a session that the server ends is lost"(setting) {
    await using db = clientOf(setting);
    await refused(db.query("select pg_terminate_backend(pg_backend_pid())"), "57P01", /terminating/);
    equal((await db.query("select 1 as a")).rows, [{ a: 1 }]);
  },

  async "addresses that the proxy refuses or cannot reach are errors"(setting) {
    const at = (address: string) => ({ ...setting, url: `postgres://u:p@${address}/d?sslmode=disable` });
    for (const address of ["127.0.0.1:1", "127.0.0.1:9"])
      await refused(clientOf(at(address)).query("select 1"), "CONNECT_FAILED", /the proxy .* refused/);
    const other = { ...setting, proxy: "ws://127.0.0.1:9/" };
    await refused(clientOf(other).query("select 1"), "CONNECT_FAILED", /cannot be reached/);
  },

  async "TLS is what wss: is for"(setting) {
    if (!setting.tls) return;
    const url = setting.url.replace("sslmode=disable", "sslmode=require");
    if (setting.proxy.startsWith("wss:")) {
      await using db = clientOf({ ...setting, url });
      const { rows } = await db.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()");
      return equal(rows, [{ ssl: false }]);
    }
    await refused(clientOf({ ...setting, url }).query("select 1"), "TLS_FAILED", /wss:/);
  },

  async "unread rows end the connection, and a cursor requests them one batch at a time"(setting) {
    const wide = "select repeat('x', 10000) as x from generate_series(1, 2000)";
    await using db = clientOf(setting, { maxWaiting: 1 << 20 });
    const { rows: backends } = await db.query<{ pid: number }>("select pg_backend_pid() as pid");
    const reader = (await db.stream(wide)).getReader();
    await reader.read();
    await pause(1_000); // long enough for megabytes to arrive
    const rest = (async () => {
      while (!(await reader.read()).done);
    })();
    await refused(rest, "CONNECTION_LOST", /maxWaiting.*cursor/);
    await using other = clientOf(setting, { maxWaiting: 1 << 20 });
    let rows = 0;
    for await (const batch of other.cursor(wide, 50)) rows += batch.length;
    equal(rows, 2_000);
    await ended(other, backends[0]!.pid);
  },

  async "a stream that is left after a few rows ends on the server"(setting) {
    await using other = clientOf(setting);
    const db = clientOf(setting);
    const { rows } = await db.query<{ pid: number }>("select pg_backend_pid() as pid");
    const reader = (await db.stream("select repeat('x', 10000) as x from generate_series(1, 100000)")).getReader();
    await reader.read();
    await Promise.all([reader.cancel(), db.close()]);
    await ended(other, rows[0]!.pid);
  },

  async "an address that is not a proxy is refused"({ webSocket }) {
    for (const proxy of ["proxy.example.com", "https://proxy.example.com"])
      await refused((async () => webSocket(proxy))(), "INVALID_OPTION", /must be a URL that begins with wss: or ws:/);
  },
};
