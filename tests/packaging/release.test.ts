// What stops a release before anything is published, and what its notes say.
import { expect, test } from "vitest";
import { objections, sectionOf } from "../../scripts/release.mjs";

const changelog = `# Changelog

## Unreleased

- something new

## 0.2.0 (2026-12-01)

- a fault
### Packaging
- a file

## 0.1.0

The first version.
`;
const manifests = { "package.json": "0.2.0", "jsr.json": "0.2.0" };

test("a version that all manifests have, and of which the changelog tells, can be released", () => {
  expect(objections("v0.2.0", { manifests, changelog })).toEqual([]);
});

test.each([
  ["no version", "0.2.0", manifests, ["0.2.0 is no version: v1.2.3"]],
  ["a manifest of another version", "v0.2.0", { ...manifests, "jsr.json": "0.1.0" }, ["jsr.json has version 0.1.0"]],
  ["no section", "v0.3.0", { "package.json": "0.3.0" }, ["CHANGELOG.md has no section ## 0.3.0"]],
])("%s is refused", (_, tag, all, expected) => {
  expect(objections(tag, { manifests: all, changelog })).toEqual(expected);
});

test("the notes are the version's own section", () => {
  expect(sectionOf(changelog, "0.2.0")).toBe("- a fault\n### Packaging\n- a file");
  expect(sectionOf(changelog, "0.1.0")).toBe("The first version.");
  expect(sectionOf(changelog, "0.1")).toBeUndefined();
});
