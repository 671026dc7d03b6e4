// What tenants do in scopes of their own: one text for all of them, whose rows are each tenant's by the settings in
// front of it. Each job looks whether anything of that is left on the server connection, which others use next.
import { assert } from "../integration/assert.ts";
import { expectCode } from "./expect-code.ts";
import type { Client, Job, Tenant } from "./tenant.ts";

const scopeOf = (client: Client, { number, schema }: Tenant) =>
  client.scope({ settings: { "app.tenant": number, search_path: schema } });

/** Rows of the tenant's own table, which only its search_path leads to; of a type that only its schema has. */
const itemQuery = ({ sql, random }: Tenant) => {
  const id = 1 + random(200);
  const query = sql`select id, tenant, label, mood, current_setting('app.tenant')::int4 as scope
    from items where id = ${id}`;
  return { id, query };
};

const row = ({ number }: Tenant, id: number) => ({
  id,
  tenant: number,
  label: `item ${id} of ${number}`,
  mood: id % 2 === 0 ? "calm" : `tenant ${number}`,
  scope: number,
});

/** The server connection may be another one each time; whichever it is, no tenant's settings are on it. */
async function expectNothingLeft(client: Client): Promise<void> {
  const { rows } = await client.query<{ tenant: string; path: string }>(
    "select coalesce(current_setting('app.tenant', true), '') as tenant, current_setting('search_path') as path",
  );
  assert.deepEqual(rows, [{ tenant: "", path: '"$user", public' }]);
}

export const scopeJobs: Job[] = [
  {
    name: "calls of a scope made together, some of which fail",
    async run(client, tenant) {
      const scope = scopeOf(client, tenant);
      const items = Array.from({ length: 4 }, () => itemQuery(tenant));
      const controller = new AbortController();
      const aborted = scope.query("select pg_sleep(0.02)", { signal: controller.signal }).catch(() => {});
      setTimeout(() => controller.abort(), tenant.random(25));
      const [, , , ...results] = await Promise.all([
        expectCode("22012", scope.query("select 1 / 0")),
        expectCode("RESPONSE_TOO_LARGE", scope.query("select * from items", { maxRows: 10 })),
        expectNothingLeft(client),
        ...items.map(({ query }) => scope.query(query)),
      ]);
      assert.deepEqual(
        results.map(({ rows }) => rows[0]),
        items.map(({ id }) => row(tenant, id)),
      );
      await aborted;
      await expectNothingLeft(client);
    },
  },
  {
    name: "a scope's batches, streams and cursors",
    async run(client, tenant) {
      const scope = scopeOf(client, tenant);
      const [one, two] = [itemQuery(tenant), itemQuery(tenant)];
      const atomic = await scope.batch([one.query, two.query]);
      assert.deepEqual(
        atomic.map(({ rows }) => rows),
        [[row(tenant, one.id)], [row(tenant, two.id)]],
      );
      const isolated = await scope.batch([one.query, "select 1 / 0", two.query], { atomic: false });
      assert.deepEqual(
        isolated.map((item) =>
          item.status === "fulfilled" ? item.value.rows : (item.reason as { code: string }).code,
        ),
        [[row(tenant, one.id)], "22012", [row(tenant, two.id)]],
      );
      const text = await new Response(await scope.stream(one.query)).text();
      assert.equal(text, `${JSON.stringify(row(tenant, one.id))}\n`);
      for await (const found of scope.rows<{ tenant: number }>("select tenant from items, generate_series(1, 100)")) {
        assert.equal(found.tenant, tenant.number);
        break;
      }
      for await (const batch of scope.cursor<{ tenant: number }>("select tenant from items", 70))
        assert.deepEqual([...new Set(batch.map((found) => found.tenant))], [tenant.number]);
      await expectNothingLeft(client);
    },
  },
  {
    name: "a scope's transaction, and one that fails",
    async run(client, tenant) {
      const scope = scopeOf(client, tenant);
      const { sql, lane } = tenant;
      const add = sql`insert into ledger (lane, note) values (${lane}, ${`scope ${tenant.notes}`})`;
      await expectCode(
        "22012",
        scope.transaction(async (tx) => {
          await tx.exec(add);
          await tx.query("select 1 / 0");
        }),
      );
      await scope.transaction(async (tx) => {
        await tx.exec(add);
        const { id, query } = itemQuery(tenant);
        assert.deepEqual((await tx.last(query)).rows, [row(tenant, id)]);
      });
      tenant.notes++;
      await expectNothingLeft(client);
    },
  },
];
