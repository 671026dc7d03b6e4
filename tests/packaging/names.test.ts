// Classes that users see in stacks and by `constructor.name` have their own names in dist/: esbuild renames a class
// that names itself (`_Transaction`).
import { expect, test } from "vitest";
import { read } from "./repository.ts";

/** Drizzle knows its classes by `entityKind`, and the other entries need a bundler. */
const OTHERS = /drizzle|json|wasm|workers/;
const entries = Object.keys((JSON.parse(read("package.json")) as { exports: object }).exports)
  .filter((name) => !OTHERS.test(name))
  .map((name) => `pgz-edge${name.slice(1)}`);

const isClass = (value: unknown): value is { readonly name: string } =>
  typeof value === "function" && Function.prototype.toString.call(value).startsWith("class");

test("each exported class has the name of its export, except pg's Pool, which pg calls BoundPool too", async () => {
  const others: string[] = [];
  for (const entry of entries)
    for (const [name, value] of Object.entries((await import(entry)) as object))
      if (isClass(value) && value.name !== name) others.push(`${entry} ${name}: ${value.name}`);
  expect(others).toEqual(["pgz-edge/pg Pool: BoundPool"]);
});

test("the driver's classes that stacks of calls show have their own names", () => {
  expect(read("dist/shared/core.js")).not.toMatch(/class _(Transaction|Client|Pool|Lease|Scope|Prepared\w*|Calls)\b/);
  for (const entry of ["drizzle", "drizzle-v1"]) expect(read(`dist/${entry}.js`)).not.toMatch(/class _Pgz/);
});
