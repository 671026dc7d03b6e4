// How options decide about TLS and authentication: never weaker than libpq's modes.
import { expect, test } from "vitest";
import { allowedMethods, allowsEarlyQuery, fewestIterations } from "../../js/config/authentication.ts";
import type { Options } from "../../js/config/options.ts";
import { deservesNextAttempt, explained, tlsPlan } from "../../js/config/tls.ts";
import { ConnectionError, fromErrorResponse } from "../../js/util/errors.ts";
import { of } from "./config-input.ts";

const node: Parameters<typeof tlsPlan>[1] = {
  name: "Node",
  capabilities: {
    canSkipVerification: true,
    canUseCustomCa: true,
    canAlpn: true,
    canClientCertificate: true,
    canShowCertificate: true,
  },
};
const workers: Parameters<typeof tlsPlan>[1] = { name: "Cloudflare Workers" };
const plan = (options: Options, runtime: typeof node) => {
  const { attempts, verify } = tlsPlan(of({ user: "a", host: "h", ...options }), runtime);
  return `${attempts.map((encrypt) => (encrypt ? "TLS" : "plain")).join(", ")}; ${verify}`;
};
const ca = "-----BEGIN CERTIFICATE-----\nx";

test.each<[Options, string, string]>([
  [{ sslmode: "disable" }, "plain; none", "plain; none"],
  [{ sslmode: "allow" }, "plain, TLS; none", "plain, TLS; full"],
  [{ sslmode: "prefer" }, "TLS, plain; none", "TLS; full"],
  [{}, "TLS, plain; none", "TLS; full"],
  [{ sslmode: "require" }, "TLS; none", "TLS; full"],
  [{ sslmode: "verify-ca" }, "TLS; ca", "TLS; full"],
  [{ sslmode: "verify-full" }, "TLS; full", "TLS; full"],
  [{ sslmode: "verify-full", servername: "h" }, "TLS; full", "TLS; full"],
])("the TLS plan of %j in Node, and on Workers", (options, inNode, onWorkers) => {
  expect([plan(options, node), plan(options, workers)]).toEqual([inNode, onWorkers]);
});

test.each<[Options, string, string]>([
  [{ sslmode: "require", ca }, "TLS; ca", "ca"],
  [{ sslmode: "prefer", ca }, "TLS, plain; ca", "ca"],
  [{ sslmode: "verify-full", ca }, "TLS; full", "ca"],
  [{ sslmode: "verify-full", cert: ca, key: ca }, "TLS; full", "cert"],
  [{ sslmode: "require", sslnegotiation: "direct" }, "TLS; none", "sslnegotiation"],
  [{ sslmode: "verify-full", sslnegotiation: "direct" }, "TLS; full", "sslnegotiation"],
  [{ sslmode: "require", servername: "other" }, "TLS; none", "servername"],
])("%j works in Node, and is an error on Workers", (options, inNode, named) => {
  expect(plan(options, node)).toBe(inNode);
  expect(() => plan(options, workers)).toThrow(
    expect.objectContaining({
      code: "UNSUPPORTED_ON_RUNTIME",
      message: expect.stringMatching(`Cloudflare Workers.*"${named}"`),
    }),
  );
});

