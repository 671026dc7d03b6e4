// Writes bench/results/size.json from the build, without measuring anything else. `make bench` does so too. It prints
// where the bytes of README's Worker lie, by folders of js/ and by modules of the core.
import { writeFileSync } from "node:fs";
import { build } from "../scripts/build.mjs";
import { bundleSizes, packageSizes, peerSizes } from "../scripts/sizes.mjs";
import { textOf } from "./lib/results.mjs";
import { partsOfCore, partsOfScript } from "./lib/size-parts.mjs";

await build();
const found = { ...(await bundleSizes()), ...(await peerSizes()), ...packageSizes() };
writeFileSync(new URL("results/size.json", import.meta.url), textOf(found));
table("README's Worker by folders: bytes, minified", await partsOfScript());
table("the wasm by modules: bytes of code, before wasm-opt", partsOfCore());
console.log(JSON.stringify(found));

function table(title, parts) {
  console.log(title);
  for (const [name, bytes] of [...parts].sort(([, one], [, other]) => other - one)) {
    console.log(`${String(bytes).padStart(9)} ${name}`);
  }
}
