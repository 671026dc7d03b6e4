// The Worker of CASE=startup without a library.
import { libraries } from "../libraries.mjs";
import { worker } from "./worker.mjs";

export default worker(libraries.empty, {});
