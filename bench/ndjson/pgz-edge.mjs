// pgz-edge: the driver's stream of bytes, from the build for the current runtime.
const build = globalThis.Bun ? "bun" : globalThis.Deno ? "deno" : "node";

export async function open(url) {
  const { connect } = await import(`../../dist/${build}.js`);
  const client = await connect(url);
  const run = async (sql, sink, format) => {
    for await (const chunk of await client.stream(sql, { format })) sink(chunk);
  };
  return { run, backend: client.query("select pg_backend_pid() as pid").then(({ rows }) => rows[0].pid) };
}
