// The files in docker/ are right as far as a test without Docker can tell: the compose file parses and names files that
// exist, the init script makes certificates that verify, and the init SQL has run on every server of this test run
// (tests/servers/postgres.mjs runs it).
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { context } from "../integration/context.ts";
import { testServers } from "../integration/servers.ts";

const docker = fileURLToPath(new URL("../../docker/", import.meta.url));
const read = (name: string) => readFileSync(path.join(docker, name), "utf8");

interface Service {
  image: string;
  volumes?: string[];
  environment: Record<string, string>;
  depends_on?: Record<string, unknown>;
}
const { services } = parse(read("compose.yaml")) as { services: Record<string, Service> };

test("the compose file has the three servers, with pinned images and files that exist", () => {
  expect(Object.keys(services)).toEqual(["postgres", "pgbouncer", "citus"]);
  for (const { image, volumes = [], depends_on = {} } of Object.values(services)) {
    expect(image).toMatch(/^[a-z/]+:v?\d[\w.-]*$/);
    for (const volume of volumes) expect(existsSync(path.join(docker, volume.split(":")[0]!)), volume).toBe(true);
    for (const name of Object.keys(depends_on)) expect(services).toHaveProperty(name);
  }
  expect(services["pgbouncer"]!.environment["POOL_MODE"]).toBe("transaction");
});

test("the pooler logs in as a role of the init SQL", () => {
  const { DB_USER, DB_PASSWORD } = services["pgbouncer"]!.environment;
  expect(read("init/10-roles.sql")).toContain(`create role ${DB_USER} login password '${DB_PASSWORD}'`);
});

let folder: string;
beforeAll(() => void (folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-docker-"))));
afterAll(() => rmSync(folder, { recursive: true }));

test("the init script makes a server certificate that the CA signs, and turns TLS on", () => {
  const script = read("init/00-tls.sh").replaceAll("/pgz-edge/", docker);
  writeFileSync(path.join(folder, "postgresql.conf"), "");
  execFileSync("sh", ["-c", script], { env: { ...process.env, PGDATA: folder }, stdio: "pipe" });
  const verified = execFileSync(
    "openssl",
    ["verify", "-CAfile", "ca.crt", "-verify_hostname", "localhost", "server.crt"],
    { cwd: folder, encoding: "utf8" },
  );
  expect(verified).toBe("server.crt: OK\n");
  expect(readFileSync(path.join(folder, "postgresql.conf"), "utf8")).toContain("ssl = on");
  expect(readFileSync(path.join(folder, "pg_hba.conf"), "utf8")).toBe(read("pg_hba.conf"));
});

const servers = testServers();
for (const server of servers.servers.filter(({ own }) => own)) {
  test(`the init SQL made its roles, and pg_hba.conf is in use [${server.name}]`, async () => {
    const t = context("node", {} as never, { server, tls: false }, servers);
    const wanted = [...read("init/10-roles.sql").matchAll(/^create role (\w+)/gm)].map(([, role]) => role).sort();
    const roles = await t.side(
      "select rolname from pg_roles where rolname like 'app%' or rolname = 'demo_reader' order by 1",
    );
    expect(roles.flat()).toEqual(wanted);
    expect(await t.side("select pg_get_userbyid(datdba) from pg_database where datname = 'app'")).toEqual([["app"]]);
    const methods = await t.side(
      "select user_name[1], auth_method from pg_hba_file_rules where type = 'host' order by 1",
    );
    expect(methods).toEqual([
      ["all", "scram-sha-256"],
      ["app_clear", "password"],
      ["app_md5", "md5"],
      ["app_trust", "trust"],
      ["app_turns", "md5"],
    ]);
  });
}
