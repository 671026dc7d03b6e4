// `pgz-edge doctor` in front of each kind of server: its findings are true.
import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startH2 } from "../servers/h2.mjs";
import { logFile, type ServerDescriptor } from "../servers/index.mjs";
import type { OtherServer } from "../servers/others.mjs";
import { startPgBouncer } from "../servers/pgbouncer.mjs";
import { startPglite } from "../servers/pglite.mjs";
import { startPgpool } from "../servers/pgpool.mjs";
import { startQuestDb } from "../servers/questdb.mjs";
import { startReplicated, type ReplicatedServers } from "../servers/replica.mjs";
import { driver, pgbouncer, plainUrl, server, servers, url, useCommandLine } from "./command-line.ts";

const cli = useCommandLine();

interface Finding {
  readonly id: string;
  readonly level: string;
  readonly text: string;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly advice: readonly string[];
}
type Found = Readonly<Record<string, Finding>>;

/** Returns the findings by their id. Nothing is written to standard error. */
async function examine(where: string, options: string[] = [], env = {}): Promise<Found> {
  const { code, out, err } = await cli.run(["doctor", where, "--json", ...options], { env });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  const { findings } = JSON.parse(out) as { findings: Finding[] };
  expect(new Set(findings.map(({ id }) => id)).size).toBe(findings.length);
  return Object.fromEntries(findings.map((one) => [one.id, one]));
}

/** Runs SQL as the superuser of the newest server. */
async function admin(text: string): Promise<void> {
  const client = await driver.connect(plainUrl((server as ServerDescriptor).superuserUrl));
  await client.simple(text);
  await client.close();
}

const withTls = (one: ServerDescriptor, more = "") => `${one.appUrl.split("?")[0]}?sslmode=require${more}`;

test.each(servers.map((one) => [one.name, one] as const))("PostgreSQL %s", async (_, one) => {
  const found = await examine(withTls(one as ServerDescriptor));
  expect(found["server"]).toMatchObject({ level: "good", facts: { name: "PostgreSQL", isPostgres: true } });
  expect(Number.parseInt(String(found["server"]!.facts["version"]))).toBe(one.major);
  expect(Math.floor(Number(found["settings"]!.facts["serverVersionNum"]) / 10_000)).toBe(one.major);
  expect(found["binary"]).toMatchObject({ level: "good", facts: { numbers: true, others: true } });
  expect(found["pooler"]).toMatchObject({ level: "good", facts: { kind: "none" } });
  expect(found["prepared"]).toMatchObject({ level: "good", facts: { named: true } });
  expect(found["tls"]).toMatchObject({ facts: { encrypted: true, certificateChecked: false, sslmode: "require" } });
  expect(found["authentication"]!.facts).toEqual({
    method: "scram-sha-256",
    channelBinding: true,
    iterations: 4096,
  });
  expect(found["protocol"]!.facts).toEqual({
    version: "3.0",
    offers: one.major >= 18 ? "3.2" : "3.0",
    survivesNewer: true,
  });
  expect(found["role"]).toMatchObject({ level: "good", facts: { user: "app", superuser: false } });
  expect(found["writes"]).toMatchObject({ level: "good" });
  const { cold, again, warm } = found["first-row"]!.facts as Record<string, { flights: number; ms: number }>;
  expect([cold!.flights, again!.flights, warm!.flights]).toEqual([expect.any(Number), expect.any(Number), 1]);
  expect(cold!.flights).toBeGreaterThan(again!.flights);
  expect(again!.flights).toBeGreaterThan(1);
});

test("SCRAM with few iterations is reported when accepted, and refused when no certificate is checked", async () => {
  const one = server as ServerDescriptor;
  await admin(`drop role if exists weak; set scram_iterations = 1000; create role weak login password 'weak'`);
  const weak = (mode: string) => `postgres://weak:weak@localhost:${one.port}/app?sslmode=${mode}`;
  try {
    const { authentication } = await examine(weak("verify-full"), [], { NODE_EXTRA_CA_CERTS: one.caFile });
    expect(authentication).toMatchObject({
      level: "note",
      text: "SCRAM with channel binding, with 1000 iterations only",
      facts: { iterations: 1000 },
      advice: [expect.stringMatching(/set scram_iterations = 4096 or more/)],
    });
    const refused = await cli.run(["doctor", weak("require")]);
    expect(refused).toMatchObject({ code: 2, out: expect.stringMatching(/Set sslmode=verify-full/) });
    expect(refused.err).toMatch(/SCRAM_ITERATIONS_TOO_FEW/);
  } finally {
    await admin("drop role weak");
  }
});

