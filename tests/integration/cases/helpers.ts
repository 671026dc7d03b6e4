// What several cases need: a schema, what a result says, reading a stream, and looking at the server from another
// session.
import type { Client, Options, PgzError } from "../../../js/index.ts";
import type { Context } from "../context.ts";
import { pause, until } from "../../support/until.mjs";

/** Returns a name that no other case has, on any runtime. */
export const unique = (prefix: string) => `${prefix}_${Math.random().toString(36).slice(2)}`;

/** Creates a schema, which is dropped after the case. Returns a client and the schema's name. */
export async function newSchema(t: Context, options: Options = {}): Promise<[client: Client, schema: string]> {
  const schema = unique("case");
  const client = await t.client(options);
  await client.exec(`create schema ${schema}`);
  t.after(() => client.exec(`drop schema ${schema} cascade`));
  return [client, schema];
}

/** Runs a statement in a function, so that its client does not see it, like DDL of another session. */
export async function unseen(client: Client, text: string): Promise<void> {
  const body = "'begin execute $1; end'";
  await client.simple(
    `create or replace function pg_temp.unseen(text) returns void language plpgsql as ${body};
     select pg_temp.unseen('${text.replaceAll("'", "''")}')`,
  );
}

/**
 * That many rows with the numbers from 1, each made on demand. A generate_series in FROM writes all rows to disk first.
 */
export const series = (count: number, name: string) => `(select generate_series(1, ${count}) as ${name}) as series`;

export async function text(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(stream).text();
}

/** Reads at least `bytes` of a stream, which stays open. Returns its reader, locked. */
export async function readSome(
  stream: ReadableStream<Uint8Array>,
  bytes = 1,
): Promise<{ reader: ReadableStreamDefaultReader<Uint8Array>; text: string }> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let seen = "";
  while (seen.length < bytes) {
    const { done, value } = await reader.read();
    if (done) break;
    seen += decoder.decode(value, { stream: true });
  }
  return { reader, text: seen };
}

/** Yields the pieces with a pause before each. */
export async function* slowly<T>(...pieces: T[]) {
  for (const piece of pieces) {
    await pause(1);
    yield piece;
  }
}

/** Returns how many sessions run a statement that contains `mark`. */
export async function running(t: Context, mark: string): Promise<number> {
  const [row] = await t.side(
    `select count(*) from pg_stat_activity
     where state = 'active' and pid <> pg_backend_pid() and query like '%${mark}%'`,
  );
  return Number(row?.[0]);
}

/** Waits until no session runs a statement that contains `mark`. */
export const gone = (t: Context, mark: string) => until(async () => (await running(t, mark)) === 0);

/**
 * Waits until the statement with `mark` is gone, and checks that a cancel ended it and not the end of the connection.
 * On a machine that is busy enough the server can need longer for a cancel than the driver waits: two seconds.
 */
export async function canceled(t: Context, client: Client, mark: string): Promise<void> {
  const from = performance.now();
  await gone(t, mark);
  t.assert(client.stats().state !== "lost" || performance.now() - from > 1_500, "the connection was lost at once");
}

/**
 * Waits until the statement with `mark` sleeps. An active statement may still be in parsing: a session that ends then
 * has not begun it, so the driver runs it again on another session, and later calls have not been sent.
 */
export const asleep = (t: Context, mark: string) =>
  until(async () => {
    const look = `select 1 from pg_stat_activity where wait_event = 'PgSleep' and query like '%${mark}%'`;
    return (await t.side(look)).length > 0;
  });

/** Aborts as soon as the statement with `mark` sleeps. While it is still in parsing, the rest has not left. */
export function abortedAt(t: Context, mark: string): AbortSignal {
  const controller = new AbortController();
  // A statement that never runs fails its own case, by the error that the case expects.
  asleep(t, mark)
    .finally(() => controller.abort())
    .catch(() => {});
  return controller.signal;
}

/** Returns the process that serves this session. */
export const pidOf = async (calls: Pick<Client, "query">) =>
  (await calls.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]!.pid;

/** Waits until the server no longer has the session. */
export const ended = (t: Context, pid: number) =>
  until(async () => (await t.side(`select 1 from pg_stat_activity where pid = ${pid}`)).length === 0);

/** Returns the code with which a call rejects, or "no error". */
export const codeOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "no error",
    (error: { code: string }) => error.code,
  );

type Rows = { readonly rows: unknown[] };

/** Returns the rows of each result, and for an item that failed the code of its error. */
export const rowsOf = (results: readonly (Rows | PromiseSettledResult<Rows>)[]): unknown[] =>
  results.map((one) => {
    if ("rows" in one) return one.rows;
    return one.status === "fulfilled" ? one.value.rows : (one.reason as PgzError).code;
  });

export const namesOf = (fields: readonly { readonly name: string }[]) => fields.map(({ name }) => name);

/** Ends a session, and waits until it is gone on the server. By then its last message to the client has left. */
export async function terminate(t: Context, pid: number): Promise<void> {
  t.assert.equal((await t.side(`select pg_terminate_backend(${pid})`)).length, 1);
  await ended(t, pid);
}

/**
 * Ends the session that runs the statement with `mark`. A session that is idle has its last statement in
 * pg_stat_activity: without the state, this would end the sidecar's session that has looked for the mark.
 */
export async function terminateRunning(t: Context, mark: string): Promise<void> {
  await t.side(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where state = 'active' and pid <> pg_backend_pid() and query like '%${mark}%'`,
  );
}

/** Returns the wait event of the session that runs `mark`, such as "ClientWrite". */
export async function waitEvent(t: Context, mark: string): Promise<string | null> {
  const [row] = await t.side(
    `select wait_event from pg_stat_activity
     where state = 'active' and pid <> pg_backend_pid() and query like '%${mark}%'`,
  );
  return row?.[0] ?? null;
}

/** Returns a text that marks one case's statement in pg_stat_activity. Comments survive there. */
export const newMark = () => unique("mark");
