// A database of its own for the tests of one file.
import pg from "pg";

/** `url` and `superuserUrl` lead to the database, by the roles of the server's own. */
export function testDatabase(server: { readonly url: string; readonly superuserUrl: string }, name: string) {
  const to = (url: string) => Object.assign(new URL(url), { pathname: `/${name}`, search: "?sslmode=disable" }).href;
  const asSuperuser = async (text: string) => {
    const client = new pg.Client({ connectionString: server.superuserUrl });
    await client.connect();
    await client.query(text).finally(() => client.end());
  };
  const drop = () => asSuperuser(`drop database if exists ${name} with (force)`);
  const create = async () => {
    await drop();
    await asSuperuser(`create database ${name}`);
  };
  return { url: to(server.url), superuserUrl: to(server.superuserUrl), create, drop };
}
