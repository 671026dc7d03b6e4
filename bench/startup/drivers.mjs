// Each library's first call in a process: `(module, { url, ca })` -> the rows of the first query. This file imports
// nothing, because runtimes and bundlers name the modules differently. The connection stays open, because closing is
// not measured.
//
// The query reads one row by its key, with a parameter; the login uses a salted password (SCRAM). `ca`: TLS that checks
// the server's certificate.
const ID = 7;

/** The row that the query must return. */
export const ROW = { id: ID, label: "row 7" };

export const drivers = {
  "pgz-edge": async ({ createClient, sql }, { url, ca }) => {
    const client = createClient(url, ca ? { ca, sslmode: "verify-full" } : { sslmode: "disable" });
    return (await client.query(sql`select id, label from startup where id = ${ID}`)).rows;
  },

  async "postgres.js"({ default: postgres }, { url, ca }) {
    const sql = postgres(url, { max: 1, fetch_types: false, ...(ca && { ssl: { ca } }) });
    const rows = await sql`select id, label from startup where id = ${ID}`;
    return rows.map((row) => ({ ...row }));
  },

  async pg({ default: pg }, { url, ca }) {
    const client = new pg.Client({ connectionString: url, ...(ca && { ssl: { ca } }) });
    await client.connect();
    return (await client.query("select id, label from startup where id = $1", [ID])).rows;
  },

  /** The runtime alone. */
  empty: async () => [ROW],
};
