// Connecting: TLS modes, authentication methods, and every way in which it can fail. No error may show a secret.
import type { LoginAttempt, Options } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { unique } from "./helpers.ts";

const SECRET = "hunter2-kLs9";
/** What PostgreSQL 16 stores for `weak-secret` with scram_iterations = 1000. Older versions have no such setting. */
const WEAK =
  "SCRAM-SHA-256$1000:cGd6LWVkZ2Ugd2VhayAwMQ==" +
  "$qaX0ett/SqmQ4EqgBKEvOPLePa8jja93TGd7tQqODn8=:mol9J8W+AywsHpimAD1pcCbtwAKwrMCWDkYz72exlpk=";

/**
 * Returns the error of connecting with this URL, or with these options beside the case's. Fails if the error shows the
 * password, or if connecting hangs.
 */
async function refused(
  t: Context,
  given: object | string,
  properties: Record<string, unknown>,
): Promise<Error & Record<string, unknown>> {
  const error = await t.assert.rejects(
    Promise.resolve().then(() => t.pgz.connect(typeof given === "string" ? given : { ...t.options, ...given })),
    properties,
  );
  t.assert(error instanceof t.pgz.PgzError, `a typed error, not ${error}`);
  const cause = error.cause as Error | undefined;
  const shown = [
    error.message,
    error.stack,
    String(error),
    JSON.stringify(error),
    String(cause),
    cause?.stack,
    cause?.message,
  ].join("\n");
  // The server names the user; with DATABASE_URL a password may be the user's name.
  const secrets = [SECRET, t.options.password].filter((secret) => !t.options.user.includes(secret));
  for (const secret of secrets) t.assert(!shown.includes(secret), "an error shows the password");
  return error;
}

