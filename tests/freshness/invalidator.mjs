// The invalidator on Node, in a process of its own.
//   node invalidator.mjs <url of the database> <url of the test>   -> prints its port
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { createPool } from "pgz-edge";
import { Invalidator } from "pgz-edge/cache";
import { PUBLICATION, SLOT, TIMES } from "./statements.mjs";

const [url, test] = process.argv.slice(2);
const invalidator = new Invalidator(createPool(url, { max: 2 }), {
  ...TIMES,
  slot: SLOT,
  publication: PUBLICATION,
  onFailure: (error) => console.error(String(error)),
  purge: async (tags) => {
    const response = await fetch(`${test}/purge`, { method: "POST", body: JSON.stringify([tags]) });
    if (!response.ok) throw new Error(await response.text());
  },
});

void invalidator.run();

const server = createServer(async (request, response) => {
  const name = request.url.slice(1);
  try {
    const result = await invalidator[name](...JSON.parse(await text(request)));
    response.end(JSON.stringify(result ?? null));
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
