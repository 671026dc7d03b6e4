// Scopes: settings and roles of concurrent calls, which must not affect each other.
//
// Knows what a call in a scope sees. Must not know how its settings are sent.
import type * as pgz from "../../../js/index.ts";
import { assert } from "../../integration/assert.ts";
import { range, readLines, type Disturbed } from "../../random/plan.ts";
import { alwaysRefused, asClient, endOf, ofSeveral, refused, type Make } from "./call.ts";

type Scoped = pgz.Scope | pgz.Transaction;

const TENANT = "select nullif(current_setting('app.tenant', true), '') as tenant";

/** Waits for all of them, then throws the first error. */
async function together(works: readonly Promise<unknown>[]): Promise<void> {
  const ends = await Promise.all(works.map(endOf));
  const error = ends.find((end) => end !== undefined);
  if (error !== undefined) throw error;
}

type Call = "query" | "exec" | "json" | "batch" | "isolated" | "stream" | "rows" | "describe";

async function seesTenant(on: Scoped | pgz.Client, call: Call, tenant: string | null, options: Disturbed) {
  const expected = [{ tenant }];
  if (call === "query") assert.deepEqual((await on.query(TENANT, options)).rows, expected, call);
  if (call === "exec") assert.equal((await on.exec(TENANT, options)).rowCount, 1);
  if (call === "json")
    assert.deepEqual(JSON.parse(new TextDecoder().decode(await on.json(TENANT, options))), expected, call);
  if (call === "batch")
    for (const { rows } of await on.batch([TENANT, TENANT], options)) assert.deepEqual(rows, expected, call);
  if (call === "isolated")
    for (const item of await (on as pgz.Client).batch([TENANT, TENANT], { ...options, atomic: false })) {
      if (item.status === "rejected") throw item.reason;
      assert.deepEqual(item.value.rows, expected, call);
    }
  if (call === "stream") assert.deepEqual(await readLines(await on.stream(TENANT, options)), expected, call);
  if (call === "rows") for await (const row of on.rows(TENANT, options)) assert.deepEqual([row], expected, call);
  if (call === "describe") assert.deepEqual((await on.describe(TENANT, options)).parameterTypes, []);
}

const CALLS: readonly Call[] = ["query", "query", "exec", "json", "batch", "isolated", "describe"];

/** Several scopes and calls without a scope, concurrently. */
const mixed: Make = (dice, world) => {
  const tenants = range(1, 2 + dice.below(3)).map(() => `t${++world.number}`);
  const hasZone = dice.oneIn(2);
  const calls = Array.from({ length: 3 + dice.below(8) }, () => ({
    tenant: dice.oneIn(4) ? null : dice.pick(tenants),
    call: dice.pick(CALLS),
  }));
  return {
    says: `together in scopes: ${calls.map(({ tenant, call }) => `${call} of ${tenant ?? "none"}`).join()}`,
    kind: "client",
    async run(caller, options) {
      const client = asClient(caller);
      const scopes = new Map(
        tenants.map((tenant) => {
          const settings = { "app.tenant": tenant, ...(hasZone ? { TimeZone: "Asia/Tokyo" } : {}) };
          return [tenant, client.scope({ settings })] as const;
        }),
      );
      await together(
        calls.map(({ tenant, call }) =>
          seesTenant(tenant === null ? client : scopes.get(tenant)!, call, tenant, options),
        ),
      );
    },
  };
};

/** A scope's transaction with all kinds of calls in it, and a nested one that fails. */
const inTransaction: Make = (dice, world) => {
  const tenant = `t${++world.number}`;
  const numbers = world.ledger.take(1);
  const calls = Array.from({ length: 1 + dice.below(4) }, () =>
    dice.pick(["query", "json", "batch", "stream", "rows"] as const),
  );
  const fails = dice.oneIn(2);
  return {
    says: `transaction in a scope: ${calls.join()}${fails ? ", and a savepoint that fails" : ""}`,
    kind: "transaction",
    groups: [numbers],
    async run(caller, options) {
      const { sql, schema } = world;
      const scope = asClient(caller).scope({ settings: { "app.tenant": tenant } });
      await scope.transaction(async (tx) => {
        for (const call of calls) await seesTenant(tx, call, tenant, {});
        const setting = sql`select set_config(${"app.tenant"}::text, ${"other"}::text, true) as v`;
        const inner = tx.transaction(async (inside) => {
          await inside.query(setting);
          await seesTenant(inside, "query", "other", {});
          await inside.query("select 1 / 0");
        });
        if (fails) await refused(inner, "an inner transaction", "22012");
        else await inner.catch(() => {});
        await seesTenant(tx, "query", tenant, {});
        await tx.copyFromRows(sql.identifier(schema, "ledger"), ["n"], [numbers]);
      }, options);
    },
  };
};

const role: Make = (dice, world) => {
  const call = dice.pick(["query", "transaction", "batch"] as const);
  const number = ++world.number;
  return {
    says: `${call} in a scope with its own role`,
    kind: call === "transaction" ? "transaction" : "client",
    async run(caller, options) {
      const client = asClient(caller);
      const scope = client.scope({ role: world.schema, settings: { "app.tenant": number } });
      const text = "select current_setting('role') as role, current_setting('app.tenant') as tenant";
      const expected = [{ role: world.schema, tenant: String(number) }];
      if (call === "query") assert.deepEqual((await scope.query(text, options)).rows, expected);
      if (call === "batch")
        for (const { rows } of await scope.batch([text, text], options)) assert.deepEqual(rows, expected);
      if (call === "transaction")
        await scope.transaction(async (tx) => assert.deepEqual((await tx.query(text)).rows, expected), options);
      const { rows } = await client.query("select current_setting('role') as role", options);
      assert.deepEqual(rows, [{ role: "none" }], "the role behind a scope");
    },
  };
};

