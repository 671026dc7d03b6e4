// One library as a Worker that answers with the rows of its first query.
export const worker = (first, module) => ({
  fetch: async (request, { URL }) => Response.json(await first(module, { url: URL })),
});
