// A project as a user of Drizzle 1.0 has it: the published package, and that version as "drizzle-orm". In the tests it
// is called "drizzle-orm-v1", beside 0.45; both names lead to the same files.
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

export class DrizzleProject {
  readonly #folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-drizzle-"));
  readonly #package = path.join(this.#folder, "node_modules/pgz-edge");

  constructor() {
    mkdirSync(this.#package, { recursive: true });
    for (const name of ["package.json", "dist"])
      cpSync(path.join(root, name), path.join(this.#package, name), { recursive: true });
    symlinkSync(path.join(root, "node_modules/drizzle-orm-v1"), path.join(this.#folder, "node_modules/drizzle-orm"));
  }

  /** A file of the package's dist. */
  load(name: string): Promise<unknown> {
    return import(pathToFileURL(path.join(this.#package, "dist", `${name}.js`)).href) as Promise<unknown>;
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
