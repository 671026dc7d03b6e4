// The Worker of CASE=latency with pgz-edge.
import * as driver from "../../../dist/workerd.js";
import { pgzEdge } from "../libraries.mjs";
import { worker } from "./worker.mjs";

export default worker(pgzEdge(driver));
