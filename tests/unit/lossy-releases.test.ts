import { expect, test } from "vitest";
import { releaseOf } from "../../js/cli/doctor/cache.ts";
import { releaseWithoutLoss } from "../../js/util/lossy-releases.ts";

test("each version has a first release that loses no change of a table that joins a publication", () => {
  const of = (...versions: number[]) => versions.map(releaseWithoutLoss);
  expect(of(140_017, 150_012, 160_008, 170_004, 170_000)).toEqual(["14.18", "15.13", "16.9", "17.5", "17.5"]);
  expect(of(140_018, 150_013, 160_009, 170_005, 180_000, 190_001)).toEqual(Array(6).fill(undefined));
});

test("doctor names the release to update to", () => {
  expect(releaseOf(170_004)).toMatchObject([
    { id: "cache-release", level: "change", advice: ["Update the server to 17.5 or newer."] },
  ]);
  expect(releaseOf(170_005)).toEqual([]);
});
