// Known holes of PostgreSQL clients and poolers, one case for each, named by its CVE or by the bug. Each was seen in
// another driver, and none may be in this driver.
//
// Each case is short and says one thing; the thorough tests of the same subjects are elsewhere (tests/faults for what
// servers do, tests/properties for what bytes do). A false server is a scripted server (tests/faults/bad-servers).
import { FaultHost, type ConnectionReport } from "../../faults/control.ts";
import type { Client } from "../../../js/index.ts";
import type { Case, Context } from "../context.ts";
import { inTime } from "../../support/until.mjs";
import { newMark, started, terminate, text, withClient, withSchema } from "./helpers.ts";

/** How the driver connects to a false server, and a check of the error and of what the server has seen. */
interface Met {
  tls?: boolean;
  options?: object;
  check?(error: Error & Record<string, unknown>, report: ConnectionReport): void;
}

/** Checks that each of these scenarios ends the call with this code at once, and closes the socket. */
async function refused(t: Context, scenarios: readonly string[], code: RegExp, met: Met = {}): Promise<void> {
  const { tls = false, options = {}, check } = met;
  const host = new FaultHost(t.faults);
  const { user, password } = await host.info();
  const plans = await host.plans(scenarios.map((scenario) => ({ scenario, tls })));
  for (const [at, { id, port }] of plans.entries()) {
    const { ca } = t.options;
    const target = { host: "127.0.0.1", port, user, password, database: `scripted_security_${id}` };
    const link = tls
      ? { sslmode: "verify-full" as const, ...(ca === undefined ? {} : { ca }) }
      : { sslmode: "disable" as const };
    const client = t.pgz.createClient({ ...target, ...link, connectTimeout: 60_000, ...options });
    const asked = client.query(t.pgz.sql`select n, label from scripted_rows where n > ${0}`);
    const error = await t.assert.rejects(inTime(asked));
    t.assert.match(String(error["code"]), code, scenarios[at]);
    await client.close();
    const [report] = (await host.reports([id]))[0]!;
    t.assert(report!.closedByDriver !== "open", `${scenarios[at]} left a socket open`);
    check?.(error, report!);
  }
}

/** Checks that the server got neither the password nor a proof of it. The client's first SCRAM message has neither. */
const noPassword: Met["check"] = (_, { passwords }) => {
  const given = passwords.filter((each) => !each.includes("n,,n=,r=") || each.includes("p="));
  if (given.length) throw new Error(`the server has got ${JSON.stringify(given)}`);
};

/** Column names that other drivers have run as code, or that broke their JSON or a prototype. */
const NAMES = [
  "');process.exit(1);//",
  "__proto__",
  "constructor",
  "toString",
  "a\u2028b",
  "`${1}`",
  'a"b',
  "a\\",
  "a\nb\t\u0001",
  "é".repeat(31),
];
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

const PROTOCOL = /^PROTOCOL_VIOLATION$/;

