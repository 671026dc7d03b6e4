// A library over one driver as a Worker. A request opens a library, whose sockets belong to the request, and runs one
// shape.
import { operate } from "./operations.mjs";

export const worker = (driver, { overPg, libraries = overPg }) => ({
  async fetch(request, env) {
    const { library, ...work } = await request.json();
    const opened = await libraries[library](env.URL);
    try {
      return Response.json(await operate(opened, work));
    } finally {
      await opened.end();
    }
  },
});