/** If the settings fail, the statement does not run. */
const settingsFail: Make = (dice, world) => {
  const numbers = world.ledger.take(1);
  const [code, given] = dice.pick([
    ["22023", { role: "nobody_is_called_so" }],
    ["22023", { settings: { TimeZone: "Nowhere/At all" } }],
  ] as const);
  const call = dice.pick(["exec", "batch", "transaction"] as const);
  return {
    says: `${call} in a scope whose settings fail with ${code}`,
    kind: call === "transaction" ? "transaction" : "client",
    groups: [numbers],
    fails: code,
    async run(caller, options) {
      const { sql, schema } = world;
      const scope = asClient(caller).scope(given);
      const query = sql`insert into ${sql.identifier(schema, "ledger")} select unnest(${numbers}::int4[])`;
      if (call === "exec") await scope.exec(query, options);
      if (call === "batch") await scope.batch([query], options);
      if (call === "transaction") await scope.transaction((tx) => tx.exec(query), options);
    },
  };
};

/** An error of one scope's call, beside another scope's call. */
const failsBeside: Make = (dice, world) => {
  const tenants = [`t${++world.number}`, `t${++world.number}`] as const;
  const isFirst = dice.oneIn(2);
  return {
    says: "a call in a scope that fails beside one that does not",
    kind: "client",
    async run(caller, options) {
      const client = asClient(caller);
      const [one, other] = tenants.map((tenant) => client.scope({ settings: { "app.tenant": tenant } }));
      const failing = () => refused(one!.query("select 1 / 0", options), "a division", "22012");
      const first = isFirst ? failing() : undefined;
      const works = [seesTenant(other!, "query", tenants[1], options), seesTenant(client, "query", null, options)];
      await together([...(first ? [first] : []), ...works, ...(isFirst ? [] : [failing()])]);
      await seesTenant(client, "query", null, options);
    },
  };
};

const WRONG = [
  ["UNKNOWN_OPTION", { settings: { "app.tenant": 1 }, rolle: "x" }],
  ["INVALID_OPTION", {}],
  ["INVALID_OPTION", { role: "none" }],
  ["INVALID_OPTION", { settings: { "app.tenant": null } }],
  ["INVALID_OPTION", { settings: { client_encoding: "LATIN1" } }],
] as const;

/** What cannot make a scope or run in one is refused, and nothing of it is sent. */
const misused: Make = () => ({
  says: "what a scope refuses",
  kind: "client",
  async run(caller, options) {
    for (const [code, given] of WRONG) {
      const makes = async () => asClient(caller).scope(given as pgz.ScopeOptions);
      await alwaysRefused(makes(), JSON.stringify(given), code);
    }
    const scope = asClient(caller).scope({ settings: { "app.tenant": 1 } });
    const texts = ["begin", "commit", "rollback", "savepoint a", "set timezone = 'UTC'", "reset all", "listen a"];
    for (const text of texts) await alwaysRefused(scope.exec(text, options), text, "NOT_IN_SCOPE");
    await alwaysRefused(scope.simple("select 1"), "simple", "NOT_IN_SCOPE");
    await alwaysRefused(scope.copyFrom("copy ledger from stdin", ["1\n"]), "copyFrom", "NOT_IN_SCOPE");
    await alwaysRefused(scope.copyTo("copy ledger to stdout"), "copyTo", "NOT_IN_SCOPE");
  },
});

/** An atomic batch, and a non-atomic one, whose writes are reported one by one. */
const batches: Make = (dice, world) => {
  const tenant = `t${++world.number}`;
  const numbers = world.ledger.take(2 + dice.below(4));
  const atomic = dice.oneIn(2);
  return {
    says: `batch of ${numbers.length} in a scope${atomic ? "" : ", not atomic"}`,
    kind: "client",
    groups: atomic ? [numbers] : numbers.map((number) => [number]),
    settles: !atomic,
    async run(caller, options) {
      const { ledger, sql, schema } = world;
      const scope = asClient(caller).scope({ settings: { "app.tenant": tenant } });
      const queries = numbers.map(
        (number) =>
          sql`insert into ${sql.identifier(schema, "ledger")} values (${number}::int4)
            returning current_setting('app.tenant') as tenant`,
      );
      if (atomic) {
        for (const { rows } of await scope.batch(queries, options)) assert.deepEqual(rows, [{ tenant }]);
        return;
      }
      const items = await scope.batch(queries, { ...options, atomic: false });
      items.forEach((item, at) => {
        if (item.status === "fulfilled") ledger.settle([numbers[at]!], "stored");
      });
      for (const item of items) {
        if (item.status === "rejected") throw ofSeveral(item.reason);
        assert.deepEqual(item.value.rows, [{ tenant }]);
      }
    },
  };
};

/** Calls for every caller that can make a scope. */
export const scopes: readonly Make[] = [
  ...[mixed, mixed, mixed, inTransaction, inTransaction, role, settingsFail, failsBeside, misused, batches],
];
