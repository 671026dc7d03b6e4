// The Worker of CASE=latency with postgres.js.
import * as postgres from "postgres";
import { postgresJs } from "../libraries.mjs";
import { worker } from "./worker.mjs";

export default worker(postgresJs(postgres));
