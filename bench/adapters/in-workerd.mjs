// The libraries over this driver in workerd.
import * as driver from "../../dist/workerd.js";
import { overPgzEdge } from "./over-pgz-edge.mjs";

export const libraries = overPgzEdge(driver);