export const security: Case[] = [
  {
    name: "CVE-2024-27304, RUSTSEC-2024-0363 and -0365: a value whose length wraps is refused, and none of it is sent",
    only: "plain",
    run: (t) =>
      withClient(t, async (client) => {
        const query = (value: unknown) => client.query({ text: "select length($1::bytea) as a", values: [value] });
        t.assert.deepEqual((await query(new Uint8Array(3))).rows, [{ a: 3 }]);
        for (const byteLength of [2 ** 30, 2 ** 31, 2 ** 32, 2 ** 32 + 1]) {
          const huge = Object.defineProperty(new Uint8Array(0), "byteLength", { value: byteLength });
          const { writes } = client.stats();
          await t.assert.rejects(query(huge), { code: "PARAMETERS_TOO_LARGE" });
          // The types are described once more, because they might have changed.
          t.assert(client.stats().writes <= writes + 1, "writes");
        }
        t.assert.deepEqual((await query(new Uint8Array(4))).rows, [{ a: 4 }]);
      }),
  },
  {
    name: "pg's int16: 65,536 parameters are refused before a byte is sent, and 65,535 are not",
    only: "plain",
    run: (t) =>
      withClient(t, async (client) => {
        const many = (count: number) => ({
          text: `select 1 as a where '1' in (${Array.from({ length: count }, (_, at) => `$${at + 1}`).join()})`,
          values: new Array<string>(count).fill("1"),
        });
        const { writes } = client.stats();
        await t.assert.rejects(client.query(many(65_536)), { code: "TOO_MANY_PARAMETERS" });
        t.assert.equal(client.stats().writes, writes);
        t.assert.deepEqual((await client.query(many(65_535))).rows, [{ a: 1 }]);
      }),
  },
  {
    name: "CVE-2017-16082 and postgres.js's __proto__: a column's name is only a name, in objects and in JSON",
    only: "plain",
    run: (t) =>
      withClient(t, async (client) => {
        const sql = `select ${NAMES.map((name, at) => `${at} as ${quoted(name)}`).join()}, '{"polluted":true}'::json as "__proto__"`;
        const first = `select ${NAMES.map((name, at) => `${at} as ${quoted(name)}`).join()}`;
        for (let run = 0; run < 3; run++) {
          const { rows } = await client.query(first);
          t.assert.deepEqual(Object.keys(rows[0]!), NAMES);
          t.assert.deepEqual(Object.values(rows[0]!), [...NAMES.keys()]);
          const [parsed] = JSON.parse(new TextDecoder().decode(await client.json(first))) as object[];
          t.assert.deepEqual(Object.keys(parsed!), NAMES);
          const [row] = (await client.query(sql)).rows as { polluted?: unknown }[];
          t.assert.equal(row!.polluted, undefined);
          t.assert.equal(({} as { polluted?: unknown }).polluted, undefined);
        }
      }),
  },
  {
    name: "names that end a frame: each line of NDJSON is one row, whatever its columns are called",
    only: "plain",
    run: (t) =>
      withClient(t, async (client) => {
        const sql = `select ${NAMES.map((name, at) => `${at} as ${quoted(name)}`).join()} from generate_series(1, 5)`;
        for (let run = 0; run < 2; run++) {
          const lines = (await text(await client.stream(sql))).split("\n");
          t.assert.equal(lines.length, 6);
          for (const line of lines.slice(0, 5)) t.assert.deepEqual(Object.keys(JSON.parse(line) as object), NAMES);
        }
      }),
  },
  {
    name: "json with newlines stays on one line, as the server sends it",
    only: "plain",
    run: (t) =>
      withClient(t, async (client) => {
        const sql = String.raw`select '{"a":${"\n"} 1,${"\r\n"}"a": 2, "big": 1e9999, "nul": "\u0000", "lone": "\ud800"}'::json as j
          from generate_series(1, 3)`;
        for (let run = 0; run < 3; run++) {
          const lines = (await text(await client.stream(sql))).split("\n");
          t.assert.equal(lines.length, 4);
          for (const line of lines.slice(0, 3)) JSON.parse(line);
        }
      }),
  },
  {
    name: "CVE-2024-1597: a value is never part of the SQL",
    only: "plain",
    run: (t) =>
      withClient(t, async (client) => {
        const { sql } = t.pgz;
        for (let run = 0; run < 3; run++) {
          t.assert.deepEqual((await client.query(sql`select 5 -${-3}::int4 as a`)).rows, [{ a: 8 }]);
          const value = "'; drop table x; --";
          t.assert.deepEqual((await client.query(sql`select ${value}::text as a`)).rows, [{ a: value }]);
          t.assert.deepEqual((await client.query("select $tag$ $1 $tag$ as a")).rows, [{ a: " $1 " }]);
        }
        const seen = await client.query<{ query: string }>(
          sql`select query from pg_stat_activity where pid = pg_backend_pid() and ${"secret-value"} <> ''`,
        );
        t.assert.equal(seen.rows[0]!.query.includes("secret-value"), false);
      }),
  },
  {
    name: "CVE-2022-31197 and RUSTSEC-2026-0136: names in the driver's own SQL are quoted",
    only: "plain",
    run: (t) =>
      withSchema(t, async (client, schema) => {
        const column = `a"; drop table ${schema}.t; --`;
        const table = `t' null '' --`;
        await client.exec(`create table ${schema}.t (n int4); create table x (n int4)`).catch(() => {});
        await client.exec(`create table ${schema}.${quoted(table)} (${quoted(column)} text)`);
        await client.exec(`create table if not exists ${schema}.t (n int4)`);
        const into = t.pgz.sql.identifier(schema, table);
        await client.copyFromRows(into, [column], [["x"], [null]]);
        const { rows } = await client.query(`select * from ${schema}.${quoted(table)}`);
        t.assert.deepEqual(rows, [{ [column]: "x" }, { [column]: null }]);
        t.assert.deepEqual((await client.query(`select * from ${schema}.t`)).rows, []);
      }),
  },
  {
    name: "CVE-2025-1094: a name that is invalid Unicode or has NUL is refused and not quoted",
    differs: ["text"],
    only: "plain",
    run: async (t) => {
      for (const name of ["\ud800", "a\udc00", "a\0b"])
        await t.assert.rejects((async () => t.pgz.sql.identifier(name))(), { name: "UsageError" });
    },
  },
  {
    name: "CVE-2006-2313 and -2314: backslashes mean nothing, even with standard_conforming_strings off",
    only: "plain",
    async run(t) {
      const asked = { options: "-c standard_conforming_strings=off -c escape_string_warning=off" };
      const use = async (client: Client) => {
        const value = "\\'; select 1; --\\\\";
        for (let run = 0; run < 3; run++)
          t.assert.deepEqual((await client.query(t.pgz.sql`select ${value}::text as a`)).rows, [{ a: value }]);
        await client.notify("security", value);
      };
      const version = await withClient(t, (client) =>
        client.query("select current_setting('server_version_num')::int4 as version"),
      );
      if (Number(version.rows[0]!["version"]) < 190000) return withClient(t, use, asked);
      // PostgreSQL 19 has only standard-conforming strings.
      await t.assert.rejects(withClient(t, use, asked), { code: "0A000" });
    },
  },
  {
    name: "NUL smuggles in no parameter: not in StartupMessage, SQL, a name or a value",
    only: "plain",
    run: async (t) => {
      const { pgz, options, assert } = t;
      for (const bad of [
        { user: "x\0user\0admin" },
        { database: "x\0y" },
        { applicationName: "x\0user\0admin" },
        { startup: { work_mem: "1\0user\0admin" } },
        { startup: { "work\0mem": "1" } },
      ])
        await assert.rejects((async () => pgz.createClient({ ...options, ...bad }))(), { code: "INVALID_OPTION" });
      await withClient(t, async (client) => {
        await assert.rejects(client.query("select 1\0; select 2"), { code: "INVALID_QUERY" });
        await assert.rejects(client.query({ text: "select $1::text as a", values: ["a\0b"] }), {
          code: "INVALID_PARAMETER",
        });
        await assert.rejects(client.listen("a\0b"), { name: "UsageError" });
        await assert.rejects(client.query(String.raw`select '"\u0000"'::jsonb`), { code: "22P05" });
      });
    },
  },
  {
    name: "CVE-2021-23222: bytes after the answer to SSLRequest end the connection",
    differs: ["tls"],
    only: "tls",
    run: (t) =>
      refused(t, ["S with stuffed bytes", "N with stuffed bytes"], PROTOCOL, { tls: true, check: noPassword }),
  },
  {
    name: "CVE-2024-10977: an error in place of TLS is not shown",
    differs: ["tls"],
    only: "tls",
    run: (t) =>
      refused(t, ["E to SSLRequest"], /^TLS_REFUSED$/, {
        tls: true,
        check: (error) => t.assert.equal(/trust me|install/i.test(`${String(error)} ${String(error["cause"])}`), false),
      }),
  },
  {
    name: "CVE-2022-41862 and pg's endless loop: an error without its terminator is a protocol violation",
    only: "plain",
    run: (t) =>
      refused(
        t,
        ["error without final NUL", "error without field terminator"],
        /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION)$/,
      ),
  },
  {
    name: "CVE-2025-12818, CVE-2026-6477 and the 1.9 GB row: a length is not trusted",
    only: "plain",
    run: (t) =>
      refused(
        t,
        ["row with a huge field", "RowDescription with count -1", "ParameterDescription with count -1"],
        PROTOCOL,
      ),
  },
  {
    name: "CVE-2026-32286 and -4427: a row with a negative length, or with one past its end, is a protocol violation",
    only: "plain",
    run: (t) =>
      refused(
        t,
        [
          "row with a field of length -2",
          "row with a field of length -2147483648",
          "row with a field past its end",
          "row with trailing bytes",
          "row with -1 fields",
        ],
        PROTOCOL,
      ),
  },
  {
    name: "RUSTSEC-2026-0178: a row with a wrong number of fields is a protocol violation",
    only: "plain",
    run: (t) => refused(t, ["row with fewer fields", "row with more fields"], PROTOCOL),
  },
  {
    name: "RUSTSEC-2026-0180: a value whose bytes do not fit its type is an error",
    only: "plain",
    run: async (t) => {
      // Its statement is known, so its rows are requested in binary.
      await refused(t, ["row whose int4 has 3 bytes"], /^INVALID_VALUE$/, { options: { firstRun: "describe" } });
    },
  },
  {
    name: "CVE-2026-42198, RUSTSEC-2026-0179: the server does not decide how long SCRAM takes",
    differs: ["crypto"],
    only: "plain",
    run: (t) =>
      refused(
        t,
        ["SCRAM iterations 2e9", "SCRAM iterations 100001", "SCRAM iterations 0", "SCRAM iterations -1"],
        /^SCRAM_(ITERATIONS_OUT_OF_RANGE|MALFORMED)$/,
      ),
  },
  {
    name: "a server that does not prove itself is refused (pg, postgres.js, libpq; CVE-2026-6478)",
    only: "plain",
    run: async (t) => {
      await refused(t, ["SCRAM server signature wrong"], /^SCRAM_SERVER_SIGNATURE_MISMATCH$/);
      await refused(t, ["AuthenticationOk without SASLFinal"], /^(UNEXPECTED_MESSAGE|PROTOCOL_VIOLATION|SCRAM_\w+)$/);
    },
  },
  {
    name: "postgres.js's nonce, CVE-2026-6665: a nonce that does not continue ours, or is too long, is refused",
    only: "plain",
    run: (t) =>
      refused(
        t,
        ["SCRAM nonce foreign", "SCRAM nonce cut", "SCRAM nonce not continued", "SCRAM nonce of 100 kB"],
        /^(SCRAM_NONCE_MISMATCH|SCRAM_MALFORMED|PROTOCOL_VIOLATION)$/,
        { check: noPassword },
      ),
  },
  {
    name: "CVE-2025-49146, CVE-2026-54291: required channel binding is never left out",
    differs: ["crypto"],
    only: "plain",
    run: async (t) => {
      const error = await t.assert.rejects(
        (async () => (await t.pgz.connect({ ...t.options, channelBinding: "require" })).close())(),
      );
      t.assert.match(String(error["code"]), /^CHANNEL_BINDING_\w+$/);
    },
  },
  {
    name: "a server that asks for a cleartext password on an unencrypted link does not get it",
    only: "plain",
    run: (t) => refused(t, ["cleartext"], /^AUTH_CLEARTEXT_REFUSED$/, { check: noPassword }),
  },
  {
    name: "a server that asks for less than requireAuth gets nothing",
    only: "plain",
    run: (t) =>
      refused(t, ["cleartext", "MD5", "trust"], /^AUTH_METHOD_REFUSED$/, {
        options: { requireAuth: "scram-sha-256", allowCleartextPassword: true },
        check: noPassword,
      }),
  },
  {
    name: "a cancel key of 256 bytes is kept, and a longer key is a protocol violation",
    only: "plain",
    run: (t) =>
      refused(t, ["cancel key of 257 bytes", "cancel key of 0 bytes"], PROTOCOL, {
        options: { maxProtocolVersion: "3.2" },
      }),
  },
  {
    name: "PgBouncer's CVE-2026-6666: an error without SQLSTATE is still an error",
    only: "plain",
    run: (t) => refused(t, ["error without SQLSTATE"], /^$/),
  },
  {
    name: "CVE-2018-10936: verify-full requires the name of the host",
    differs: ["tls"],
    only: "tls",
    run: async (t) => {
      // Workers can check no name other than the host's, and say so.
      const name = t.runtime === "workerd" ? "UsageError" : "ConnectionError";
      await t.assert.rejects(t.pgz.connect({ ...t.options, servername: "other.example" }), { name });
    },
  },
  {
    name: "no error and no printed form of a client shows a password",
    differs: ["engine"],
    only: "plain",
    run: async (t) => {
      const secret = "p4ss-Zq9/w@rd";
      for (const url of [
        `postgres://user:${secret}@local host:5432/app`,
        `postgres://user:${encodeURIComponent(secret)}@localhost:99999/app`,
        `postgres://user:${encodeURIComponent(secret)}@localhost/app?nonsense=1`,
      ]) {
        const error = await t.assert.rejects((async () => t.pgz.createClient(url))());
        const shown = `${String(error)} ${error.stack} ${JSON.stringify(error)} ${String(error["cause"])}`;
        t.assert.equal(shown.includes("p4ss"), false, shown);
      }
      const client = t.pgz.createClient({ ...t.options, password: secret, key: undefined });
      t.assert.equal(`${JSON.stringify(client)} ${String(client)}`.includes("p4ss"), false);
      const error = await t.assert.rejects(client.query("select 1"));
      t.assert.equal(`${String(error)} ${JSON.stringify(error)} ${error.stack}`.includes("p4ss"), false);
      await client.close();
    },
  },
  {
    name: "libpq's ParameterStatus: 200,000 unknown settings cost neither time nor memory",
    only: "plain",
    run: async (t) => {
      const host = new FaultHost(t.faults);
      const { user, password } = await host.info();
      const [plan] = await host.plans([{ scenario: "ParameterStatus flood" }]);
      const { id, port } = plan!;
      const connecting = t.pgz.connect({
        host: "127.0.0.1",
        port,
        user,
        password,
        database: `flood_${id}`,
        sslmode: "disable",
      });
      const client = await inTime(connecting);
      const asked = t.pgz.sql`select n, label from scripted_rows where n > ${0}`;
      t.assert((await client.query(asked)).rows.length > 0, "rows");
      await client.close();
    },
  },
  {
    name: "pg's uncaughtException: nonsense before authentication rejects the call",
    differs: ["sockets"],
    only: "plain",
    run: (t) =>
      refused(
        t,
        ["request 99", "empty request", "length 0", "length 3", "length -1"],
        /^(NOT_POSTGRESQL|PROTOCOL_VIOLATION|UNEXPECTED_MESSAGE|AUTH_METHOD_UNSUPPORTED)$/,
      ),
  },
  {
    name: "postgres.js #1130 and #1097: a call after a reset settles, and so does close()",
    differs: ["sockets"],
    only: "plain",
    run: async (t) => {
      for (const scenario of ["RST in a row", "FIN in a row"]) {
        const host = new FaultHost(t.faults);
        const { user, password } = await host.info();
        const { id, port } = (await host.plans([{ scenario }]))[0]!;
        const client = t.pgz.createClient({
          host: "127.0.0.1",
          port,
          user,
          password,
          database: `reset_${id}`,
          sslmode: "disable",
        });
        const asked = () => client.query(t.pgz.sql`select n, label from scripted_rows where n > ${0}`);
        const settled = await inTime(Promise.allSettled([asked(), asked()]));
        t.assert.equal(settled[0].status, "rejected");
        await inTime(client.close());
      }
    },
  },
  {
    name: "postgres.js: a server that closes its side during a query rejects it, and close() settles",
    differs: ["sockets"],
    only: "plain",
    run: (t) =>
      withClient(t, async (client) => {
        const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
        const mark = newMark(t);
        const sleeping = client.query(`select pg_sleep(60) /* ${mark} */`);
        const ended = t.assert.rejects(sleeping, { code: "57P01" });
        await started(t, mark);
        await terminate(t, rows[0]!.pid);
        await inTime(ended);
        await inTime(client.close());
      }),
  },
  {
    name: "Bun #35116: a statement that raises 0A000 itself does not run again",
    only: "plain",
    run: (t) =>
      withSchema(t, async (client, schema) => {
        await client.simple(`create sequence ${schema}.runs;
          create function ${schema}.fails() returns int4 language plpgsql as
          $$begin perform nextval('${schema}.runs'); raise sqlstate '0A000' using message = 'cached plan must not change result type'; end$$`);
        const failing = () => client.query(`select ${schema}.fails() as n`);
        for (let run = 1; run <= 3; run++) {
          await t.assert.rejects(failing(), { code: "0A000" });
          const { rows } = await client.query(`select last_value::int4 as n from ${schema}.runs`);
          t.assert.deepEqual(rows, [{ n: run }]);
        }
      }),
  },
];
