// The driver's build for the runtime that this is, and the one place that knows how its batches are asked for.
const build = globalThis.Bun ? "bun" : globalThis.Deno ? "deno" : "node";

export async function connectPgz(url, options) {
  const { connect } = await import(`../../dist/${build}.js`);
  return connect(url, options);
}

export async function createPgzPool(url, options) {
  const { createPool } = await import(`../../dist/${build}.js`);
  return createPool(url, options);
}

export async function sqlTag() {
  return (await import(`../../dist/${build}.js`)).sql;
}

/** A batch's results in order. `atomic`: one Sync for all. `form`: "count", "rows" or "ndjson". */
export async function runBatch(client, queries, { atomic, form = "rows" }) {
  const results = await client.batch(queries, { atomic, results: form });
  return atomic ? results : results.map(fulfilled);
}

function fulfilled({ value, reason }) {
  if (reason) throw reason;
  return value;
}
