// The Worker of CASE=adapters over this driver.
import * as driver from "../../../dist/workerd.js";
import { overPgzEdge } from "../over-pgz-edge.mjs";
import { worker } from "./worker.mjs";

export default worker(overPgzEdge(driver));
