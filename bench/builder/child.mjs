// One library as compiler of statements: `child.mjs <library>`. Each request runs one case for some milliseconds and
// returns the number of operations and the last result; `check` returns the result of one operation.
//
// A library is `() -> { shape: (value) -> { text, values } }`. A shape with a `prepare` gets the results of `prepare`,
// which is not timed.
import process from "node:process";
import { serve, timed } from "../lib/child.mjs";

const BLOCK = 1_000;

const libraries = {
  async "pgz-edge"() {
    const { sql } = await import("../../dist/node.js");
    return {
      simple: () => sql`SELECT * FROM users`,
      parametrized: (id) => sql`SELECT * FROM users WHERE id = ${id}`,
      fragments: () => sql`${sql`SELECT *`} ${sql`FROM users`}`,
      fragments_params: (id) => sql`${sql`SELECT * FROM users`} ${sql`WHERE id = ${id}`}`,
    };
  },

  /** The same with new templates: a block of templates is made beforehand, and each is used once. */
  async "pgz-edge cold"() {
    const { sql } = await import("../../dist/node.js");
    const fresh = (...strings) => Object.assign([...strings], { raw: strings });
    const block = (make) => Array.from({ length: BLOCK }, make);
    return {
      simple: { prepare: () => block(() => fresh("SELECT * FROM users")), run: (template) => sql(template) },
      parametrized: {
        prepare: () => block(() => fresh("SELECT * FROM users WHERE id = ", "")),
        run: (template, id) => sql(template, id),
      },
      fragments: {
        prepare: () => block(() => [fresh("", " ", ""), fresh("SELECT *"), fresh("FROM users")]),
        run: ([all, head, tail]) => sql(all, sql(head), sql(tail)),
      },
      fragments_params: {
        prepare: () => block(() => [fresh("", " ", ""), fresh("SELECT * FROM users"), fresh("WHERE id = ", "")]),
        run: ([all, head, tail], id) => sql(all, sql(head), sql(tail, id)),
      },
    };
  },

  async "kysely raw"() {
    const { sql } = await import("kysely");
    const db = await kysely();
    const compiled = (raw) => {
      const { sql: text, parameters: values } = raw.compile(db);
      return { text, values };
    };
    return {
      simple: () => compiled(sql`SELECT * FROM users`),
      parametrized: (id) => compiled(sql`SELECT * FROM users WHERE id = ${id}`),
      fragments: () => compiled(sql`${sql`SELECT *`} ${sql`FROM users`}`),
      fragments_params: (id) => compiled(sql`${sql`SELECT * FROM users`} ${sql`WHERE id = ${id}`}`),
    };
  },

  async "kysely builder"() {
    const db = await kysely();
    const compiled = (builder) => {
      const { sql: text, parameters: values } = builder.compile();
      return { text, values };
    };
    const simple = () => compiled(db.selectFrom("users").selectAll());
    const parametrized = (id) => compiled(db.selectFrom("users").selectAll().where("id", "=", id));
    return { simple, parametrized, fragments: simple, fragments_params: parametrized };
  },

  async "postgres.js"() {
    const { default: postgres } = await import("postgres");
    // the function that its connection calls; the package does not export it
    const { stringify } = await import("../node_modules/postgres/src/types.js");
    const sql = postgres({ host: "127.0.0.1", max: 1 });
    const compiled = (query) => {
      const values = [];
      return { text: stringify(query, query.strings[0], query.args[0], values, [], sql.options), values };
    };
    return {
      simple: () => compiled(sql`SELECT * FROM users`),
      parametrized: (id) => compiled(sql`SELECT * FROM users WHERE id = ${id}`),
      fragments: () => compiled(sql`${sql`SELECT *`} ${sql`FROM users`}`),
      fragments_params: (id) => compiled(sql`${sql`SELECT * FROM users`} ${sql`WHERE id = ${id}`}`),
    };
  },

  async slonik() {
    const { createSqlTag } = await import("slonik");
    const sql = createSqlTag();
    const made = ({ sql: text, values }) => ({ text, values });
    return {
      simple: () => made(sql.unsafe`SELECT * FROM users`),
      parametrized: (id) => made(sql.unsafe`SELECT * FROM users WHERE id = ${id}`),
      fragments: () => made(sql.unsafe`${sql.fragment`SELECT *`} ${sql.fragment`FROM users`}`),
      fragments_params: (id) =>
        made(sql.unsafe`${sql.fragment`SELECT * FROM users`} ${sql.fragment`WHERE id = ${id}`}`),
    };
  },
};

async function kysely() {
  const { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } = await import("kysely");
  return new Kysely({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
}

const shapes = await libraries[process.argv[2]]();

serve(async ({ shape, ms, check }) => {
  const { prepare = () => undefined, run } =
    typeof shapes[shape] === "function" ? { run: shapes[shape] } : shapes[shape];
  if (check) return plain(prepare() ? run(prepare()[0], 7) : run(7));
  let operations = 0;
  let inside = 0;
  let last;
  const { cpu_ms } = await timed(async () => {
    for (const end = performance.now() + ms; performance.now() < end; operations += BLOCK) {
      const templates = prepare();
      const begun = performance.now();
      last = templates ? used(run, templates) : repeated(run);
      inside += performance.now() - begun;
    }
  });
  return { wall_ms: inside, cpu_ms, operations, last: plain(last) };
});

/** Reads no clock within a block. It reads both members, because ours computes them on access. */
function repeated(run) {
  let length = 0;
  let last;
  for (let index = 0; index < BLOCK; index++) {
    last = run(7);
    length += last.text.length + last.values.length;
  }
  if (length === 0) throw new Error("no text came out");
  return last;
}

function used(run, templates) {
  let length = 0;
  let last;
  for (const template of templates) {
    last = run(template, 7);
    length += last.text.length + last.values.length;
  }
  if (length === 0) throw new Error("no text came out");
  return last;
}

/** slonik names its parameters `$slonik_1`. */
const plain = ({ text, values }) => ({ text: text.replaceAll("$slonik_", "$"), values });
