// Code for `pg`, as its declarations (@types/pg) allow it, and what they refuse. It is only compiled: `make check`.
import type {
  Client,
  Pool,
  CustomTypesConfig,
  Notification,
  QueryArrayConfig,
  QueryArrayResult,
  QueryConfig,
  QueryResult,
  QueryResultRow,
} from "../../js/adapters/pg.ts";

interface User {
  id: number;
}

export async function written(pool: Pool, client: Client, types: CustomTypesConfig): Promise<unknown[]> {
  pool.query<User>("select", [1], (error: Error, result: QueryResult<User>) => [error.message, result.rows[0]?.id]);
  client.query("select", (error, result) => [error.message, result.rows]);
  client.on("notification", (message: Notification) => message.payload);
  const config: QueryArrayConfig = { text: "select", rowMode: "array", types };
  const arrays: QueryArrayResult<[number]> = await pool.query<[number]>(config);
  const one: number | undefined = arrays.rows[0]?.[0];
  const rows: QueryResultRow[] = (await client.query<QueryResultRow>({ text: "select" } satisfies QueryConfig)).rows;
  // @ts-expect-error: a user has no such member
  const none = (await pool.query<User>("select")).rows[0]?.name as unknown;
  return [one, rows, none];
}
