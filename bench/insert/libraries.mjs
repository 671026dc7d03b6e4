// The ways to store rows: `open(library, url)`, where the library is "pgz-edge" and the name of the way.
import { typedRow } from "../lib/data.mjs";
import { connectPgz, exportsOfPgz, runBatch } from "../lib/pgz-edge.mjs";

const COLUMNS = ["id", "name", "score"];
const TYPES = { id: "int4", name: "text", score: "float8" };

const ways = {
  unnest:
    (client, { sql, unnest }) =>
    (rows) =>
      client.exec(sql`insert into bench_insert (id, name, score) ${unnest(rows, TYPES)}`),
  values:
    (client, { sql }) =>
    (rows) =>
      client.exec(sql`insert into bench_insert ${sql.values(rows)}`),
  batch:
    (client, { sql }) =>
    (rows) =>
      runBatch(
        client,
        rows.map((row) => sql`insert into bench_insert ${sql.values(row)}`),
        { atomic: true, form: "count" },
      ),
  copy: (client) => (rows) => client.copyFromRows("bench_insert", COLUMNS, rows),
};

export async function open(library, url) {
  const client = await connectPgz(url);
  const store = ways[library.split(" ")[1]](client, await exportsOfPgz());
  let made = [];
  return {
    clean: false,
    /** Makes the rows before anything is measured. */
    prepare({ rows }) {
      if (made.length !== rows)
        made = Array.from({ length: rows }, (_, index) => {
          const [id, name, score] = typedRow(index);
          return { id, name, score };
        });
      return made;
    },
    async run({ size }, rows) {
      for (let from = 0; from < rows.length; from += size) await store(rows.slice(from, from + size));
    },
  };
}
