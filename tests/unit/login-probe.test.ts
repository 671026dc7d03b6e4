// Which answer of a login is sent ahead of the question, and for which server that is remembered.
import { expect, test } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Options } from "../../js/config/options.ts";
import { probeFor, remember, serverOf } from "../../js/connection/login-probe.ts";
import { MOST_SERVERS } from "../../js/util/limits.ts";
import { CLEARTEXT_FIRST, SCRAM_FIRST, SCRAM_PLUS_FIRST } from "../../js/wasm/boundary.ts";

const of = (options: Options = {}) => resolveConfig({ host: "h", user: "ada", ...options });
const SCRAM = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"];

test("a password in clear is sent ahead only over TLS that was fully verified, and only if nothing else is accepted", () => {
  const config = of({ requireAuth: "password" });
  expect(probeFor(config, "full", true)).toBe(CLEARTEXT_FIRST);
  expect(probeFor(config, "full", false)).toBe(0);
  expect(probeFor(config, "ca", true)).toBe(0);
  expect(probeFor(config, "none", true)).toBe(0);
  expect(probeFor(of({ requireAuth: "password,scram-sha-256" }), "full", true)).toBe(0);
  remember(serverOf(config, true), SCRAM);
  expect(probeFor(config, "none", true)).toBe(0);
  remember(serverOf(config, true), []);
});

test("SCRAM is guessed where only that is accepted, unless the server is known to ask for something else", () => {
  const config = of({ port: 1, requireAuth: "scram-sha-256" });
  expect(probeFor(config, "none", false)).toBe(SCRAM_FIRST);
  remember(serverOf(config, false), []);
  expect(probeFor(config, "none", false)).toBe(0);
  remember(serverOf(config, false), SCRAM);
  expect(probeFor(config, "none", false)).toBe(SCRAM_FIRST);
});

test.each<[string, Options, boolean]>([
  ["host", { host: "other" }, false],
  ["port", { port: 3 }, false],
  ["user", { user: "eve" }, false],
  ["database", { database: "other" }, false],
  ["TLS", {}, true],
])("what one server asked for says nothing of another %s", (_, other, encrypted) => {
  const config = of({ port: 2 });
  expect(probeFor(config, "none", false)).toBe(0);
  remember(serverOf(config, false), SCRAM);
  expect(probeFor(config, "none", false)).toBe(SCRAM_FIRST);
  expect(probeFor(of({ port: 2, ...other }), "none", encrypted)).toBe(0);
  remember(serverOf(config, false), ["SCRAM-SHA-256-PLUS"]);
  expect(probeFor(config, "none", false)).toBe(0);
  remember(serverOf(config, false), []);
});

test("SCRAM-SHA-256-PLUS is guessed with a certificate to bind to, of a server that offered it or is not known", () => {
  const config = of({ port: 6, requireAuth: "scram-sha-256" });
  const guess = () => [probeFor(config, "none", true, true), probeFor(config, "none", true, false)];
  expect(guess()).toEqual([SCRAM_FIRST | SCRAM_PLUS_FIRST, SCRAM_FIRST]);
  remember(serverOf(config, true), ["SCRAM-SHA-256"]);
  expect(guess()).toEqual([SCRAM_FIRST, SCRAM_FIRST]);
  remember(serverOf(config, true), ["SCRAM-SHA-256-PLUS"]);
  expect(guess()).toEqual([SCRAM_FIRST | SCRAM_PLUS_FIRST, 0]);
  remember(serverOf(config, true), []);
  expect(guess()).toEqual([0, 0]);
});

test("a bounded number of servers is remembered", () => {
  const first = of({ port: 4 });
  remember(serverOf(first, true), SCRAM);
  for (let n = 0; n < MOST_SERVERS - 1; n++) remember(`filler ${n}`, SCRAM);
  expect(probeFor(first, "none", true)).toBe(SCRAM_FIRST);
  remember("one more", SCRAM);
  expect(probeFor(first, "none", true)).toBe(0);
  const last = of({ port: 5 });
  remember(serverOf(last, true), SCRAM);
  remember(serverOf(last, true), SCRAM);
  expect(probeFor(last, "none", true)).toBe(SCRAM_FIRST);
});
