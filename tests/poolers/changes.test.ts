// Servers and roles that cannot stream changes: each refusal comes at once and says what to change.
import { afterEach, expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { logFile, type ServerDescriptor } from "../servers/index.mjs";
import { startPgBouncer } from "../servers/pgbouncer.mjs";
import { startPgpool } from "../servers/pgpool.mjs";
import { newestMajor } from "../servers/postgres-19.mjs";
import { startReplicated, type ReplicatedServers } from "../servers/replica.mjs";
import { until } from "../support/until.mjs";
import { driver } from "./pooled.ts";

const { changes } = (await import("../../dist/changes.js" as string)) as typeof import("../../js/changes.ts");
const server = testServers().servers[0] as ServerDescriptor;
const plain = (url: string) => `${url.split("?")[0]}?sslmode=disable`;

const POOLER = { code: "08P01", advice: expect.stringMatching(/pooler.*connect to the server itself/) };

let pair: ReplicatedServers | undefined;
afterEach(async () => {
  await pair?.stop();
  pair = undefined;
});

/**
 * Returns the error of the first change. A stream that begins, or that gives neither a change nor an error, is a
 * failure.
 */
async function refusal(url: string) {
  await using db = driver.createPool(plain(url), { max: 1, connectTimeout: 2_000 });
  const options = { slot: "refused", publication: "refused", createSlot: "temporary" } as const;
  const feed = changes(db as never, options);
  const reader = feed.stream().getReader();
  const outcome = reader.read().then(
    () => "it has begun",
    ({ name, code, advice }: Record<string, unknown>) => ({ name, code, advice }),
  );
  await until(() => /streaming|over/.test(feed.stats().state), "it begins, or is refused");
  return feed.stats().state === "over" ? await outcome : await reader.cancel();
}

/** Makes the publication, so that it is not what is refused. */
async function publish({ superuserUrl }: ServerDescriptor): Promise<void> {
  await using db = driver.createPool(plain(superuserUrl), { max: 1 });
  await db.exec("create publication refused");
}

test("a role without REPLICATION is refused with advice", async () => {
  expect(await refusal(server.appUrl)).toEqual({
    name: "PostgresError",
    code: "42501",
    advice: expect.stringMatching(/alter role … replication/),
  });
});

test("a standby before 16 is refused, and pgpool-II in front of one times out", async () => {
  pair = await startReplicated({ major: 15, log: logFile("changes-standby") });
  const recovery = { code: "0A000", advice: expect.stringMatching(/connect to the primary/) };
  expect(await refusal(pair.standby.superuserUrl!)).toMatchObject(recovery);
  await publish(pair.primary);
  const pooler = await startPgpool({ ...pair, log: logFile("changes-pgpool") });
  try {
    // pgpool-II accepts the login, and never answers START_REPLICATION.
    const silent = await refusal((pooler.descriptor as ServerDescriptor).superuserUrl!);
    expect(silent).toMatchObject({ name: "TimeoutError", code: "CONNECT_TIMEOUT" });
  } finally {
    await pooler.stop();
  }
});

test("a server before 19 without wal_level = logical is refused with advice", async () => {
  pair = await startReplicated({ major: 15, log: logFile("changes-wal-level"), settings: { wal_level: "replica" } });
  await publish(pair.primary);
  expect(await refusal(pair.primary.superuserUrl!)).toMatchObject({
    code: "55000",
    advice: expect.stringMatching(/wal_level = logical/),
  });
});

test("from 19 on wal_level = replica is enough", async () => {
  // Where there is no 19, 18 has `logical`, so that this shows what `refusal` gives for a stream that begins.
  const settings = { wal_level: newestMajor() >= 19 ? "replica" : "logical" };
  pair = await startReplicated({ log: logFile("changes-on-demand"), settings });
  await publish(pair.primary);
  expect(await refusal(pair.primary.superuserUrl!)).toBeUndefined();
});

test.each([
  ["PgBouncer", false],
  ["PgBouncer 1.24", true],
])("%s", async (_, newer) => {
  const pooler = await startPgBouncer({ server, newer, log: logFile("changes-pgbouncer") });
  try {
    expect(await refusal(pooler.descriptor.superuserUrl!)).toMatchObject(POOLER);
  } finally {
    await pooler.stop();
  }
});
