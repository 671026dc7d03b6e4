// The Worker of CASE=startup with postgres.js.
import * as module from "postgres";
import { libraries } from "../libraries.mjs";
import { worker } from "./worker.mjs";

export default worker(libraries["postgres.js"], module);
