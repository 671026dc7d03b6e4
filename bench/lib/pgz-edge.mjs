// Loads the driver's build for the current runtime. This is the only file that knows how to run a batch with it.
const build = globalThis.Bun ? "bun" : globalThis.Deno ? "deno" : "node";

export async function connectPgz(url, options) {
  const { connect } = await import(`../../dist/${build}.js`);
  return connect(url, options);
}

export async function createPgzPool(url, options) {
  const { createPool } = await import(`../../dist/${build}.js`);
  return createPool(url, options);
}

export const exportsOfPgz = () => import(`../../dist/${build}.js`);

export async function sqlTag() {
  return (await exportsOfPgz()).sql;
}

/** Returns a batch's results in order. `atomic`: one Sync for all. `form`: "count", "rows" or "ndjson". */
export async function runBatch(client, queries, { atomic, form = "rows" }) {
  const results = await client.batch(queries, { atomic, results: form });
  return atomic ? results : results.map(fulfilled);
}

function fulfilled({ value, reason }) {
  if (reason) throw reason;
  return value;
}
