// One library as a Worker that answers with the rows of its first query.
import { drivers } from "./drivers.mjs";

export const worker = (library, module) => ({
  fetch: async (request, { URL }) => Response.json(await drivers[library](module, { url: URL })),
});
