// The Worker of CASE=adapters over `pg`.
import { overPg } from "../over-pg.mjs";
import { worker } from "./worker.mjs";

export default worker(overPg);
