// Real servers for tests, demo and benchmarks.
//
//   const { servers, pgbouncer, stop } = await startServers({ majors: [19, 15], pgbouncer: true });
//
// A server is a plain JSON descriptor: { name, major, own, tls, host, port, database, user, password, url, appUrl,
// superuserUrl, caFile, log, pid }. If the environment has DATABASE_URL, that server replaces the first and is left
// unchanged: `own` is false, it has only the URL's role, and `tls` says whether the URL asks for TLS. For manual use,
// `node tests/servers/index.mjs` starts both majors and PgBouncer and prints their addresses.
import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import pg from "pg";
import { certificates } from "./certificates.mjs";
import { cache } from "./home.mjs";
import { startPgBouncer } from "./pgbouncer.mjs";
import { newestMajor } from "./postgres-19.mjs";
import { startPostgres } from "./postgres.mjs";

export async function startServers({
  majors = [newestMajor(), 15],
  pgbouncer = false,
  databaseUrl = process.env.DATABASE_URL,
} = {}) {
  certificates(); // made here, before two servers need them at once
  const running = [];
  const stop = async () => void (await Promise.all(running.splice(0).map((server) => server.stop())));
  const start = async (major) => {
    const server =
      databaseUrl && major === majors[0]
        ? await foreign(databaseUrl)
        : await startPostgres({ major, log: logFile(`postgresql-${major}`) });
    running.push(server);
    return server.descriptor;
  };
  const started = await Promise.allSettled(majors.map(start));
  try {
    const failed = started.find(({ status }) => status === "rejected");
    if (failed !== undefined) throw failed.reason;
    const servers = started.map(({ value }) => value);
    if (!pgbouncer) return { servers, stop };

    const behind = servers.find(({ own }) => own);
    if (behind === undefined)
      throw new Error("PgBouncer needs a server of our own behind it: add another major version");
    const pooler = await startPgBouncer({ server: behind, log: logFile("pgbouncer") });
    running.push(pooler);
    return { servers, pgbouncer: pooler.descriptor, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The server of DATABASE_URL. It is queried for its version, and otherwise left alone. */
async function foreign(databaseUrl) {
  const address = new URL(databaseUrl);
  const mode = address.searchParams.get("sslmode") ?? "disable";
  const caFile = address.searchParams.get("sslrootcert") ?? undefined;
  const client = new pg.Client({ connectionString: databaseUrl });
  try {
    await client.connect();
  } catch (error) {
    throw new Error(`DATABASE_URL (${address.host}${address.pathname}) cannot be used: ${error.message}`, {
      cause: error,
    });
  }
  const { rows } = await client.query(
    "select current_setting('server_version_num')::int / 10000 as major, current_database() as database",
  );
  await client.end();
  return {
    descriptor: {
      name: `url-${rows[0].major}`,
      major: rows[0].major,
      own: false,
      tls: !["disable", "allow", "prefer"].includes(mode),
      host: address.hostname,
      port: Number(address.port || 5432),
      database: rows[0].database,
      user: decodeURIComponent(address.username),
      password: decodeURIComponent(address.password),
      url: databaseUrl,
      appUrl: databaseUrl,
      superuserUrl: databaseUrl,
      caFile,
    },
    stop: () => Promise.resolve(),
  };
}

/**
 * Returns the path of a new log in .cache/logs. The name includes our process id, since a demo or a benchmark may start
 * servers of the same names while tests read theirs. Logs older than a day are deleted.
 */
export function logFile(name) {
  const folder = path.join(cache, "logs");
  mkdirSync(folder, { recursive: true });
  const yesterday = Date.now() - 24 * 60 * 60 * 1000;
  for (const old of readdirSync(folder).map((entry) => path.join(folder, entry)))
    if ((statSync(old, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < yesterday) rmSync(old, { force: true });
  const file = path.join(folder, `${name}-${process.pid}.log`);
  rmSync(file, { force: true });
  return file;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const { servers, pgbouncer } = await startServers({ pgbouncer: true });
  for (const { name, url, superuserUrl, log } of [...servers, pgbouncer])
    console.log(`${name}\n  ${url}\n  ${superuserUrl}\n  log ${log}`);
  console.log(`CA ${certificates().ca}\nCtrl-C stops them all.`);
  setInterval(() => {}, 1 << 30);
}
