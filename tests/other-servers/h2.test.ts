import { h2 } from "./servers.ts";
import { suite } from "./suite.ts";

suite(h2);
