// Opens the two peers that most cases measure, or use to look at the server.

export async function pgClient(url) {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

/** Sends one query on a connection of its own. */
export async function ask(url, query) {
  const client = await pgClient(url);
  try {
    return (await client.query(query)).rows;
  } finally {
    await client.end();
  }
}

/** postgres.js with one connection that does not end by age. */
export async function postgresJs(url, options) {
  const { default: postgres } = await import("postgres");
  return postgres(url, { max: 1, max_lifetime: null, idle_timeout: 0, ...options });
}
