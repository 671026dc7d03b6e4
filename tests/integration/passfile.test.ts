// Password files with a real server, on the runtimes that have files: Node, Deno and Bun. tests/unit/passfile.test.ts
// has the meaning of a line.
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { afterEach, describe, expect, test } from "vitest";
import { runtime, testServers } from "./servers.ts";

const { connect } = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");
const folder = mkdtempSync(path.join(process.env["PGZ_TEST_RUN_FOLDER"]!, "passfile-"));

const file = path.join(folder, "file");
const { HOME } = process.env;
afterEach(() => {
  delete process.env["PGPASSFILE"];
  process.env["HOME"] = HOME;
});

describe.each(testServers().servers.filter(({ own, tls }) => own && tls))("PostgreSQL $name", (server) => {
  const { host, port, database, user, password = "" } = server;
  const to = { host, port, database, user, sslmode: "require" } as const;
  const line = `${host}:${port}:*:${user}:${password.replace(/[\\:]/g, "\\$&")}\n`;

  async function logsIn(options: object): Promise<void> {
    const client = await connect({ ...to, ...options });
    expect((await client.query("select 1 as n")).rows).toEqual([{ n: 1 }]);
    await client.close();
  }

  function written(text: string, name = file, mode = 0o600): string {
    writeFileSync(name, text);
    chmodSync(name, mode);
    return name;
  }

  test("the password comes from option passfile, from PGPASSFILE, or from the user's own file", async () => {
    await logsIn({ passfile: written(`other:*:*:*:x\n${line}`) });
    process.env["PGPASSFILE"] = written(line);
    await logsIn({});
    delete process.env["PGPASSFILE"];
    process.env["HOME"] = folder;
    written(line, path.join(folder, ".pgpass"));
    await logsIn({});
    await expect(logsIn({ environment: false })).rejects.toMatchObject({ code: "PASSWORD_MISSING" });
  });

  test("the server refuses a wrong password from a file", async () => {
    await expect(logsIn({ passfile: written("*:*:*:*:wrong\n") })).rejects.toMatchObject({ code: "28P01" });
  });

  test("a file that others may read is not used, and the observer is told", async () => {
    const told: string[] = [];
    const observer = { onNotice: ({ message }: { message?: string }) => void told.push(message!) };
    const passfile = written(line, file, 0o644);
    await expect(logsIn({ passfile, observer })).rejects.toMatchObject({ code: "PASSWORD_MISSING" });
    expect(told.length).toBeGreaterThan(0);
    for (const message of told) expect(message).toMatch(/is ignored: group or others may access it/);
  });
});
