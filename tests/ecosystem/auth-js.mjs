// Auth.js over a pool: a magic link by mail. User and token are created, the link signs in once, and the session is
// read and ended. Runs in Node by libraries.mjs and in workerd by tests/workerd.
import assert from "node:assert/strict";

/** As on Auth.js' page about its adapter. */
const TABLES = `
  create table verification_token (identifier text, expires timestamptz, token text, primary key (identifier, token));
  create table accounts (id serial primary key, "userId" integer, type text, provider text, "providerAccountId" text,
    refresh_token text, access_token text, expires_at bigint, id_token text, scope text, session_state text,
    token_type text);
  create table sessions (id serial primary key, "userId" integer, expires timestamptz, "sessionToken" text);
  create table users (id serial primary key, name text, email text, "emailVerified" timestamptz, image text);`;

/** The pool's `search_path` is `schema`, which this function creates. */
export async function magicLink(pool, schema, Auth, PostgresAdapter) {
  await pool.query(`create schema ${schema}`);
  await pool.query(TABLES);
  const failures = [];
  let link;
  const email = {
    id: "email",
    type: "email",
    name: "Email",
    from: "auth@example.com",
    maxAge: 3600,
    options: {},
    sendVerificationRequest: async ({ url }) => void (link = url),
  };
  const config = {
    adapter: PostgresAdapter(pool),
    providers: [email],
    secret: "a secret",
    trustHost: true,
    basePath: "/auth",
    logger: { error: (error) => void failures.push(error.type), warn: () => {}, debug: () => {} },
  };
  let cookies = {};
  const ask = async (target, body) => {
    const cookie = Object.entries(cookies).map(([name, value]) => `${name}=${value}`);
    const request = { headers: { cookie: cookie.join("; ") } };
    if (body) Object.assign(request, { method: "POST", body: new URLSearchParams(body) });
    const response = await Auth(new Request(new URL(target, "http://localhost:3000"), request), config);
    for (const set of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set);
      cookies[name] = value;
    }
    return response;
  };
  const { csrfToken } = await (await ask("/auth/csrf")).json();
  await ask("/auth/signin/email", { email: "ann@example.com", csrfToken });
  assert.equal((await ask(link)).status, 302);
  const session = await (await ask("/auth/session")).json();
  assert.equal(session.user.email, "ann@example.com");
  const { rows } = await pool.query('select email, "emailVerified" is not null as verified from users');
  assert.deepEqual(rows, [{ email: "ann@example.com", verified: true }]);
  await ask("/auth/signout", { csrfToken });
  assert.equal((await pool.query("select * from sessions")).rowCount, 0);
  // The link was already used.
  cookies = {};
  assert.match((await ask(link)).headers.get("location"), /error/);
  assert.deepEqual(failures, ["Verification"]);
}
