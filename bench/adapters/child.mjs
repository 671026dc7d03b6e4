// One library over one driver on Node: `child.mjs <library> <pgz-edge|pg> <url>`. A request runs one shape the given
// number of times. `setup` makes the table.
import process from "node:process";
import pg from "pg";
import * as node from "../../dist/node.js";
import { serve, timed } from "../lib/child.mjs";
import { operate } from "./libraries.mjs";
import { overPg } from "./over-pg.mjs";
import { overPgzEdge } from "./over-pgz-edge.mjs";

const [library, driver, url] = process.argv.slice(2);
const libraries = driver === "pg" ? overPg : overPgzEdge(node);
const opened = library === "setup" ? undefined : await libraries[library](url);

serve(
  ({ setup, ...work }) => (setup ? asSetup(setup) : timed(() => operate(opened, work), { clean: false })),
  () => opened?.end(),
);

async function asSetup(text) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(text);
  await client.end();
  return { done: true };
}
