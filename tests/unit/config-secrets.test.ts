// Neither errors nor printed forms of a Config show a password or a key.
import { inspect } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import { of, refused } from "./config-input.ts";

const everything = (value: unknown): string => {
  const error = value as Error;
  const shown = [
    inspect(value, { depth: null, showHidden: true, getters: true }),
    JSON.stringify(value),
    String(value),
    JSON.stringify({ ...(value as object) }),
  ];
  if (error instanceof Error) shown.push(error.message, error.stack ?? "", inspect(error.cause));
  return shown.join("\n");
};

const password = fc
  .string({
    unit: fc.constantFrom(..."abcXYZ019@:/?#[]%&=+ ,\\\"'`$é😀\0\n", "host=", "%41"),
    minLength: 6,
    maxLength: 24,
  })
  .map((text) => `Zq7${text}`);
const place = fc.constantFrom<(password: string) => string>(
  (p) => `postgres://ada:${p}@h/d`,
  (p) => `postgres://ada:${p}@h:port/d`,
  (p) => `postgres://ada:${p}@[::1/d?sslmode=x`,
  (p) => `postgres://ada:${encodeURIComponent(p)}@h/d?nope=1`,
  (p) => `postgres://ada:${encodeURIComponent(p)}@h/d`,
  (p) => `postgres://ada:${encodeURIComponent(p)}@h:0/d`,
  (p) => `postgres://${p}@h/d`.replace("://", "://ada:"),
  (p) => `postgres//ada:${p}@h/d`,
  (p) => `postgres://ada:${p}`,
  (p) => `postgres://ada:${p}/d?user=ada`,
  (p) => `ada:${p}@h/d`,
  (p) => `postgres://h/d?user=ada&password=${p}`,
  (p) => `postgres://h/d?user=ada&pasword=${p}`,
  (p) => `postgres://h/d?user=ada&sslmode=${p}`,
  (p) => `postgres://h/d?user=ada&connect_timeout=${p}`,
  (p) => `host=h user=ada password=${p}`,
);

test("neither an error nor a printed Config shows a password, however malformed the URL is", () => {
  let errors = 0;
  fc.assert(
    fc.property(password, place, fc.boolean(), (secret, write, asObject) => {
      const url = write(secret);
      let outcome: unknown;
      try {
        outcome = resolveConfig(asObject ? { connectionString: url } : url);
      } catch (error) {
        errors++;
        outcome = error;
      }
      expect(everything(outcome)).not.toContain(secret);
      expect(everything(outcome)).not.toContain("Zq7");
    }),
    { numRuns: 3_000 },
  );
  expect(errors).toBeGreaterThan(1_000);
});

test("a password and a key from an object are not shown either", () => {
  const config = of({
    user: "ada",
    password: "Zq7 secret",
    cert: "-----BEGIN CERTIFICATE-----\nx",
    key: "-----BEGIN PRIVATE KEY-----\nZq7",
  });
  expect(everything(config)).not.toContain("Zq7");
  expect(everything(refused({ user: "ada", password: "Zq7 secret\0" }))).not.toContain("Zq7");
  expect(everything(refused({ user: "ada", password: "Zq7 secret", port: -1 }))).not.toContain("Zq7");
});

test("the rest of a password after an unencoded & is not repeated", () => {
  const error = refused("postgres://u@h/d?password=ab&hunter=x");
  expect(error.code).toBe("UNKNOWN_OPTION");
  expect(error.message).not.toContain("hunter");
});
