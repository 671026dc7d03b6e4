// Clients and pools of pgz-edge/pg without a server: what they show, and the callers that wait.
import { EventEmitter } from "node:events";
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { Client } from "../../js/adapters/pg/client.ts";
import { Pool, type PoolConfig } from "../../js/adapters/pg/pool.ts";
import { until } from "../support/until.mjs";

/** A client that connects at once. */
class ReadyClient extends EventEmitter {
  _queryable = true;

  connect(done: (error: Error | null) => void): void {
    done(null);
  }

  end(done: () => void): void {
    queueMicrotask(done);
  }
}

/** A client that loses its session before its caller can continue. */
class LostClient extends ReadyClient {
  override connect(done: (error: Error | null) => void): void {
    super.connect(done);
    this._queryable = false;
    this.emit("error", new Error("the session has ended"));
  }
}

/** The password in these tests, or a part of the connection string that has it. */
const SHOWN = /hunt(%65|e)r/;

const poolOf = (Class: typeof ReadyClient, options: PoolConfig = {}) =>
  new Pool({ ...options, Client: Class as never });

test("a pool shows no password, and its clients still get it", () => {
  const connectionString = "postgres://u:hunt%65r@h:1/d";
  for (const options of [{ connectionString }, { password: "hunter" }, { pgz: { password: "hunter" } }]) {
    const pool = new Pool(options);
    for (const shown of [inspect(pool, { depth: 9 }), JSON.stringify(pool), JSON.stringify(pool.options)])
      expect(shown).not.toMatch(SHOWN);
    expect(pool.options).toMatchObject(options);
    for (const one of [new Client(pool.options), new Client(options)]) {
      expect(inspect(one, { depth: 9 })).not.toMatch(SHOWN);
      expect(JSON.stringify(one.connectionParameters)).not.toMatch(SHOWN);
    }
  }
  // Code that copies the options still connects to the same server.
  const client = new Client({ ...new Pool({ connectionString }).options });
  expect([client.host, client.user, client.password]).toEqual(["h", "u", "hunter"]);
});

test("end() rejects the queries of a client that was never connected", async () => {
  const client = new Client();
  const query = client.query("select 1");
  const ended = client.end();
  await expect(query).rejects.toThrow("Connection terminated");
  await ended;
});

test("a session that ends before the caller of connect() can listen does not end the process", async () => {
  const pool = poolOf(LostClient);
  const client = await pool.connect();
  const heard: unknown[] = [];
  client.on("error", (error) => heard.push(error));
  await until(() => client.listenerCount("error") === 1);
  client.emit("error", new Error("later"));
  expect(heard).toHaveLength(1);
  client.release();
  await pool.end();
});

test("end() rejects the callers that wait for a client", async () => {
  for (const limit of [{}, { connectionTimeoutMillis: 60_000 }]) {
    const pool = poolOf(ReadyClient, { max: 1, ...limit });
    const client = await pool.connect();
    const heard: unknown[] = [];
    pool.connect((error) => heard.push(error));
    const waiting = [pool.connect(), pool.query("select 1")];
    const rejections = waiting.map((call) => expect(call).rejects.toThrow("after calling end on the pool"));
    const ended = pool.end();
    expect(pool.waitingCount).toBe(0);
    await Promise.all(rejections);
    expect(heard).toMatchObject([{ message: "Cannot use a pool after calling end on the pool" }]);
    client.release();
    await ended;
  }
});
