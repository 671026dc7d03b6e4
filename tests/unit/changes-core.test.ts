// The wasm of `pgz-edge/changes`, where a bundle has left it behind (js/changes/core.ts).
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Core, provide } from "../../js/changes/core.ts";

test("a wasm that cannot be read is an error that says what a bundle needs, and a later stream may find it", () => {
  provide(() => readFileSync(new URL("./nowhere/pgz_changes_bg.wasm", import.meta.url)));
  expect(() => new Core(1 << 20, 0)).toThrow(
    expect.objectContaining({
      name: "UsageError",
      code: "UNSUPPORTED_ON_RUNTIME",
      message: expect.stringContaining("docs/bundlers.md"),
      cause: expect.objectContaining({ code: "ENOENT" }),
    }),
  );
  provide(() => readFileSync(new URL("../../pkg/pgz_changes_bg.wasm", import.meta.url)));
  new Core(1 << 20, 0).free();
});
