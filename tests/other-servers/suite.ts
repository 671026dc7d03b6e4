// One test for each feature on one server, in the order of the table, each with a client of its own.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type * as pgz from "../../js/index.ts";
import { logFile } from "../servers/index.mjs";
import type { OtherServer } from "../servers/others.mjs";
import { inTime } from "../support/until.mjs";
import { features, Silence } from "./features.ts";
import type { Server } from "./servers.ts";

const driver = (await import(new URL("../../dist/node.js", import.meta.url).href)) as typeof pgz;

export function suite({ name, start, dialect, fails }: Server): void {
  describe(name, () => {
    let running: OtherServer;
    beforeAll(async () => void (running = await start({ log: logFile(name.replaceAll(/[^\w.]/g, "-")) })));
    afterAll(() => running?.stop());

    test("what is expected to fail is a feature", () => {
      expect(Object.keys(features)).toEqual(expect.arrayContaining(Object.keys(fails)));
    });

    test.each(Object.keys(features))("%s", async (feature) => {
      const options = { ...running.options, allowCleartextPassword: true, connectTimeout: 60_000 };
      const connect = (more: pgz.Options = {}) => driver.connect({ ...options, ...more });
      const use = async () => {
        // The client comes back by itself, so the loss of its session has to be watched.
        let lost: pgz.PgzError | undefined;
        const client = await connect({ observer: { onDisconnect: ({ error }) => void (lost ??= error) } });
        try {
          await features[feature]!({ client, dialect, connect });
        } catch (error) {
          if (error instanceof driver.PgzError || error instanceof Silence || !lost) throw error;
        } finally {
          await client.close();
        }
        if (lost)
          throw new driver.ConnectionError("CONNECTION_LOST", "The session ended.", { stage: "session", cause: lost });
      };
      const outcome = await inTime(use()).catch((error: unknown) => error);
      // What is no error of the driver's is a wrong value, which no line of the table excuses.
      if (outcome !== undefined && !(outcome instanceof driver.PgzError || outcome instanceof Silence)) throw outcome;
      expect((fails[feature] ?? "yes").split(" or "), outcome?.message).toContain(outcome?.code ?? "yes");
    });
  });
}
