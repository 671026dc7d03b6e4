// The Worker of CASE=adapters. A request opens a library, whose sockets belong to the request, and runs one shape.
import { operate } from "../libraries.mjs";

export const worker = (libraries) => ({
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