test("if sslmode asks for no check, the error of a failed handshake says what to do", () => {
  const failed = () => new ConnectionError("TLS_FAILED", "TLS failed: unknown issuer.", { stage: "tls" });
  const said = (sslmode: NonNullable<Options["sslmode"]>, runtime: typeof node) =>
    explained(failed(), of({ user: "a", host: "h", sslmode }), runtime).message;
  expect(said("prefer", node)).toBe("TLS failed: unknown issuer.");
  expect(said("verify-full", { name: "workerd" })).toBe("TLS failed: unknown issuer.");
  expect(said("verify-full", node)).toBe("TLS failed: unknown issuer.");
  const ofNetwork = new ConnectionError("TLS_FAILED", "TLS failed: cut.", { stage: "tls", hasNoEffect: true });
  const options = { user: "a", host: "h", sslmode: "verify-full" } as const;
  for (const cause of [{ code: "DEPTH_ZERO_SELF_SIGNED_CERT" }, new Error("invalid peer certificate: UnknownIssuer")]) {
    const error = new ConnectionError("TLS_FAILED", "TLS failed: it is.", { stage: "tls", cause });
    expect(explained(error, of(options), node).message).toMatch(/CA of your own.*Debian.*as option ca\.$/);
  }
  expect(explained(ofNetwork, of(options), node).message).toBe("TLS failed: cut.");
  expect(explained(failed(), of({ ...options, ca }), node).message).toBe("TLS failed: unknown issuer.");
  expect(said("prefer", { name: "workerd" })).toBe(
    "TLS failed: unknown issuer. workerd checks the server's certificate and name with sslmode=prefer too: give the " +
      "server a certificate of a public CA, connect through Hyperdrive, or set sslmode=disable where the link is private.",
  );
  expect(said("require", { name: "mine", capabilities: { canUseCustomCa: true } })).toMatch(
    /mine checks .* with sslmode=require too: pass its CA as option ca, or set sslmode=disable/,
  );
  const lost = new ConnectionError("CONNECTION_LOST", "The connection was lost: it was.", { stage: "session" });
  expect(explained(lost, of({ user: "a", host: "h", sslmode: "prefer" }), { name: "workerd" }).message).toBe(
    "The connection was lost: it was.",
  );
});

test("required channel binding is never sent without TLS, and is refused if the runtime shows no certificate", () => {
  const channelBinding = "require";
  for (const sslmode of ["allow", "prefer", "require"] as const)
    expect(plan({ channelBinding, sslmode }, node)).toBe("TLS; none");
  expect(plan({ channelBinding, sslmode: "verify-full" }, node)).toBe("TLS; full");
  for (const [options, runtime, words] of [
    [{ sslmode: "verify-full" }, workers, /Cloudflare Workers.*set channel_binding=prefer\.$/],
    [{ sslmode: "disable" }, node, /without TLS.*channel_binding=prefer/],
    [{ host: "/tmp" }, node, /without TLS/],
  ] as [Options, typeof node, RegExp][]) {
    expect(() => plan({ channelBinding, ...options }, runtime)).toThrow(
      expect.objectContaining({ code: "CHANNEL_BINDING_UNSUPPORTED", message: expect.stringMatching(words) }),
    );
  }
});

test("TLS options have no effect without TLS", () =>
  expect(plan({ sslmode: "disable", ca }, workers)).toBe("plain; none"));

test("on no runtime does a mode verify less than libpq's, or connect in plain where libpq would not", () => {
  const strength = { none: 0, ca: 1, full: 2 };
  const least = { disable: 0, allow: 0, prefer: 0, require: 0, "verify-ca": 1, "verify-full": 2 };
  for (const runtime of [
    node,
    workers,
    { ...node, capabilities: { ...node.capabilities, canSkipVerification: false } },
    { ...workers, capabilities: { canSkipVerification: true } },
  ]) {
    for (const [sslmode, verified] of Object.entries(least)) {
      const { attempts, verify } = tlsPlan(of({ user: "a", sslmode: sslmode as never }), runtime);
      expect(strength[verify]).toBeGreaterThanOrEqual(verified);
      if (/^(require|verify)/.test(sslmode)) expect(attempts.every(Boolean)).toBe(true);
    }
  }
});

test("only a failed handshake or a missing pg_hba.conf line leads to the next attempt", () => {
  expect(deservesNextAttempt(new ConnectionError("TLS_FAILED", "x", { stage: "tls" }))).toBe(true);
  expect(deservesNextAttempt(fromErrorResponse({ code: "28000" }, { isStartup: true }))).toBe(true);
  for (const code of ["28P01", "57P03", "53300", "3D000", "128000", "280001"])
    expect(deservesNextAttempt(fromErrorResponse({ code }, { isStartup: true }))).toBe(false);
  expect(deservesNextAttempt(new ConnectionError("CONNECT_FAILED", "x", { stage: "tcp" }))).toBe(false);
  expect(deservesNextAttempt(new Error("28000"))).toBe(false);
});

