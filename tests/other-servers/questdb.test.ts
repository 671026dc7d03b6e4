import { questDb } from "./servers.ts";
import { suite } from "./suite.ts";

suite(questDb);
