import { createClient, sql } from "pgz-edge";

export default {
  async fetch(request: Request, env: { HYPERDRIVE: { connectionString: string } }): Promise<Response> {
    const after = Number(new URL(request.url).searchParams.get("after") ?? 0);
    const client = createClient(env.HYPERDRIVE);
    const query = sql`select id, name, meta from users where id > ${after} order by id`;
    const options = { maxRows: 100_000, maxBytes: 16 << 20, signal: request.signal, closeWhenDone: true };
    return await client.respond(query, options);
  },
};
