// Our glue against what wasm-bindgen generates: each call's name, arguments and result by its declarations (the compiler compares them),
// and that values of every kind cross whole. The transcripts go through the same glue (transcripts.test.ts).
import { readFileSync } from "node:fs";
import { expect, expectTypeOf, test } from "vitest";
import type * as raw from "../../pkg/exports.js";
import type { CoreConnection as Generated } from "../../pkg/pgz_edge.js";
import type { CoreConnection } from "../../js/wasm/boundary.ts";
import { Glue } from "../../js/wasm/glue.ts";

type Calls = Omit<CoreConnection, "pointer">;
/** Numbers cross as they are, all else as a pointer and a length. */
type Lowered<Given> = Given extends [infer First, ...infer Rest] ? [...(First extends number | boolean ? [number] : [number, number]), ...Lowered<Rest>] : [];
type Result<T> = T extends Uint8Array ? [number, number] : T;
type OurExports = { [Name in keyof Calls as `coreconnection_${Name}`]: (pointer: number, ...given: Lowered<Parameters<Calls[Name]>>) => Result<ReturnType<Calls[Name]>> };
type ItsExports = { [Name in Exclude<keyof typeof raw & `coreconnection_${string}`, "coreconnection_new">]: (typeof raw)[Name] };

const glue = new Glue(new WebAssembly.Module(readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url))));
const text = new TextDecoder();
const OUTPUT = 1;

test("the calls are those of src/wasm.rs", () => {
  expectTypeOf<OurExports>().toEqualTypeOf<ItsExports>();
  expectTypeOf<{ [Name in keyof Calls]: Parameters<Calls[Name]> }>().toExtend<{ [Name in keyof Calls]: Parameters<Generated[Name]> }>();
  expectTypeOf<[number, ...Lowered<Parameters<Glue["create"]>>]>().toEqualTypeOf<[number, ...Parameters<typeof raw.coreconnection_new>]>();
  expectTypeOf<Parameters<Glue["create"]>>().toEqualTypeOf<ConstructorParameters<typeof Generated>>();
});

test.each(["", "plain", "äöü€𝄞", "x".repeat(100_000), "€".repeat(100_000)])("text crosses whole (%#)", (value) => {
  const core = glue.create(1 << 20, "s", 0);
  expect(core.start(196608, `user\0${value}\0`, undefined, "", 0, 1, 1) & OUTPUT).toBe(OUTPUT);
  expect(text.decode(core.take_output())).toContain(`user\0${value}\0`);
  expect(core.take_output()).toEqual(new Uint8Array(0));
  expect(core.take_events()).toEqual(new Uint8Array(0));
  glue.free(core.pointer);
});

test("memory that grows during a call, and many objects: nothing is lost, nothing is left", () => {
  const before = glue.memory.buffer.byteLength;
  for (let round = 0; round < 200; round++) {
    const core = glue.create(1 << 20, "s", 0);
    const value = String(round).repeat(300_000);
    core.start(196608, `user\0${value}\0`, undefined, "", 0, 1, 1);
    expect(core.take_output().length).toBeGreaterThan(value.length);
    glue.free(core.pointer);
  }
  expect(glue.memory.buffer.byteLength).toBeLessThan(before + (16 << 20));
});

test("what wasm-bindgen would throw is a trap", () => {
  const core = Object.assign(Object.create(glue.create(1 << 20, "s", 0)) as CoreConnection, { pointer: 0 });
  expect(() => core.receive(0)).toThrow(WebAssembly.RuntimeError);
});
