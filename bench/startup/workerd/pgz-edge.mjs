// The Worker of CASE=startup with pgz-edge.
import * as module from "../../../dist/workerd.js";
import { libraries } from "../libraries.mjs";
import { worker } from "./worker.mjs";

export default worker(libraries["pgz-edge"], module);
