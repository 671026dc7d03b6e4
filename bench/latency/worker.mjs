// One library as a Worker: a request is one trial.
import { drivers } from "./drivers.mjs";
import { trial } from "./shapes.mjs";

export const worker = (library, module) => ({
  async fetch(request) {
    try {
      return Response.json(await trial(drivers[library](module), await request.json()));
    } catch (error) {
      return Response.json({ error: String(error?.stack ?? error) });
    }
  },
});
