import { pglite } from "./servers.ts";
import { suite } from "./suite.ts";

suite(pglite);
