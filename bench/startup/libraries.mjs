// One library each as the first call of a process needs it: `(module, { url, ca })` -> the rows of the first query. It
// imports nothing, because runtimes and bundlers name the modules differently. The connection stays open: what an end
// costs is not measured.
//
// One row by its key, a parameter, a password that is salted. `ca`: over TLS that checks the server's certificate.
const ID = 7;

/** What it must give. */
export const ROW = { id: ID, label: "row 7" };

export const libraries = {
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
