// One library over one driver: `child.mjs <library> <pgz-edge|pg> <url>`. A request runs one shape so many times, one
// behind the other, and gives how many rows came and a hash of the last operation's. `setup` makes the table.
import { createHash } from "node:crypto";
import process from "node:process";
import pg from "pg";
import { serve, timed } from "../lib/child.mjs";
import { libraries } from "./libraries.mjs";

const [library, driver, url] = process.argv.slice(2);
const opened = library === "setup" ? undefined : await libraries[library][driver](url);

serve(
  async ({ setup, count, times }) => {
    if (setup) return await asSetup(setup);
    let last;
    const measured = await timed(
      async () => {
        let rows = 0;
        for (let at = 0; at < times; at++) {
          last = count === 1 ? await opened.one(1 + (at % 100)) : await opened.many(count);
          rows += last.length;
        }
        return { rows };
      },
      { clean: false },
    );
    return { ...measured, hash: createHash("sha256").update(JSON.stringify(last)).digest("hex") };
  },
  () => opened?.end(),
);

async function asSetup(text) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(text);
  await client.end();
  return { done: true };
}
