// The bare socket of the benchmarks drives the core by hand, without js/. This test fails when an export or an event
// changes, so that the change is noticed before the next benchmark.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";

test("bench/stream/drain.mjs logs in and drains rows repeatedly", () => {
  const { host, port, database, user, password } = testServers().servers[0]!;
  const url = `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;
  const code = `
    import { open } from ${JSON.stringify(new URL("../../bench/stream/drain.mjs", import.meta.url).href)};
    const { run, backend } = await open(${JSON.stringify(url)});
    let bytes = 0;
    for (let time = 0; time < 3; time++) 
    await run("select n, 'x' as x from generate_series(1, 1000) n", (chunk) => void (bytes += chunk.length));
    console.log(JSON.stringify({ backend, bytes }));
    process.exit();`;
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const { backend, bytes } = JSON.parse(
    execFileSync(process.execPath, ["--input-type=module", "-e", code], {
      cwd: root,
      encoding: "utf8",
      timeout: 20_000,
    }),
  ) as Record<string, number>;
  expect(backend).toBeGreaterThan(0);
  // A DataRow has 20 bytes; other messages surround them.
  expect(bytes).toBeGreaterThan(3 * 1000 * 20);
});
