// The program behind the cache on Node: answers by `cached`, and asks the invalidator of the test.
//   node program.mjs <url of the database> <url of the test>   -> prints its port
import { createServer } from "node:http";
import { createPool } from "pgz-edge";
import { cached } from "pgz-edge/cache";
import { statementOf } from "./statements.mjs";

const [url, test] = process.argv.slice(2);
const db = createPool(url, { max: 4 });
const call =
  (name) =>
  async (...given) => {
    const response = await fetch(`${test}/${name}`, { method: "POST", body: JSON.stringify(given) });
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  };
const invalidator = { open: call("open"), remember: call("remember"), close: call("close"), abandon: call("abandon") };

async function answer(request) {
  const path = request.url;
  const { text, values = [], maxAge, tenant } = statementOf(path);
  const isTenants = tenant !== undefined;
  const asked = isTenants ? db.scope({ role: "cache_tenant", settings: { "app.tenant": `${tenant}` } }) : db;
  const headers = new Headers(
    request.headers["if-none-match"] ? { "if-none-match": request.headers["if-none-match"] } : {},
  );
  return await cached(
    { method: "GET", url: `http://program${path}`, headers },
    asked,
    { text, values },
    {
      maxAge,
      invalidator,
      ...(isTenants ? { separatedBy: { tenant } } : {}),
    },
  );
}

const server = createServer(async (request, response) => {
  try {
    const { status, headers, body } = await answer(request);
    response.writeHead(status, Object.fromEntries(headers));
    for await (const bytes of body ?? []) response.write(bytes);
    response.end();
  } catch (error) {
    if (response.headersSent) return response.destroy();
    response.writeHead(503).end(String(error));
  }
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
