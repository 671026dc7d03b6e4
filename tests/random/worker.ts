// Random sessions inside a Worker, one per request, because a socket belongs to its request.
//   POST / task -> report     GET / -> [uncaught errors, …]
import * as packaged from "pgz-edge";
import { watchUncaught } from "../faults/uncaught.ts";
import { placeOf } from "./place.ts";
import { runSession } from "./session.ts";
import type { Task } from "./suite.ts";

const driver = packaged as unknown as typeof import("../../js/index.ts");
const uncaught = watchUncaught();

export default {
  async fetch(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(uncaught);
    const task = (await request.json()) as Task;
    return Response.json(await runSession(placeOf("workerd", driver, task), task.seed));
  },
};
