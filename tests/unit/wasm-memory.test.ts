// A machine without more memory for the wasm, like a Worker at its limit of 128 MB: the call that needs memory ends
// with an error of the driver, all else that the instance serves continues, and the next connect works.
import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { learned } from "../support/memory-calls.ts";
import { client, learn, letIn, newClient, useMemoryServer } from "../support/memory-session.ts";
import { begun } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const MOST = 8 << 20;
const [PAGE, MEMORY_SECTION] = [1 << 16, 5];

/** The module, with memory that grows up to `most` bytes. The limits in its memory section are `flags min [max]`. */
function withMost(wasm: Uint8Array, most: number): Uint8Array<ArrayBuffer> {
  const readNumber = (at: number) => {
    for (let value = 0, shift = 0; ; shift += 7) {
      const byte = wasm[at++]!;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return { value, at };
    }
  };
  const number = (value: number): number[] =>
    value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...number(value >>> 7)];
  for (let at = 8; at < wasm.length;) {
    const { value: length, at: body } = readNumber(at + 1);
    const end = body + length;
    if (wasm[at] === MEMORY_SECTION) {
      const { value: least } = readNumber(body + 2);
      const section = [1, 1, ...number(least), ...number(most / PAGE)];
      const memory = Buffer.from([MEMORY_SECTION, ...number(section.length), ...section]);
      return Buffer.concat([wasm.subarray(0, at), memory, wasm.subarray(end)]);
    }
    at = end;
  }
  throw new Error("the module has no memory");
}

const small = new WebAssembly.Module(
  withMost(readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url)), MOST),
);
const RealInstance = WebAssembly.Instance;
vi.stubGlobal(
  "WebAssembly",
  Object.assign(Object.create(WebAssembly) as typeof WebAssembly, {
    Instance: function (_module: WebAssembly.Module, imports: WebAssembly.Imports) {
      return new RealInstance(small, imports);
    },
  }),
);

test("a row for which there is no memory is an error, and the next connect works", async () => {
  for (let time = 0; time < 3; time++) {
    const query = client.query("select n");
    const session = await letIn();
    await learn(session);
    session.send(begun(), wire.dataRow([Buffer.alloc(2 * MOST)]));
    await expect(query).rejects.toMatchObject({ name: "ProtocolError", code: "MESSAGE_TOO_LARGE" });
    await client.close();

    newClient();
    const again = client.query("select n");
    await learned(await letIn(), again);
    await client.close();
    newClient();
  }
});