test("TLS is reported as unused, unchecked, trusted or checked", async () => {
  const one = server as ServerDescriptor;
  const off = await examine(url);
  expect(off["tls"]).toMatchObject({ facts: { encrypted: false, offered: true }, text: /not used/ });
  expect(off["authentication"]!.facts).toEqual({
    method: "scram-sha-256",
    channelBinding: false,
    iterations: 4096,
  });
  const env = { NODE_EXTRA_CA_CERTS: one.caFile };
  const preferred = await examine(one.appUrl.split("?")[0]!, [], env);
  expect(preferred["tls"]!.facts).toEqual({
    encrypted: true,
    certificateChecked: false,
    certificateTrusted: true,
    sslmode: "prefer",
  });
  expect(preferred["tls"]!.advice.join(" ")).toMatch(
    /this machine trusts the certificate.* prefer continues without TLS/,
  );
  const untrusted = await examine(withTls(one));
  expect(untrusted["tls"]!.facts).toMatchObject({ certificateTrusted: false });
  const full = await examine(`${one.appUrl.split("?")[0]}?sslmode=verify-full`, [], env);
  expect(full["tls"]).toMatchObject({ level: "good", facts: { certificateChecked: true, sslmode: "verify-full" } });
});

test("TLS is reported as the driver uses it, whichever option or variable sets it", async () => {
  const one = server as ServerDescriptor;
  const base = one.appUrl.split("?")[0]!;
  const tlsOf = async (where: string, env = {}) => (await examine(where, [], env))["tls"]!;
  expect((await tlsOf(`${base}?ssl=true`)).facts).toMatchObject({ encrypted: true, sslmode: "require" });
  expect((await tlsOf(base, { PGSSLMODE: "require" })).facts).toMatchObject({ sslmode: "require" });
  const trusted = { NODE_EXTRA_CA_CERTS: one.caFile };
  const chain = await tlsOf(`${base}?sslmode=verify-ca`, trusted);
  expect(chain).toMatchObject({ level: "note", facts: { certificateChecked: true, sslmode: "verify-ca" } });
  const system = await tlsOf(base, { ...trusted, PGSSLROOTCERT: "system" });
  expect(system).toMatchObject({ level: "good", facts: { certificateChecked: true, sslmode: "verify-full" } });
  const named = await examine(`${base}?sslmode=verify-full`, ["--ca", one.caFile!]);
  expect(named["tls"]).toMatchObject({ level: "good", facts: { certificateChecked: true } });
  const renamed = base.replace(`@${one.host}:`, "@db.example.org:");
  const misnamed = await tlsOf(`${renamed}?sslmode=require&hostaddr=127.0.0.1`, trusted);
  expect(misnamed.advice.join(" ")).toMatch(/the host that the certificate names/);
  const socket = await tlsOf(`postgres://${one.user}:${one.password}@/app?host=${one.socketFolder}&port=${one.port}`);
  expect(socket).toMatchObject({ level: "good", text: expect.stringMatching(/this machine's own/) as string });
});

test("with a role limited to one connection, findings that need two are unknown, and none is false", async () => {
  await admin("drop role if exists only_one; create role only_one login password 'one' connection limit 1");
  try {
    const where = new URL(url);
    [where.username, where.password] = ["only_one", "one"];
    const found = await examine(where.href);
    expect(found["first-row"]!.level).toMatch(/^(good|note)$/); // a busy machine is slow, which is a note
    expect(found["pooler"]).toMatchObject({
      level: "unknown",
      text: expect.stringMatching(/two connections/) as string,
    });
    expect(found["tls"]!.text).not.toMatch(/does not offer/);
  } finally {
    await admin("drop role only_one");
  }
});

test("a superuser and a read-only database are reported", async () => {
  const found = await examine(plainUrl((server as ServerDescriptor).superuserUrl), [], {
    PGOPTIONS: "-c default_transaction_read_only=on -c statement_timeout=5s -c idle_in_transaction_session_timeout=9s",
  });
  expect(found["role"]).toMatchObject({ level: "change", facts: { user: "postgres", superuser: true } });
  expect(found["writes"]).toMatchObject({ level: "change", facts: { inRecovery: false, readOnly: true } });
  expect(found["timeouts"]).toMatchObject({
    level: "good",
    facts: { statementTimeout: "5s", idleInTransactionSessionTimeout: "9s" },
  });
});

test("as text, each finding is one line with its advice below", async () => {
  const { code, out, err } = await cli.run(["doctor", plainUrl((server as ServerDescriptor).superuserUrl)]);
  expect([code, err]).toEqual([0, ""]);
  expect(out).toMatch(new RegExp(`^ok Server {7}PostgreSQL ${server!.major}`));
  expect(out).toMatch(/\n!! Role {9}postgres is a superuser\n {16}-> Give the application/);
  expect(Math.max(...out.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
  expect(out).not.toContain("postgres-secret");
});

describe("PgBouncer", () => {
  const others: { stop(): Promise<unknown> }[] = [];
  afterAll(() => Promise.all(others.map((one) => one.stop())));
  const start = async (name: string, settings: string, newer = false) => {
    const log = logFile(`doctor-${name}`);
    const started = await startPgBouncer({ server: server as ServerDescriptor, log, settings, newer });
    others.push(started);
    return plainUrl(started.descriptor.url);
  };

  test("PgBouncer in transaction mode is recognised", async () => {
    const found = await examine(plainUrl(pgbouncer!.url));
    expect(found["server"]).toMatchObject({ facts: { name: "PostgreSQL" } });
    expect(found["pooler"]!.facts).toEqual({ kind: "pgbouncer", mode: "transaction" });
    expect(found["prepared"]!.facts).toEqual({ named: false });
    expect(found["protocol"]!.facts).toMatchObject({ offers: "3.0", survivesNewer: false });
    // The server process continues to serve other clients.
    const next = await driver.connect(plainUrl(pgbouncer!.url));
    const { rows } = await next.query(
      "select name from pg_prepared_statements where statement like '%pgz_edge_doctor%'",
    );
    await next.close();
    expect(rows.filter(({ name }) => name !== "pgz_first_run")).toEqual([]);
  });

  test("PgBouncer in session mode is recognised", async () => {
    const found = await examine(await start("session", "pool_mode = session\ndefault_pool_size = 20"));
    expect(found["pooler"]!.facts).toEqual({ kind: "pgbouncer", mode: "session" });
    expect(found["prepared"]).toMatchObject({ level: "good", facts: { named: true } });
  });

  test("PgBouncer in statement mode is reported", async () => {
    const found = await examine(await start("statement", "pool_mode = statement"));
    expect(found["pooler"]).toMatchObject({ level: "change", facts: { kind: "pgbouncer", mode: "statement" } });
  });

  test("PgBouncer 1.24, which tracks named statements, is recognised", async () => {
    const found = await examine(await start("tracking", "max_prepared_statements = 100", true));
    expect(found["pooler"]!.facts).toEqual({ kind: "pgbouncer", mode: "transaction" });
    expect(found["prepared"]!.facts).toEqual({ named: true });
    const without = await examine(await start("not-tracking", "max_prepared_statements = 0", true));
    expect(without["prepared"]!.facts).toEqual({ named: false });
  });
});

describe("pgpool-II over a primary and a standby", () => {
  let pair: ReplicatedServers;
  let pgpool: Awaited<ReturnType<typeof startPgpool>>;
  beforeAll(async () => {
    pair = await startReplicated({ major: 15, log: logFile("doctor-replicated") });
    pgpool = await startPgpool({ ...pair, log: logFile("doctor-pgpool") });
  });
  afterAll(async () => {
    await pgpool?.stop();
    await pair?.stop();
  });

  test("pgpool-II is named, with its version", async () => {
    const found = await examine(plainUrl(pgpool.descriptor.url));
    expect(found["pooler"]!.facts).toEqual({
      kind: "pgpool",
      mode: "session",
      version: expect.stringMatching(/^4\.\d+\.\d+/),
    });
    expect(found["pooler"]!.text).toMatch(/^pgpool-II 4\./);
    expect(found["server"]).toMatchObject({ facts: { name: "PostgreSQL" } });
  });

  test("the standby itself is reported as read-only", async () => {
    const found = await examine(plainUrl(pair.standby.url));
    expect(found["writes"]).toMatchObject({ level: "change", facts: { inRecovery: true } });
    expect(found["pooler"]!.facts).toMatchObject({ kind: "none" });
  });
});

describe("servers that only speak the protocol", () => {
  const running: OtherServer[] = [];
  afterAll(() => Promise.all(running.map((one) => one.stop())));
  const start = async (starting: Promise<OtherServer>) => {
    const one = await starting;
    running.push(one);
    const { user, password, host, port, database } = one.options;
    return `postgres://${user}:${password}@${host}:${port}/${database}?sslmode=disable`;
  };

  test("pglite-socket is recognised", async () => {
    const found = await examine(await start(startPglite({ log: logFile("doctor-pglite") })));
    expect(found["server"]).toMatchObject({ level: "note", facts: { name: "PGlite", isPostgres: true } });
    expect(found["binary"]!.facts).toEqual({ numbers: true, others: true });
    expect(found["pooler"]).toMatchObject({ level: "note", text: "none, but all clients share one session" });
    expect(found["protocol"]!.facts).toMatchObject({ survivesNewer: false });
  });

  test.each([
    ["H2", startH2, { numbers: true, others: false }],
    ["QuestDB", startQuestDb, { numbers: true, others: true }],
  ] as const)("%s", async (name, starting, binary) => {
    const where = await start(starting({ log: logFile(`doctor-${name}`) }));
    const refused = await cli.run(["doctor", where, "--json"]);
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining("AUTH_CLEARTEXT_REFUSED") });
    const { findings } = JSON.parse(refused.out) as { findings: Finding[] };
    expect(findings[0]!.advice[0]).toContain("--allow-cleartext-password");
    const found = await examine(where, ["--allow-cleartext-password"]);
    expect(found["server"]).toMatchObject({ level: "note", facts: { name, isPostgres: false } });
    expect(found["server"]!.facts["version"]).toMatch(/^\d+\.\d+/);
    expect(found["binary"]!.facts).toEqual(binary);
    expect(found["authentication"]!.facts).toMatchObject({ method: "password" });
    expect(found["pooler"]).toMatchObject({ level: "unknown" });
    expect(found["settings"]).toBeUndefined();
  });
});

describe("without a server, or with another kind of server", () => {
  const listening: Server[] = [];
  afterAll(() => listening.forEach((one) => one.close()));
  const listen = async (answer: string | undefined) => {
    const one = createServer((socket) => {
      socket.on("error", () => {});
      if (answer !== undefined) socket.end(answer);
    }).listen(0, "127.0.0.1");
    listening.push(one);
    await new Promise((resolve) => one.once("listening", resolve));
    return `postgres://u:geheim@127.0.0.1:${(one.address() as { port: number }).port}/d?sslmode=disable`;
  };
  beforeAll(async () => {
    await admin("drop role if exists may_not; create role may_not nologin password 'geheim'");
  });
  afterAll(() => admin("drop role may_not"));
  const wrongPassword = url.replace(/:[^:@]*@/, ":geheim@");

  test.each([
    ["nobody", () => url.replace(/:\d+\//, ":1/"), "CONNECT_FAILED", /Nothing listens/],
    ["a name that is none", () => "postgres://u:geheim@no.such.host.invalid/d", "CONNECT_FAILED", /has no address/],
    ["a wrong password", () => wrongPassword, "28P01", /encodeURIComponent/],
    ["no such role", () => url.replace(/\/\/[^:]*:/, "//nobody_here:"), "28P01", /no such user/],
    ["a role that may not log in", () => url.replace(/\/\/[^:]*:[^@]*@/, "//may_not:geheim@"), "28000", /LOGIN/],
    ["no such database", () => url.replace(/\/[^/?]*\?/, "/nothing_here?"), "3D000", /path of the URL/],
    ["a web server", () => listen("HTTP/1.1 400 Bad Request\r\n\r\n"), "NOT_POSTGRESQL", /is the port right/],
    ["silence", () => listen(undefined), "CONNECT_TIMEOUT", /firewall/],
  ])("%s", async (_, where, code, advice) => {
    const { code: exit, out, err } = await cli.run(["doctor", await where(), "--json"]);
    expect(exit).toBe(2);
    expect(err).toContain(code);
    const { findings } = JSON.parse(out) as { findings: Finding[] };
    expect(findings).toEqual([
      expect.objectContaining({
        id: "connection",
        level: "change",
        facts: { code },
        advice: [expect.stringMatching(advice)],
      }),
    ]);
    expect(out + err).not.toContain("geheim");
  });
});
