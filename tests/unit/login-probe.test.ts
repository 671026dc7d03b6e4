// Which answer to an authentication request is sent before the request, and for which server that is remembered.
import { expect, test } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Config, Options } from "../../js/config/options.ts";
import { probeFor as probeOf, remember as rememberOf } from "../../js/login/login-probe.ts";
import { knownServer } from "../../js/server/known-server.ts";
import { CLEARTEXT_FIRST, SCRAM_FIRST, SCRAM_PLUS_FIRST } from "../../js/wasm/boundary.ts";

const of = (options: Options = {}) => resolveConfig({ host: "h", user: "ada", ...options });
type Asked = Parameters<typeof probeOf>;
const probeFor = (config: Config, verify: Asked[2], encrypted: boolean, isBindable?: boolean) =>
  probeOf(knownServer(config), config, verify, encrypted, isBindable);
const remember = (config: Config, encrypted: boolean, mechanisms: readonly string[]) =>
  rememberOf(knownServer(config), encrypted, mechanisms);
const SCRAM = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"];

test("a cleartext password is sent first only over fully verified TLS, if no other method is accepted", () => {
  const config = of({ requireAuth: "password" });
  expect(probeFor(config, "full", true)).toBe(CLEARTEXT_FIRST);
  expect(probeFor(config, "full", false)).toBe(0);
  expect(probeFor(config, "ca", true)).toBe(0);
  expect(probeFor(config, "none", true)).toBe(0);
  expect(probeFor(of({ requireAuth: "password,scram-sha-256" }), "full", true)).toBe(0);
  remember(config, true, SCRAM);
  expect(probeFor(config, "none", true)).toBe(0);
  remember(config, true, []);
});

test("SCRAM is sent first if only SCRAM is accepted, unless the server is known to request otherwise", () => {
  const config = of({ port: 1, requireAuth: "scram-sha-256" });
  expect(probeFor(config, "none", false)).toBe(SCRAM_FIRST);
  remember(config, false, []);
  expect(probeFor(config, "none", false)).toBe(0);
  remember(config, false, SCRAM);
  expect(probeFor(config, "none", false)).toBe(SCRAM_FIRST);
});

test.each<[string, Options, boolean]>([
  ["host", { host: "other" }, false],
  ["port", { port: 3 }, false],
  ["user", { user: "eve" }, false],
  ["database", { database: "other" }, false],
  ["TLS", {}, true],
])("what one server requested does not apply to another %s", (_, other, encrypted) => {
  const config = of({ port: 2 });
  expect(probeFor(config, "none", false)).toBe(0);
  remember(config, false, SCRAM);
  expect(probeFor(config, "none", false)).toBe(SCRAM_FIRST);
  expect(probeFor(of({ port: 2, ...other }), "none", encrypted)).toBe(0);
  remember(config, false, ["SCRAM-SHA-256-PLUS"]);
  expect(probeFor(config, "none", false)).toBe(0);
  remember(config, false, []);
});

test("SCRAM-SHA-256-PLUS is sent first with a certificate, if the server offered it or is unknown", () => {
  const config = of({ port: 6, requireAuth: "scram-sha-256" });
  const guess = () => [probeFor(config, "none", true, true), probeFor(config, "none", true, false)];
  expect(guess()).toEqual([SCRAM_FIRST | SCRAM_PLUS_FIRST, SCRAM_FIRST]);
  remember(config, true, ["SCRAM-SHA-256"]);
  expect(guess()).toEqual([SCRAM_FIRST, SCRAM_FIRST]);
  remember(config, true, ["SCRAM-SHA-256-PLUS"]);
  expect(guess()).toEqual([SCRAM_FIRST | SCRAM_PLUS_FIRST, 0]);
  remember(config, true, []);
  expect(guess()).toEqual([0, 0]);
});
