// Streams 1 GB to each client.
import { createClient } from "pgz-edge";

export default {
  async fetch(_: Request, env: { URL: string }): Promise<Response> {
    const client = createClient(env.URL, { sslmode: "disable" });
    return client.respond("select repeat('x', 1000) as pad from (select generate_series(1, 1000000)) as series", {
      closeWhenDone: true,
    });
  },
};
