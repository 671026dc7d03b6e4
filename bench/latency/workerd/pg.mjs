// The Worker of CASE=latency with pg.
import * as module from "pg";
import { pg } from "../libraries.mjs";
import { worker } from "./worker.mjs";

export default worker(pg(module));
