// Traps in the wasm: all connections of the instance end, and the next connect gets a new instance.
import { expect, test, vi } from "vitest";
import { learned } from "../support/memory-calls.ts";
import { client, learn, letIn, newClient, otherClient, useMemoryServer } from "../support/memory-session.ts";
import { description } from "../support/server-messages.ts";

useMemoryServer();

/** The next call of this export traps. The instances that the driver creates have their exports wrapped. */
let trap: string | undefined;
const RealInstance = WebAssembly.Instance;
vi.stubGlobal(
  "WebAssembly",
  Object.assign(Object.create(WebAssembly) as typeof WebAssembly, {
    Instance: function (module: WebAssembly.Module, imports: WebAssembly.Imports) {
      const exports = { ...new RealInstance(module, imports).exports };
      for (const [name, call] of Object.entries(exports)) {
        if (typeof call !== "function") continue;
        exports[name] = (...given: unknown[]) => {
          if (trap !== name) return (call as (...given: unknown[]) => unknown)(...given);
          trap = undefined;
          throw new WebAssembly.RuntimeError("unreachable");
        };
      }
      return { exports };
    },
  }),
);

test.each(["coreconnection_receive", "coreconnection_execute", "coreconnection_rows_length"])(
  "a trap in %s ends every connection of the instance, and the next connect works",
  async (name) => {
    const other = otherClient();
    const waiting = other.query("select n");
    await learn(await letIn());
    const query = client.query("select n");
    const session = await letIn();
    await session.flight();
    trap = name;
    session.send(description());
    await expect(query).rejects.toMatchObject({
      name: "ConnectionError",
      code: "CORE_TRAPPED",
      cause: expect.any(WebAssembly.RuntimeError),
    });
    await expect(waiting).rejects.toMatchObject({ code: "CORE_TRAPPED" });
    for (const one of [client, other]) expect(one.stats().state).toBe("lost");
    await Promise.all([client.close(), other.close()]);

    newClient();
    const again = client.query("select n");
    await learned(await letIn(), again);
  },
);
