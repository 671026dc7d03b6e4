// PostgreSQL 18 with the extension pgvector, for a release's tests: Debian's packages, unpacked by the first run. They
// have no pgvector for PostgreSQL 19 yet.
import { existsSync } from "node:fs";
import path from "node:path";
import { unpackServer } from "./debian.mjs";
import { world } from "./home.mjs";
import { newCluster, prepare, run } from "./postgres.mjs";

const MAJOR = 18;
const PACKAGES = [`postgresql-${MAJOR}`, `postgresql-${MAJOR}-pgvector`];

/** Starts the server. Returns the descriptor of index.mjs, and `stop`. Rejects if the packages cannot be had. */
export async function startWithVector({ log }) {
  const folder = path.join(world(), `postgresql-${MAJOR}-pgvector`);
  const native = `usr/lib/postgresql/${MAJOR}`;
  if (!existsSync(folder)) await unpackServer(PACKAGES, [], folder, path.join(native, "bin"));
  return await run(await newCluster(MAJOR, path.join(folder, native)), { log, prepare });
}
