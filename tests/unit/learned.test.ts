// What a connection caches about statements and types (js/session/learned.ts): which statements have run there, their
// columns, and that the core is told of each type once.
import { expect, test } from "vitest";
import type { Shape } from "../../js/server/shapes.ts";
import { Learned } from "../../js/session/learned.ts";
import type { Column, CoreConnection } from "../../js/wasm/boundary.ts";
import type { Definition } from "../../js/wasm/type-definitions.ts";

const shape = (id: number) => ({ id }) as Shape;
const columns = [{ name: "n", typeOid: 23 }] as unknown as readonly Column[];

test("a remembered statement has run here, and has columns once the core has reported them", () => {
  const told = new Learned();
  expect([told.hasRun(shape(7)), told.columns(shape(7))]).toEqual([false, undefined]);
  told.remember(shape(7));
  expect([told.hasRun(shape(7)), told.columns(shape(7))]).toEqual([true, undefined]);
  told.learnColumns(7, columns);
  expect(told.columns(shape(7))).toBe(columns);
  expect([told.hasRun(shape(8)), told.columns(shape(8))]).toEqual([false, undefined]);
});

test("a statement that runs again keeps the columns that the core has reported", () => {
  const told = new Learned();
  told.remember(shape(7));
  told.learnColumns(7, columns);
  told.remember(shape(7));
  expect(told.columns(shape(7))).toBe(columns);
});

test("dropped statements are listed in order, and no longer count as run here", () => {
  const told = new Learned();
  for (const id of [3, 1, 2]) told.remember(shape(id));
  told.learnColumns(1, columns);
  expect(told.forgetAll()).toEqual([3, 1, 2]);
  expect([1, 2, 3].map((id) => told.hasRun(shape(id)))).toEqual([false, false, false]);
  expect(told.columns(shape(1))).toBeUndefined();
  expect(told.forgetAll()).toEqual([]);
});

test("a thousand statements are remembered, and beyond that the older ones are dropped", () => {
  const told = new Learned();
  for (let id = 1; id <= 1_000; id++) told.remember(shape(id));
  expect([told.hasRun(shape(1)), told.hasRun(shape(1_000))]).toEqual([true, true]);
  for (let id = 1_001; id <= 5_000; id++) told.remember(shape(id));
  expect([told.hasRun(shape(1)), told.hasRun(shape(5_000))]).toEqual([false, true]);
  expect(told.forgetAll().length).toBeLessThanOrEqual(1_000);
});

test("what runs again is dropped last, and as many are remembered as the core may name", () => {
  const [told, large] = [new Learned(), new Learned(2_000)];
  for (const one of [told, large]) {
    for (let id = 1; id <= 1_000; id++) one.remember(shape(id));
    one.remember(shape(1));
    one.remember(shape(1_001));
  }
  expect([1, 2, 1_001].map((id) => told.hasRun(shape(id)))).toEqual([true, false, true]);
  expect([1, 2, 1_001].map((id) => large.hasRun(shape(id)))).toEqual([true, true, true]);
});

test("a statement has a shape, and a check has none", () => {
  const told = new Learned();
  const known = { id: 7, columns } as unknown as Shape;
  told.remember({ id: 7 });
  expect(told.shape(7)).toBeUndefined();
  told.remember(known);
  expect([told.shape(7), told.shape(8)]).toEqual([known, undefined]);
});

test("a core is told of types once, and not at all if there are none", () => {
  const told = new Learned();
  const tellings: number[][] = [];
  const handle = { define_types: (types: Uint32Array) => void tellings.push([...types]) } as unknown as CoreConnection;
  const mood: Definition = { oid: 20_001, code: 0, of: 25, parts: [], names: [] };
  told.define(handle, []);
  expect(tellings).toEqual([]);
  told.define(handle, [mood]);
  told.define(handle, [mood]);
  expect(tellings).toEqual([[20_001, 0, 25, 0]]);
  // Another connection's core does not know the type.
  new Learned().define(handle, [mood]);
  expect(tellings).toHaveLength(2);
});
