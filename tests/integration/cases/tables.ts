// Tables that several cases fill, each in a schema of its own case.
import type { Client } from "../../../js/index.ts";
import type { Context } from "../context.ts";
import { withSchema } from "./helpers.ts";

/** Creates a table with one int column that is unique, checked at COMMIT. */
export async function withNumbers(t: Context, work: (client: Client, table: string) => Promise<void>): Promise<void> {
  await withSchema(t, async (client, schema) => {
    await client.exec(`create table ${schema}.numbers (n int4 unique deferrable initially deferred)`);
    await work(client, `${schema}.numbers`);
  });
}

export const count = async (client: Client, table: string): Promise<number> =>
  Number((await client.query<{ n: number }>(`select count(*)::int4 as n from ${table}`)).rows[0]?.n);

/** Creates a table of a number and a text, to be filled by COPY. */
export async function withTarget(
  t: Context,
  work: (client: Client, table: string, schema: string) => Promise<void>,
): Promise<void> {
  await withSchema(t, async (client, schema) => {
    await client.exec(`create table ${schema}.target (n int4, t text)`);
    await work(client, `${schema}.target`, schema);
  });
}

/** Returns the rows of the table. */
export const stored = async (client: Client, table: string): Promise<[number, string][]> =>
  (await client.query<[number, string]>(`select n, t from ${table} order by n`, { rowMode: "array" })).rows;
