// Bun.sql: all rows at once, its only form. It returns int4[] as Int32Array, which JSON.stringify would print as an
// object.
const plain = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);

export async function open(url) {
  const sql = new globalThis.Bun.SQL(url, { max: 1 });
  const run = async (text, sink) => {
    const rows = await sql.unsafe(text);
    const views = ArrayBuffer.isView(Object.values(rows[0] ?? {}).find((value) => typeof value === "object"));
    sink(Buffer.from(rows.map((row) => `${JSON.stringify(row, views ? plain : undefined)}\n`).join("")));
  };
  return { run, backend: sql.unsafe("select pg_backend_pid() as pid").then(([{ pid }]) => pid) };
}