const isEncrypted = async (t: Context, options?: Options) => {
  const client = await t.client(options);
  return (await client.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()")).rows[0]!["ssl"];
};

/** Checks that these options connect, as their user. */
const logsIn = async (t: Context, options: Options) => {
  const client = await t.client(options);
  await t.assert.rows(client.query("select current_user::text as u"), [{ u: options.user ?? t.options.user }]);
};

export const connecting: Cases = {
  async "the session is encrypted exactly when TLS was asked for"(t) {
    t.assert.equal(await isEncrypted(t), t.tls);
  },
  "sslmode prefer uses TLS where the server offers it": {
    only: "tls",
    run: async (t) => t.assert.equal(await isEncrypted(t, { sslmode: "prefer" }), true),
  },
  "sslmode allow stays plain where the server permits it": {
    only: "plain",
    run: async (t) => t.assert.equal(await isEncrypted(t, { sslmode: "allow" }), false),
  },
  "direct TLS works where the runtime can send ALPN, and is refused before a byte elsewhere": {
    only: "tls",
    async run(t) {
      const direct = { sslnegotiation: "direct" } as const;
      if (t.runtime === "workerd") return void (await refused(t, direct, { code: "UNSUPPORTED_ON_RUNTIME" }));
      if (t.server.major < 17) return void (await refused(t, direct, {}));
      t.assert.equal(await isEncrypted(t, direct), true);
    },
  },
  "a certificate that no trusted CA has signed is refused by verify-full, and no query is sent": {
    only: "tls",
    async run(t) {
      // On Workers the CA comes from the process, so no server here is untrusted; tests/faults has one.
      if (t.runtime === "workerd")
        return void (await refused(t, { ca: t.server.caPem }, { code: "UNSUPPORTED_ON_RUNTIME" }));
      const error = await refused(t, { ca: undefined }, { code: "TLS_FAILED", stage: "tls", retryable: false });
      t.assert(error instanceof t.pgz.ConnectionError, "a ConnectionError");
    },
  },
  "a CA that cannot be read is a typed error": {
    only: "tls",
    async run(t) {
      const ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
      const properties = t.runtime === "workerd" ? { code: "UNSUPPORTED_ON_RUNTIME" } : {};
      await refused(t, { ca }, properties);
    },
  },
  // CVE-2018-10936
  "a certificate for another name is refused by verify-full and accepted by verify-ca": {
    only: "tls",
    async run(t) {
      const other = { servername: "other.example" };
      if (t.runtime === "workerd") return void (await refused(t, other, { code: "UNSUPPORTED_ON_RUNTIME" }));
      await refused(t, other, { code: "TLS_FAILED", retryable: false });
      await logsIn(t, { ...other, sslmode: "verify-ca" });
    },
  },
  async "a wrong password is an AuthenticationError"(t) {
    const error = await refused(t, { password: SECRET }, { code: "28P01" });
    t.assert(error instanceof t.pgz.AuthenticationError, "an AuthenticationError");
    await refused(t, { password: undefined }, { code: "PASSWORD_MISSING" });
  },
  async "a wrong database and a wrong user are the server's errors"(t) {
    await refused(t, { database: "no_such_database" }, { code: "3D000" });
    await refused(t, { user: "no_such_user", password: SECRET }, { code: "28P01" });
  },
  async "a wrong port and a wrong host are ConnectionErrors"(t) {
    const port = await refused(t, { port: 1 }, { code: "CONNECT_FAILED", retryable: true });
    t.assert(port instanceof t.pgz.ConnectionError, "a ConnectionError");
    t.assert(port.message.includes(`connect to ${t.options.host}:1: `), port.message);
    // Whether the name server answers depends on the machine, and workerd does not say what has failed.
    const name = await refused(t, { host: "no-such-host.invalid" }, { code: "CONNECT_FAILED", hasNoEffect: true });
    t.assert.equal(
      name["retryable"],
      name["stage"] === "tcp" || /EAI_AGAIN|temporary failure|try again/i.test(name.message),
      name.message,
    );
  },
  "a host that can be no name is an error of the name, which trying again does not help": {
    differs: ["sockets"],
    async run(t) {
      const error = { code: "CONNECT_FAILED", stage: "dns", retryable: false, hasNoEffect: true };
      // workerd looks for the address of the last one, and does not say what has failed.
      const hosts = ["my_host!", "${HOST}", ...(t.runtime === "workerd" ? [] : ["a..b"])];
      for (const host of hosts)
        for (const sslmode of ["disable", "require"]) await refused(t, { host, sslmode, ca: undefined }, error);
    },
  },
  async "wrong URLs and options are UsageErrors that name the option"(t) {
    const { host, port } = t.options;
    for (const [config, code, named] of [
      ["mysql://u@h/d", "INVALID_URL", /postgres/],
      [`postgres://u:${SECRET}@[::1/d`, "INVALID_URL", /URL/],
      [`postgres://u:${SECRET}@${host}:${port}/d?sslmode=sometimes`, "INVALID_SSLMODE", /verify-full/],
      [`postgres://u:${SECRET}@${host}/d?ssl_mode=require`, "UNKNOWN_OPTION", /sslmode/],
      [{ sslMode: "require" }, "UNKNOWN_OPTION", /sslmode/],
      [{ sslmode: "on" }, "INVALID_SSLMODE", /verify-full/],
      [{ port: 70000 }, "INVALID_OPTION", /port/],
      [{ maxRows: -1 }, "INVALID_OPTION", /maxRows/],
      [{ user: "a\0b" }, "INVALID_OPTION", /user/],
      [{ startup: { "x\0y": "1" } }, "INVALID_OPTION", /startup/],
    ] as const) {
      const error = await refused(t, config, { code });
      t.assert(error instanceof t.pgz.UsageError, `${code} is a UsageError`);
      t.assert.match(error.message, named);
    }
  },
  async "the next host is tried when one refuses, and a cancel goes to the host that accepted"(t) {
    const { host, port } = t.options;
    const tried: unknown[] = [];
    const options: Options = {
      host: `${host},${host}`,
      port: `1,${port}`,
      observer: { onConnect: ({ port, error }) => void tried.push([port, error?.code]) },
    };
    const client = await t.client(options);
    await t.assert.code(client.query("select pg_sleep(30)", { timeout: 200 }), "QUERY_TIMEOUT");
    await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
    t.assert.deepEqual(tried, [
      [1, "CONNECT_FAILED"],
      [port, undefined],
    ]);
    const { user, password, database } = t.options;
    await using other = await t.pgz.connect(
      `postgres://${user}:${password}@${host}:1,${host}:${port}/${database}?target_session_attrs=primary`,
      { ...(t.options.ca !== undefined && { ca: t.options.ca }), sslmode: t.options.sslmode },
    );
    await t.assert.rows(other.query("select 1 as n"), [{ n: 1 }]);
    const error = await refused(t, { ...options, port: "1,2" }, { code: "CONNECT_FAILED", retryable: true });
    t.assert.deepEqual(
      (error["hosts"] as { port: number }[]).map(({ port }) => port),
      [1, 2],
    );
  },
  "target_session_attrs is checked against a real server": {
    ownServer: true,
    async run(t) {
      const takes = (targetSessionAttrs: Options["targetSessionAttrs"], options = "") =>
        logsIn(t, { targetSessionAttrs, options });
      const readOnly = "-c default_transaction_read_only=on";
      for (const wanted of ["any", "primary", "read-write", "prefer-standby"] as const) await takes(wanted);
      await takes("read-only", readOnly);
      await takes("primary", readOnly);
      for (const [targetSessionAttrs, options] of [
        ["standby", ""],
        ["read-only", ""],
        ["read-write", readOnly],
      ] as const)
        await refused(t, { targetSessionAttrs, options }, { code: "TARGET_SESSION_ATTRS", retryable: true });
    },
  },
  "a Unix socket is plain whatever sslmode says, and is refused on Workers": {
    ownServer: true,
    only: "plain",
    async run(t) {
      const { port, database, user, password } = t.options;
      const host = t.server.socketFolder!;
      const options = { host, port, database, user, password, sslmode: "require" as const };
      if (t.runtime === "workerd") return void (await refused(t, options, { code: "UNSUPPORTED_ON_RUNTIME" }));
      for (const input of [
        options,
        `postgres://${user}@${encodeURIComponent(host)}:${port}/${database}`,
        `postgres://${user}@/${database}?host=${host}&port=${port}`,
        `host='${host}' port=${port} user=${user} dbname=${database}`,
      ]) {
        const client = await t.pgz.connect(input);
        const { rows } = await client.query("select inet_client_addr() as a, repeat('x', 300000) as t");
        t.assert.deepEqual(rows, [{ a: null, t: "x".repeat(300_000) }]);
        await t.assert.code(client.query("select pg_sleep(30)", { timeout: 200 }), "QUERY_TIMEOUT");
        await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
        await client.close();
      }
      await refused(t, { ...options, host: "/nowhere" }, { code: "CONNECT_FAILED", retryable: true });
    },
  },
  // CVE-2025-49146, CVE-2026-54291
  "channel binding works where the runtime shows the server's certificate, and only with SCRAM": {
    both: true,
    ownServer: true,
    async run(t) {
      const bound = { ...t.options, channelBinding: "require" as const };
      if (t.runtime === "workerd" || !t.tls) {
        const error = await refused(t, bound, { code: "CHANNEL_BINDING_UNSUPPORTED" });
        return t.assert.match(error.message, /set channel_binding=prefer\.$/);
      }
      const { host, port, user, password, database } = t.options;
      for (const input of [
        bound,
        bound, // its login is predicted
        { ...bound, requireAuth: "scram-sha-256" },
        { ...bound, sslmode: "prefer" as const, ca: undefined },
        { ...bound, scramMaxIterations: 1_000_000 }, // the core derives the key
        `postgres://${user}:${password}@${host}:${port}/${database}?sslmode=require&channel_binding=require`,
      ]) {
        const client = await t.pgz.connect(input);
        await t.assert.rows(client.query("select repeat('x', 300000) as t"), [{ t: "x".repeat(300_000) }]);
        await client.close();
      }
      for (const role of ["app_md5", "app_clear", "app_trust"])
        await refused(
          t,
          { ...bound, user: role, password: `${role}-secret` },
          { code: "AUTH_CHANNEL_BINDING_MISSING", name: "AuthenticationError", retryable: false },
        );
      await logsIn(t, { channelBinding: "disable" });
    },
  },
  "MD5 works, and requireAuth forbids it": {
    ownServer: true,
    async run(t) {
      const md5 = { user: "app_md5", password: "app_md5-secret" };
      await logsIn(t, md5);
      await refused(t, { ...md5, requireAuth: "scram-sha-256" }, { code: "AUTH_METHOD_REFUSED" });
    },
  },
  "SCRAM with few iterations works over verified TLS, and elsewhere only when an option allows it": {
    both: true,
    ownServer: true,
    async run(t) {
      const user = unique("weak");
      const weak = { user, password: "weak-secret" };
      const lets = (options: Options) => logsIn(t, { ...weak, ...options });
      const facts = { code: "SCRAM_ITERATIONS_TOO_FEW", name: "AuthenticationError", retryable: false };
      const refuses = async (options: Options) => {
        const error = await refused(t, { ...weak, ...options }, facts);
        t.assert.match(error.message, /sslmode=verify-full.*scramMinIterations.*\(1000 iterations\)$/);
      };
      await t.side(
        t.server.major >= 16
          ? `set scram_iterations = 1000; create role ${user} login password 'weak-secret'; reset scram_iterations`
          : `create role ${user} login password '${WEAK}'`,
      );
      t.after(() => t.side(`drop role ${user}`));
      if (t.tls) {
        await lets({});
        await lets({ scramMinIterations: 10_000 });
        // Workers check the certificate whatever sslmode says.
        if (t.runtime !== "workerd") await refuses({ sslmode: "require", ca: undefined });
      } else {
        await refuses({});
        await refuses({ scramMaxIterations: 1_000_000 }); // the core derives the key
        await refuses({ scramMinIterations: 1001 });
        await lets({ scramMinIterations: 1000 });
        await lets({ scramMinIterations: 1000 }); // predicted, with a cached key
        await refuses({});
        await lets({ localLink: true });
      }
    },
  },
  "a cleartext password is sent over verified TLS, and elsewhere only when an option allows it": {
    both: true,
    ownServer: true,
    async run(t) {
      const clear = { user: "app_clear", password: "app_clear-secret" };
      const lets = (options: Options) => logsIn(t, { ...clear, ...options });
      const facts = { code: "AUTH_CLEARTEXT_REFUSED", name: "AuthenticationError", retryable: false };
      const refuses = async (options: Options) => {
        const error = await refused(t, { ...clear, ...options }, facts);
        t.assert.match(error.message, /sslmode=verify-full/);
      };
      await lets({ allowCleartextPassword: true });
      if (!t.tls) {
        await refuses({});
        await refuses({ requireAuth: "password" });
        return;
      }
      await lets({});
      // A Worker verifies the certificate in every mode.
      if (t.runtime === "workerd") return lets({ sslmode: "require" });
      await lets({ sslmode: "verify-ca" });
      for (const sslmode of ["require", "prefer"] as const) {
        const unverified: Options = { sslmode, ca: undefined };
        await refuses(unverified);
        await refuses({ ...unverified, requireAuth: "!md5" });
        await lets({ ...unverified, requireAuth: "password" });
        await lets({ ...unverified, allowCleartextPassword: true });
      }
    },
  },
  async "a password function is called for each connect, and its failure is reported"(t) {
    const asked: LoginAttempt[] = [];
    const config = {
      ...t.options,
      password: async (attempt: LoginAttempt) => (asked.push(attempt), t.options.password!),
    };
    for (let connection = 0; connection < 2; connection++) await (await t.pgz.connect(config)).close();
    const { host, port, user, database } = t.options;
    t.assert.deepEqual(asked, Array(2).fill({ host, port, user, database }));
    const cause = new Error("vault is sealed");
    await t.assert.rejects(t.pgz.connect({ ...t.options, password: () => Promise.reject(cause) }), {
      name: "AuthenticationError",
      code: "PASSWORD_FUNCTION_FAILED",
      retryable: true,
      cause,
    });
  },
  async "a connect that is aborted rejects at once"(t) {
    await t.assert.code(t.pgz.connect({ ...t.options, signal: AbortSignal.abort() }), "ABORTED");
  },
  async "a closed client refuses calls, and close may be called twice"(t) {
    const client = await t.pgz.connect({ ...t.options });
    await client.close();
    await client.close();
    await t.assert.code(client.query("select 1"), "CLIENT_CLOSED");
    await t.assert.code(client.listen("closed"), "CLIENT_CLOSED");
    await t.pgz.createClient(t.options).close(); // never connected
  },
  "a client whose first connect failed tries again with its next call": {
    ownServer: true,
    async run(t) {
      const database = unique("later");
      const client = t.pgz.createClient({ ...t.options, database });
      for (let time = 0; time < 2; time++) await t.assert.code(client.query("select 1 as a"), "3D000");
      t.assert.equal(client.stats().state, "new");
      await t.side(`create database ${database}`);
      t.after(() => t.side(`drop database ${database} with (force)`));
      t.after(() => client.close());
      await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
    },
  },
};
