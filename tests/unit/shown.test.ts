// What console.log shows of the driver's objects: their state and text, no values and no passwords.
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { createClient } from "../../js/api/client.ts";
import { Prepared } from "../../js/api/prepared.ts";
import { createPool } from "../../js/pool/pool.ts";
import { sql } from "../../js/statement/sql.ts";
import { ConnectionError, PgzError, PostgresError } from "../../js/util/errors.ts";
import { encodeParameters } from "../../js/values/parameters.ts";
import { useMemoryServer } from "../support/memory-session.ts";

useMemoryServer();

const place = { host: "h", user: "u", password: "secret-1", sslmode: "disable" as const, startup: { a: "secret-2" } };
const shown = (value: unknown) => inspect(value, { breakLength: Infinity });

test("a query is shown as its text and the number of its values", () => {
  expect(shown(sql`select ${"secret"}, ${1}`)).toBe("Query { text: 'select $1, $2', values: '2 values' }");
  expect(shown(sql.unsafe("select $1", ["secret"]))).toBe("Query { text: 'select $1', values: '1 value' }");
  expect(shown(sql`alter role u password 'secret'`)).not.toContain("secret");
  expect(shown({ nested: [sql`a`] })).toBe("{ nested: [ Query { text: 'a', values: '0 values' } ] }");
});

test("clients, pools and scopes are shown with their state, server and counters", async () => {
  const client = createClient(place);
  expect(shown(client)).toBe(
    "Client { state: 'new', host: 'h', port: 5432, database: 'u', user: 'u', " +
      "transactionStatus: 'I', queries: 0, errors: 0, rows: 0 }",
  );
  const scope = client.scope({ settings: { "a.b": "secret-3" } });
  expect(shown(scope)).toBe("Scope { host: 'h', port: 5432, database: 'u', user: 'u' }");
  await client.close();
  expect(shown(client)).toContain("state: 'closed'");
  const pool = createPool({ ...place, max: 3 });
  expect(shown(pool)).toMatch(/^Pool \{ state: 'open', host: 'h', .*max: 3, total: 0, .*waiting: 0, .*errors: 0 \}$/);
  await pool.close();
});

test("clients, pools, scopes and prepared statements are no values of JSON", async () => {
  const client = createClient(place);
  const pool = createPool(place);
  const owner = { query: () => Promise.reject(), exec: () => Promise.reject() };
  const prepared = new Prepared("select 1", { parameterTypes: [], fields: [] }, owner, () => {});
  for (const own of [client, pool, client.scope({ settings: { "a.b": "1" } }), prepared]) {
    expect(() => sql.json({ own })).toThrow("its .own is an object of the driver (no value of JSON)");
    expect(() => encodeParameters([own], [3802])).toThrow("it is an object of the driver");
  }
  await client.close();
  await pool.close();
});

test("an error is shown with its stack and its facts, without the server's source lines", () => {
  const error = new PostgresError({
    code: "23505",
    message: "taken",
    detail: "d",
    file: "f.c",
    line: "1",
    routine: "r",
  });
  expect(error.file).toBe("f.c");
  expect(shown(error)).toBe(`${error.stack} { code: '23505', detail: 'd' }`);
  const cause = new Error("underneath");
  const outer = new ConnectionError("CONNECT_FAILED", "text", { stage: "tcp", hasNoEffect: true, cause });
  expect(shown(outer)).toMatch(
    /^ConnectionError: text\n[^]* \{\s+code: 'CONNECT_FAILED',\s+retryable: true,\s+stage: 'tcp',/,
  );
  expect(shown(outer)).toContain("cause: Error: underneath");
  const bare = Object.assign(new PgzError("ABORTED", "text"), { stack: undefined });
  expect(shown(bare)).toMatch(/^PgzError: text \{ code: 'ABORTED'/);
});

test("the hook works without an inspect function of the runtime", () => {
  const hook = Symbol.for("nodejs.util.inspect.custom");
  const query = sql`select 1` as unknown as Record<symbol, (...given: unknown[]) => string>;
  expect(query[hook]!(2, {})).toBe('Query {"text":"select 1","values":"0 values"}');
});