test("requireAuth and the link decide which authentication methods are allowed", () => {
  const bits = (options: Options, encrypted: boolean, verify: "none" | "ca" | "full" = "full") =>
    allowedMethods(of({ user: "a", ...options }), verify, encrypted);
  expect(bits({}, true)).toBe(1 | 2 | 4 | 8);
  expect(bits({}, false)).toBe(1 | 4 | 8 | 16);
  expect(bits({ localLink: true }, false)).toBe(15);
  expect(bits({ allowCleartextPassword: true }, false)).toBe(15);
  expect(bits({ requireAuth: "scram-sha-256" }, true)).toBe(8);
  expect(bits({ requireAuth: "gss, md5 ,none" }, true)).toBe(1 | 4);
  expect(bits({ requireAuth: "!md5,!password" }, true)).toBe(1 | 8);
  expect(bits({ requireAuth: "password" }, true)).toBe(2);
  expect(bits({ requireAuth: "password" }, false)).toBe(16);
  expect(bits({ requireAuth: "!none, !gss" }, true)).toBe(2 | 4 | 8);
  expect(bits({ requireAuth: " !none,!sspi,!oauth" }, true)).toBe(2 | 4 | 8);
});

test("a cleartext password needs verified TLS, a local link, or to be allowed by name", () => {
  const unverified = (options: Options) => allowedMethods(of({ user: "a", ...options }), "none", true);
  expect(unverified({})).toBe(1 | 4 | 8 | 256);
  expect(unverified({ requireAuth: "!md5" })).toBe(1 | 8 | 256);
  expect(unverified({ requireAuth: "password" })).toBe(2);
  expect(unverified({ requireAuth: "scram-sha-256,password" })).toBe(2 | 8);
  expect(unverified({ requireAuth: "scram-sha-256, password " })).toBe(2 | 8);
  expect(unverified({ requireAuth: "scram-sha-256" })).toBe(8);
  expect(unverified({ allowCleartextPassword: true })).toBe(15);
  expect(unverified({ localLink: true })).toBe(15);
  expect(allowedMethods(of({ user: "a" }), "ca", true)).toBe(15);
});

test("few SCRAM iterations need verified TLS, a local link, or a smaller scramMinIterations", () => {
  const fewest = (options: Options, verify: "none" | "ca" | "full", encrypted: boolean) =>
    fewestIterations(of({ user: "a", ...options }), verify, encrypted);
  expect([fewest({}, "none", false), fewest({}, "none", true), fewest({}, "full", false)]).toEqual([4096, 4096, 4096]);
  expect([fewest({}, "ca", true), fewest({}, "full", true)]).toEqual([1, 1]);
  expect(fewest({ scramMinIterations: 10_000 }, "full", true)).toBe(1);
  expect(fewest({ localLink: true }, "none", false)).toBe(1);
  expect(fewest({ scramMinIterations: 1 }, "none", false)).toBe(1);
  expect(fewest({ scramMinIterations: 10_000 }, "none", true)).toBe(10_000);
  expect(fewest({ allowCleartextPassword: true }, "none", true)).toBe(4096);
});

test("an early query is sent by default only to a verified server", () => {
  const early = (options: Options, verify: "none" | "ca" | "full", encrypted: boolean) =>
    allowsEarlyQuery(of({ user: "a", ...options }), verify, encrypted);
  expect(early({}, "full", true)).toBe(true);
  expect([early({}, "none", true), early({}, "ca", true), early({}, "full", false), early({}, "none", false)]).toEqual([
    false,
    false,
    false,
    false,
  ]);
  expect(early({ localLink: true }, "none", false)).toBe(true);
  expect(early({ earlyQuery: true }, "none", false)).toBe(true);
  expect(early({ earlyQuery: false, localLink: true }, "full", true)).toBe(false);
});
