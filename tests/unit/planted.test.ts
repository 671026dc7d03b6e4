// The faults of tests/simulation/planted.mjs refer to code that exists. A fault whose place is gone would be planted
// nowhere, unnoticed.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
// @ts-expect-error: a program of the simulator has no types.
import { planted } from "../simulation/planted.mjs";

const faults = planted as readonly { name: string; file: string; from: string; to: string }[];

test("each planted fault has exactly one place in the driver", () => {
  expect(faults.length).toBeGreaterThanOrEqual(20);
  const times = ({ file, from }: { file: string; from: string }) =>
    readFileSync(new URL(`../../${file}`, import.meta.url), "utf8").split(from).length - 1;
  expect(faults.filter((fault) => times(fault) !== 1).map(({ name }) => name)).toEqual([]);
});
