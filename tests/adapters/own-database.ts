// A database for the tests of one file. A walsender decodes every change of its database and skips those of the others.
// So tests that read changes do not wait until it has decoded what all other tests write.
//
// The database is not dropped: the server lives as long as the run.
import type * as driver from "../../js/index.ts";

/** Creates the database on the server of this URL, as its superuser. Returns the URL of the database. */
export async function ownDatabase({ connect }: Pick<typeof driver, "connect">, url: string): Promise<string> {
  const name = `changes_${Math.random().toString(36).slice(2)}`;
  await using admin = await connect(url);
  await admin.exec(`create database ${name}`);
  const own = new URL(url);
  own.pathname = name;
  return own.href;
}
