// One library over one driver on Node. A request runs one shape the given number of times.
import * as node from "../../dist/node.js";
import { operate } from "./operations.mjs";
import { overPg } from "./over-pg.mjs";
import { overPgzEdge } from "./over-pgz-edge.mjs";

export async function open(driver, url, library) {
  const opened = await (driver === "pg" ? overPg : overPgzEdge(node))[library](url);
  return { clean: false, run: (work) => operate(opened, work), end: () => opened.end() };
}
