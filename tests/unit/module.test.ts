// The instance of the wasm that all connections share: what remains after many connections, and what happens to them
// when the instance traps.
import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeAll, expect, test, vi } from "vitest";
import { installRuntime } from "../../js/runtime/runtime.ts";
import type { Core } from "../../js/wasm/boundary.ts";
import { createCore } from "../../js/wasm/module.ts";
import { initSync } from "../../pkg/pgz_edge.js";
import { OUTPUT, VERSION_3_0 } from "../../js/wasm/numbers.ts";
import { until } from "../support/until.mjs";

const wasm = readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url));
/** The address of the object in wasm memory, which the glue keeps on the handle. */
const pointerOf = (core: Core) => core.call((handle) => (handle as unknown as { __wbg_ptr: number }).__wbg_ptr);
/** The size of wasm memory, in bytes. Once an instance exists, the glue only returns its exports. */
const size = () => initSync({ module: wasm }).memory.buffer.byteLength;
const create = () => createCore(1 << 20, "s", 0);

beforeAll(() => {
  installRuntime({
    name: "node",
    module: () => wasm,
    connect: () => Promise.reject(new Error("no socket here")),
    background: () => {},
  });
});
afterEach(() => void vi.restoreAllMocks());

function start(core: Core, user = "u"): Uint8Array {
  const status = core.call((handle) =>
    handle.start(VERSION_3_0, `user\0${user}\0`, undefined, "", 0, 1, 1, 1, new Uint8Array()),
  );
  expect(status & OUTPUT).toBe(OUTPUT);
  return core.takeOutput();
}

/** Causes a genuine trap: the handle points outside of memory. */
function trap(core: Core): void {
  core.call((handle) => {
    Object.assign(handle, { __wbg_ptr: 0xfffffff0 });
    handle.receive(0);
  });
}

test("memory that grows during a call loses no data, and many objects leave nothing behind", () => {
  let before = 0;
  for (let round = 0; round < 200; round++) {
    const core = create();
    const user = `${round}€`.repeat(200_000);
    expect(new TextDecoder().decode(start(core, user))).toContain(`user\0${user}\0`);
    core.free();
    if (round === 0) before = size();
  }
  expect(size()).toBeLessThan(before + (16 << 20));
});

test("a trap ends all connections of the instance, and the next connection gets a fresh instance", () => {
  const [one, other] = [create(), create()];
  const ended = vi.fn();
  other.onTrap = ended;
  expect(() => trap(one)).toThrow(
    expect.objectContaining({ code: "CORE_TRAPPED", cause: expect.any(WebAssembly.RuntimeError) }),
  );
  expect(ended).toHaveBeenCalledOnce();
  expect(() => other.receiveMore()).toThrow(expect.objectContaining({ code: "CORE_TRAPPED" }));
  const next = create();
  expect(start(next).length).toBeGreaterThan(0);
  next.free();
});

test("neither free() nor the collector of a trapped instance affects the next instance", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const lost = [create()];
  const pointer = pointerOf(lost[0]!);
  const other = create();
  expect(() => trap(create())).toThrow();
  // The same calls in fresh memory return the same addresses.
  const [next, second] = [create(), create()];
  expect(pointerOf(next)).toBe(pointer);
  other.free();
  let isCollected = false;
  const collected = new FinalizationRegistry(() => (isCollected = true));
  collected.register(lost.pop()!, undefined);
  await until(() => (collect(), isCollected));
  await new Promise((resolve) => setImmediate(resolve)); // the registry of the glue has its turn too
  expect(start(next).length).toBeGreaterThan(0);
  expect(start(second).length).toBeGreaterThan(0);
  next.free();
  second.free();
});

test("if no new instance can be created after a trap, the next connect tries again", () => {
  const one = create();
  const made = vi.spyOn(WebAssembly, "Instance").mockImplementation(function () {
    throw new RangeError("out of memory");
  });
  expect(() => trap(one)).toThrow(expect.objectContaining({ code: "CORE_TRAPPED" }));
  expect(() => create()).toThrow(RangeError);
  made.mockRestore();
  const next = create();
  expect(start(next).length).toBeGreaterThan(0);
  next.free();
});
