// `pgz-edge/vpc` over stand-ins for the bindings of Workers VPC, which exist on the platform only: networks of workerd,
// one that trusts the CA of the test server and one that does not.
import { readFileSync } from "node:fs";
import pg from "pg";
import { expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { until } from "../support/until.mjs";
import { useWorker } from "./use-worker.ts";

const server = testServers().servers.find(({ caFile }) => caFile !== undefined)!;
const { hostname, port, username, password, pathname } = new URL(server.url);
const trustedCertificates = [readFileSync(server.caFile!, "utf8")];
const serviceBindings = {
  /** Trusts the private CA. The Worker asks for TLS. */
  PRIVATE: { network: { allow: ["private", "public"], tlsOptions: { trustedCertificates } } },
  /** Trusts public CAs only. */
  PUBLIC: { network: { allow: ["private", "public"], tlsOptions: { trustBrowserCas: true } } },
};
const bindings = { TEXT: "postgres://localhost" };
const { ask } = useWorker("fixture/vpc.ts", { options: { serviceBindings, bindings } });
const options = (more: object) => ({
  ...{ host: hostname, port: Number(port), user: username, password, database: pathname.slice(1) },
  ...more,
});

test("where the platform trusts the server's CA, each mode with TLS works", async () => {
  for (const sslmode of ["verify-full", "require"])
    expect(await ask("", { binding: "PRIVATE", options: options({ sslmode }) })).toEqual({ ssl: true });
});

test("where it does not, the certificate is refused in each mode", async () => {
  for (const sslmode of ["verify-full", "require"])
    expect(await ask("", { binding: "PUBLIC", options: options({ sslmode }) })).toMatch(/^TLS_FAILED/);
});

test("without TLS it works, and a cancel goes through the binding too", async () => {
  const cancelled = "select pg_sleep(3600) as vpc";
  const task = { binding: "PRIVATE", cancelled, options: options({ sslmode: "disable" }) };
  expect(await ask("", task)).toEqual({ ssl: false });
  // Without a cancel the server would run it for an hour, even after its client has gone.
  const admin = new pg.Client({ connectionString: server.superuserUrl });
  await admin.connect();
  try {
    const running = "select from pg_stat_activity where state = 'active' and query like $1 and pid <> pg_backend_pid()";
    await until(async () => (await admin.query(running, [`%${cancelled}%`])).rowCount === 0, "it is cancelled");
  } finally {
    await admin.end();
  }
});

test("a Unix socket is refused, because it would need no TLS", async () => {
  const unix = { ...options({ sslmode: "verify-full" }), host: "/tmp", hostaddr: "127.0.0.1" };
  expect(await ask("", { binding: "PRIVATE", options: unix })).toBe("UNSUPPORTED_ON_RUNTIME");
});

test("a binding that is missing, or that opens no sockets, is refused", async () => {
  for (const binding of ["MISSPELT", "TEXT"])
    expect(await ask("", { binding, options: options({ sslmode: "disable" }) })).toBe("INVALID_OPTION");
});

test("a binding may give a promise, and one that rejects is an error of the driver", async () => {
  expect(await ask("", { binding: "PRIVATE", promised: true, options: options({ sslmode: "require" }) })).toEqual({
    ssl: true,
  });
  for (const gives of [undefined, null, {}])
    expect(await ask("", { binding: "TEXT", promised: true, gives, options: options({}) })).toBe(
      "CONNECT_FAILED, retryable",
    );
});

test("elsewhere than on Workers it is refused", async () => {
  const { vpc } = (await import("pgz-edge/vpc")) as { vpc: (binding: object) => unknown };
  expect(() => vpc({ connect() {} })).toThrow(/on Workers only/);
});
