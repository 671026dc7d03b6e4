/**
 * A Durable Object that keeps a feed of the changes of orders, by logical replication:
 *
 *   PostgreSQL ── changes(…) ──> Feed ──> FeedLog (its SQLite) ──> FeedClient ──> body of a response
 *                                 ^            └── position            └──> FeedClient …
 *                                 └── alarm
 *
 * Knows when PostgreSQL is read, and to which tenant a change belongs. A notification (fan-out.ts) only tells the
 * clients that listen at that moment that something happened. The feed sends each row, in order, and a client that
 * reconnects with the number of its last line gets what it has missed.
 *
 * One object reads for all tenants, because the server decodes its log once per slot. It reads while a client follows
 * the feed. Otherwise it reads for a moment each time its alarm fires, because the server keeps its log until the slot
 * has acknowledged it. The alarm also restarts reading after the object was evicted: a socket keeps an object in memory
 * for 15 minutes only.
 */
import { DurableObject } from "cloudflare:workers";
import { createClient, PgzError, sql, type Client } from "pgz-edge";
import { changes, type AnyChange, type Changes, type ChangesStats, type Update } from "pgz-edge/changes";
import type { Context } from "./context.ts";
import type { FeedEnv } from "./env.ts";
import { FeedClient } from "./feed-client.ts";
import { EVERYBODY, FeedLog } from "./feed-log.ts";
import { feeding } from "./limits.ts";
import { Problem, problemOf, problemResponse } from "./problem.ts";

/** A row of the publication's table. */
interface Order {
  readonly tenant: string;
}

export class Feed extends DurableObject<FeedEnv> {
  readonly #log: FeedLog;
  readonly #clients = new Set<FeedClient>();
  #slot: Promise<void> | undefined;
  #reading: AbortController | undefined;
  /** The time of the last read. */
  #lastRead = 0;

  constructor(context: DurableObjectState, env: FeedEnv) {
    super(context, env);
    this.#log = new FeedLog(context.storage, feeding.keep);
  }

  /** Requests come from this Worker only. It has checked the token, and it names the tenant. */
  override async fetch(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    try {
      return await this.#follow(searchParams.get("tenant")!, searchParams.get("from"));
    } catch (error) {
      const [problem, requestId] = [problemOf(error), searchParams.get("request") ?? ""];
      if (problem.status >= 500 && !(error instanceof Problem)) console.error(`${requestId}:`, error);
      return problemResponse(problem, requestId);
    }
  }

