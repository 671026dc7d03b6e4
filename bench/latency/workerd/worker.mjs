// One library as a Worker: a request is one trial, as in child.mjs.
import { trial } from "../shapes.mjs";

export const worker = (library) => ({
  async fetch(request) {
    const { hello, ...asked } = await request.json();
    if (hello) return Response.json({ shapes: library.shapes });
    try {
      return Response.json(await trial(library, asked));
    } catch (error) {
      return Response.json({ error: String(error?.stack ?? error) });
    }
  },
});
