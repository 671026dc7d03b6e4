// What stops a release before anything is published, the text of its notes, and its list of parts.
import { expect, test } from "vitest";
import { objections, sectionOf } from "../../scripts/release.mjs";
import { sbom } from "../../scripts/sbom.mjs";
import { read } from "./repository.ts";

interface Bom {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly metadata: { readonly component: { readonly purl: string } };
  readonly components: readonly {
    readonly name: string;
    readonly version: string;
    readonly purl: string;
    readonly hashes: readonly { readonly content: string }[];
  }[];
  readonly dependencies: readonly { readonly dependsOn?: readonly string[] }[];
}

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

test("a version that all manifests and the changelog have can be released", () => {
  expect(objections("v0.2.0", { manifests, changelog })).toEqual([]);
});

test.each([
  ["no version", "0.2.0", manifests, ["0.2.0 is no version: v1.2.3"]],
  ["a manifest of another version", "v0.2.0", { ...manifests, "jsr.json": "0.1.0" }, ["jsr.json has version 0.1.0"]],
  ["no section", "v0.3.0", { "package.json": "0.3.0" }, ["CHANGELOG.md has no section ## 0.3.0"]],
])("%s is refused", (_, tag, all, expected) => {
  expect(objections(tag, { manifests: all, changelog })).toEqual(expected);
});

test("the release notes are the version's own section", () => {
  expect(sectionOf(changelog, "0.2.0")).toBe("- a fault\n### Packaging\n- a file");
  expect(sectionOf(changelog, "0.1.0")).toBe("The first version.");
  expect(sectionOf(changelog, "0.1")).toBeUndefined();
});

test("the list of parts has each crate of the wasm with its checksum and the crates that require it", () => {
  const bom = JSON.parse(sbom()) as Bom;
  expect([bom.bomFormat, bom.specVersion, bom.metadata.component.purl]).toEqual([
    "CycloneDX",
    "1.6",
    `pkg:npm/pgz-edge@${(JSON.parse(read("package.json")) as { version: string }).version}`,
  ]);
  const titles = read("dist/THIRD-PARTY-LICENSES.txt").matchAll(/^-{120}\n(\S+ \S+) \(/gm);
  const names = bom.components.map(({ name, version }) => `${name} ${version}`);
  expect(names.sort()).toEqual([...titles].map(([, title]) => title).sort());
  const checksums = read("Cargo.lock");
  for (const { hashes } of bom.components) expect(checksums).toContain(`checksum = "${hashes[0]!.content}"`);
  const wanted = new Set(bom.dependencies.flatMap(({ dependsOn = [] }) => dependsOn));
  expect(bom.components.filter(({ purl }) => !wanted.has(purl))).toEqual([]);
});
