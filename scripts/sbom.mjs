// Lists the parts of the package in CycloneDX: `node scripts/sbom.mjs > pgz-edge.cdx.json`. Each release includes the
// file.
//
// The driver has no npm dependency; its parts are the crates in the wasm. The list has no time and no serial number, so
// that the same commit gives the same file.
import { readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Enums, Models, Serialize, Spec } from "@cyclonedx/cyclonedx-library";
import { linkedCrates } from "./licenses.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (name) => readFileSync(path.join(root, name), "utf8");

/** Returns JSON of CycloneDX 1.6. */
export function sbom() {
  const { name, version, license } = JSON.parse(read("package.json"));
  const driver = component(Enums.ComponentType.Library, name, version, license, `pkg:npm/${name}@${version}`);
  const crates = linkedCrates();
  const byId = new Map(crates.map((crate) => [crate.id, componentOf(crate)]));
  const wanted = new Set(crates.flatMap(({ needs }) => needs));
  for (const { id, needs } of crates) {
    for (const other of needs) byId.get(id).dependencies.add(byId.get(other).bomRef);
    if (!wanted.has(id)) driver.dependencies.add(byId.get(id).bomRef);
  }
  const bom = new Models.Bom({
    metadata: new Models.Metadata({ component: driver }),
    components: new Models.ComponentRepository(byId.values()),
  });
  const serializer = new Serialize.JsonSerializer(new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6));
  return serializer.serialize(bom, { sortLists: true, space: 2 });
}

function componentOf({ name, version, license }) {
  const crate = component(Enums.ComponentType.Library, name, version, license, `pkg:cargo/${name}@${version}`);
  const checksum = new RegExp(
    `name = "${name}"\nversion = "${version.replaceAll(".", "\\.")}"\n.*\nchecksum = "(\\w+)"`,
  );
  crate.hashes.set(Enums.HashAlgorithm["SHA-256"], checksum.exec(read("Cargo.lock"))[1]);
  return crate;
}

function component(type, name, version, license, purl) {
  const licenses = new Models.LicenseRepository([new Models.LicenseExpression(license)]);
  return new Models.Component(type, name, { version, purl, bomRef: purl, licenses });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) console.log(sbom());
