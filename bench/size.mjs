// Writes bench/results/size.json from the build, without measuring anything else. `make bench` does so too.
import { writeFileSync } from "node:fs";
import { build, sizes } from "../scripts/build.mjs";

await build();
const found = await sizes();
writeFileSync(new URL("results/size.json", import.meta.url), `${JSON.stringify(found, null, 2)}\n`);
console.log(JSON.stringify(found));
