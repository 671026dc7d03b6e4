// Bundles the simulator with the driver's sources into one file that Node can import.
//
// `edit(file, text)` may replace the text of one of js/'s files, to see whether the simulator finds a fault in it.
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
const entry = fileURLToPath(new URL("campaign.ts", import.meta.url));

export async function bundled(edit, name = `simulation-${process.pid}`) {
  const outfile = path.join(root, ".cache/simulation", `${name}.mjs`);
  mkdirSync(path.dirname(outfile), { recursive: true });
  const edits = {
    name: "edits",
    setup(all) {
      all.onLoad({ filter: /[\\/]js[\\/].*\.ts$/ }, ({ path: file }) => {
        const contents = edit(path.relative(root, file), readFileSync(file, "utf8"));
        return { contents, loader: "ts" };
      });
    },
  };
  await build({
    absWorkingDir: root,
    entryPoints: [entry],
    outfile,
    bundle: true,
    ignoreAnnotations: true, // package.json says that no file has side effects; patches.ts has some
    format: "esm",
    platform: "node",
    target: "node20",
    loader: { ".wasm": "binary" },
    logLevel: "warning",
    sourcemap: "inline",
    plugins: edit ? [edits] : [],
  });
  return outfile;
}

export async function loaded(edit) {
  return import(pathToFileURL(await bundled(edit)).href);
}
