// A database of its own for the tests of one file, and a free port for a program that they start.
import { createServer, type AddressInfo } from "node:net";
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

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
