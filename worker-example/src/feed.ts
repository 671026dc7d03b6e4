/**
 * A Durable Object that keeps a feed of what becomes of the orders, by logical replication:
 *
 *   PostgreSQL ── changes(…) ──> Feed ──> FeedLog (its SQLite) ──> FeedClient ──> body of a response
 *                                 ^            └── position            └──> FeedClient …
 *                                 └── alarm
 *
 * Knows when PostgreSQL is read, and whose a change is. A notification (fan-out.ts) says that something happened, to
 * who listens at that moment; here each row is told, in order, and a client that comes back with the number of its last
 * line gets what it has missed.
 *
 * One object reads for all tenants: the server decodes its log once for each slot. It reads while somebody follows, and
 * else for a moment each time its alarm goes off, because the server keeps its log until the slot has acknowledged it.
 * The alarm also begins anew where an object was evicted: a socket keeps it in memory for 15 minutes only.
 */
import { DurableObject } from "cloudflare:workers";
import { createClient, sql, type Client } from "pgz-edge";
import { changes, type AnyChange, type Update } from "pgz-edge/changes";
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
  /** When something was last read. */
  #lastRead = 0;

  constructor(context: DurableObjectState, env: FeedEnv) {
    super(context, env);
    this.#log = new FeedLog(context.storage, feeding.keep);
  }

  /** Requests come from this Worker only: it has looked at the token, and names the tenant. */
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

  /** The slot is there: what commits from now on comes. */
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
    // Somebody has dropped the slot, and with it what happened since.
    if (rows.length > 0 && this.#log.position !== undefined) await this.#log.gap();
  }

  get #slotName(): string {
    return this.env.CHANGES_SLOT ?? "orders_feed";
  }

  #client(): Client {
    return createClient(this.env.CHANGES_URL!, { applicationName: "pgz-edge-example feed" });
  }

  /** Reads on, unless it does already. Where that fails its clients are left: they come back, and begin it again. */
  #read(): void {
    if (this.#reading) return;
    const reading = (this.#reading = new AbortController());
    this.#lastRead = Date.now();
    const timer = setInterval(() => this.#tend(reading), feeding.quiet / 4);
    this.#readAll(reading.signal)
      .catch((error: unknown) => {
        if (reading.signal.aborted) return;
        console.error("feed:", error);
        this.#slot = undefined; // it may be what is missing
        for (const client of this.#clients) this.#leave(client);
      })
      .finally(() => {
        clearInterval(timer);
        this.#reading = undefined;
        if (this.#clients.size) this.#read(); // one has come while it ended
      });
  }

  #tend(reading: AbortController): void {
    const now = Date.now();
    for (const client of this.#clients) if (!client.isAlive(now)) this.#leave(client);
    if (!this.#clients.size && now - this.#lastRead > feeding.quiet) reading.abort();
  }

  #leave(client: FeedClient): void {
    this.#clients.delete(client);
    client.end();
  }

  async #readAll(signal: AbortSignal): Promise<void> {
    await using client = this.#client();
    const feed = changes<Order>(client, {
      slot: this.#slotName,
      publication: "orders_feed",
      from: this.#log.position,
      // As in the answers of /api/orders.
      int8: "number",
      numeric: "string",
      signal,
    });
    for await (const change of feed) await this.#take(change);
  }

  async #take(change: AnyChange<Order>): Promise<void> {
    this.#lastRead = Date.now();
    switch (change.kind) {
      case "begin":
        return this.#log.discard(); // behind a lost connection it comes again
      case "insert":
        return this.#log.add(tenantOf(change.new), JSON.stringify(change));
      case "update":
        return this.#update(change);
      case "delete":
        return this.#log.add(tenantOf(change.old), JSON.stringify(change));
      case "truncate":
        return this.#log.add(EVERYBODY, JSON.stringify(change));
      case "commit":
        await this.#log.commit(change.position);
        for (const client of this.#clients) client.wake();
        // What is stored is stored: PostgreSQL need not keep it.
        return change.acknowledge();
    }
  }

  /** A row that moves to another tenant is gone for the one, and new for the other. */
  #update(change: Update<Order>): void {
    const { old, new: row, unchanged: _, ...place } = change;
    const [before, after] = [tenantOf(old ?? row), tenantOf(row)];
    if (before === after) return this.#log.add(after, JSON.stringify(change));
    this.#log.add(before, JSON.stringify({ ...place, kind: "delete", old }));
    this.#log.add(after, JSON.stringify({ ...place, kind: "insert", new: row }));
  }
}

/** Never a guess: a line without a tenant would be somebody else's. */
function tenantOf({ tenant }: Partial<Order>): string {
  if (!tenant) throw new Error("A change does not say whose row it was: orders needs replica identity full.");
  return tenant;
}

/** What becomes of the tenant's orders. `?from=` or `last-event-id`: behind that line. */
export async function follow(context: Context): Promise<Response> {
  const { env, request, requestId, tenant, url } = context;
  const from = url.searchParams.get("from") ?? request.headers.get("last-event-id");
  const asked = new URLSearchParams({ tenant, request: requestId, ...(from !== null && { from }) });
  const { signal } = request; // without the request's headers: the token ends here
  const feed = env.FEED.get(env.FEED.idFromName("orders"));
  const response = await feed.fetch(new Request(`http://object/?${asked}`, { signal }));
  return new Response(response.body, response); // with headers that may be set
}
