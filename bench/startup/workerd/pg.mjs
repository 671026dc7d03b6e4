// The Worker of CASE=startup with pg.
import * as module from "pg";
import { libraries } from "../libraries.mjs";
import { worker } from "./worker.mjs";

export default worker(libraries.pg, module);
