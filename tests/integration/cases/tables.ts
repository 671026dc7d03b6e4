// Tables that several cases fill, each in a schema of its own case.
import type { Client } from "../../../js/index.ts";
import type { Context } from "../context.ts";
import { newSchema } from "./helpers.ts";

/** Creates a table of a number that is unique, checked at COMMIT, and a text. */
export async function newNumbers(t: Context): Promise<[client: Client, table: string]> {
  const [client, schema] = await newSchema(t);
  await client.exec(`create table ${schema}.numbers (n int4 unique deferrable initially deferred, t text)`);
  return [client, `${schema}.numbers`];
}

export const count = async (client: Client, table: string): Promise<number> =>
  Number((await client.query<{ n: number }>(`select count(*)::int4 as n from ${table}`)).rows[0]?.n);

/** Creates a table of a number and a text, to be filled by COPY. */
export async function newTarget(t: Context): Promise<[client: Client, table: string, schema: string]> {
  const [client, schema] = await newSchema(t);
  await client.exec(`create table ${schema}.target (n int4, t text)`);
  return [client, `${schema}.target`, schema];
}

/** Returns the rows of the table. */
export const stored = async (client: Client, table: string): Promise<[number, string][]> =>
  (await client.query<[number, string]>(`select n, t from ${table} order by n`, { rowMode: "array" })).rows;