  override async alarm(): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now() + feeding.wake);
    await this.#prepared();
    this.#read();
  }

  async #follow(tenant: string, from: string | null): Promise<Response> {
    if (!this.env.CHANGES_URL) throw new Problem(503, "NO_FEED", "This server has no feed: README.md says how.");
    if (from !== null && !/^\d{1,15}$/.test(from))
      throw new Problem(400, "BAD_FROM", "from is the number of a line: the id of the last event.");
    if (this.#clients.size >= feeding.clients)
      throw new Problem(503, "TOO_MANY_CLIENTS", "Too many clients follow. Try again later.");
    await this.#prepared();
    const left = () => void this.#clients.delete(client);
    const number = from === null ? undefined : Number(from);
    const client = new FeedClient(this.#log, tenant, number, feeding.keepAlive, left);
    this.#clients.add(client);
    if ((await this.ctx.storage.getAlarm()) === null) await this.ctx.storage.setAlarm(Date.now() + feeding.wake);
    this.#read();
    return new Response(client.body, {
      headers: {
        "content-type": "text/event-stream",
        "cache-control": "no-store, no-transform",
        "x-content-type-options": "nosniff",
      },
    });
  }

  /** Resolves once the slot exists, so that later commits arrive. */
  #prepared(): Promise<void> {
    this.#slot ??= this.#prepare().catch((error: unknown) => {
      this.#slot = undefined;
      throw error;
    });
    return this.#slot;
  }

  async #prepare(): Promise<void> {
    await using client = this.#client();
    const { rows } = await client.query(sql`
      select (pg_create_logical_replication_slot(${this.#slotName}, 'pgoutput')).slot_name::text
      where not exists (select from pg_replication_slots where slot_name = ${this.#slotName})`);
    // The slot was dropped, and with it the changes since.
    if (rows.length > 0 && this.#log.position !== undefined) await this.#log.gap();
  }

  get #slotName(): string {
    return this.env.CHANGES_SLOT ?? "orders_feed";
  }

  #client(): Client {
    return createClient(this.env.CHANGES_URL!, { applicationName: "pgz-edge-example feed" });
  }

  /**
   * Starts reading, unless it is reading already. If reading fails, the clients are disconnected. They reconnect, which
   * starts reading again.
   */
  #read(): void {
    if (this.#reading) return;
    const reading = (this.#reading = new AbortController());
    this.#lastRead = Date.now();
    this.#readAll(reading)
      .catch(async (error: unknown) => {
        if (reading.signal.aborted) return;
        console.error("feed:", error);
        if (error instanceof PgzError && error.code === "CHANGES_LOST") await this.#dropSlot();
        this.#slot = undefined; // the missing slot may be the reason
        for (const client of this.#clients) this.#leave(client);
      })
      .finally(() => {
        this.#reading = undefined;
        if (this.#clients.size) this.#read(); // a client has connected while reading ended
      });
  }

  /**
   * Disconnects dead clients, and leaves the server when no client is left and its log was read. `lagBytes` counts to
   * the end that the log had when reading began. Without that, a server that is slow to pass over what is not of orders
   * would be left before it comes to them, at each alarm. A server that is away is left to the next alarm.
   */
  #tend(reading: AbortController, { state, lagBytes }: ChangesStats): void {
    const now = Date.now();
    for (const client of this.#clients) if (!client.isAlive(now)) this.#leave(client);
    if (this.#clients.size) return;
    const isConnected = state === "streaming";
    if (isConnected && lagBytes > 0) return;
    if (now - this.#lastRead > (isConnected ? feeding.quiet : feeding.wake)) reading.abort();
  }

  #leave(client: FeedClient): void {
    this.#clients.delete(client);
    client.end();
  }

  /**
   * Drops the slot of a server that lacks what was read, such as a standby that was promoted too early. The next client
   * makes it anew, with a gap in the feed.
   */
  async #dropSlot(): Promise<void> {
    try {
      await using client = this.#client();
      await client.query(sql`
        select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = ${this.#slotName}`);
    } catch (error) {
      console.error("feed: the slot could not be dropped:", error);
    }
  }

  async #readAll(reading: AbortController): Promise<void> {
    await using client = this.#client();
    const feed = changes<Order>(client, {
      slot: this.#slotName,
      publication: "orders_feed",
      from: this.#log.position,
      // The same forms as in the responses of /api/orders.
      int8: "number",
      numeric: "string",
      signal: reading.signal,
    });
    const timer = setInterval(() => this.#tend(reading, feed.stats()), feeding.quiet / 4);
    try {
      for await (const change of feed) await this.#take(change, feed);
    } finally {
      clearInterval(timer);
    }
  }

  async #take(change: AnyChange<Order>, feed: Changes<Order>): Promise<void> {
    this.#lastRead = Date.now();
    switch (change.kind) {
      case "begin":
        return this.#log.discard(); // after a lost connection the transaction is sent again
      case "insert":
        return this.#log.add(tenantOf(change.new), JSON.stringify(change));
      case "update":
        return this.#update(change);
      case "delete":
        return this.#log.add(tenantOf(change.old), JSON.stringify(change));
      case "truncate":
        return this.#log.add(EVERYBODY, JSON.stringify(change));
      case "commit":
        await this.#log.commit(feed.fullPosition(change.position));
        for (const client of this.#clients) client.wake();
        // The change is stored, so PostgreSQL need not keep it.
        return change.acknowledge();
    }
  }

  /** A row that moves to another tenant is a delete for the old tenant and an insert for the new one. */
  #update(change: Update<Order>): void {
    const { old, new: row, unchanged: _, ...place } = change;
    const [before, after] = [tenantOf(old ?? row), tenantOf(row)];
    if (before === after) return this.#log.add(after, JSON.stringify(change));
    this.#log.add(before, JSON.stringify({ ...place, kind: "delete", old }));
    this.#log.add(after, JSON.stringify({ ...place, kind: "insert", new: row }));
  }
}

/** Returns the row's tenant. It never guesses: a line with the wrong tenant would go to another tenant's clients. */
function tenantOf({ tenant }: Partial<Order>): string {
  if (!tenant) throw new Error("A change does not say whose row it was: orders needs replica identity full.");
  return tenant;
}

/** Streams the changes of the tenant's orders. With `?from=` or `last-event-id` it begins after that line. */
export async function follow(context: Context): Promise<Response> {
  const { env, request, requestId, tenant, url } = context;
  const from = url.searchParams.get("from") ?? request.headers.get("last-event-id");
  const asked = new URLSearchParams({ tenant, request: requestId, ...(from !== null && { from }) });
  const { signal } = request; // without the request's headers, so the token goes no further
  const feed = env.FEED.get(env.FEED.idFromName("orders"));
  const response = await feed.fetch(new Request(`http://object/?${asked}`, { signal }));
  return new Response(response.body, response); // a copy, because the headers of the original are immutable
}
