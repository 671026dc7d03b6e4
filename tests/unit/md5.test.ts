// The answer to AuthenticationMD5Password: known answers (Python's hashlib), with the runtime's MD5 and without it.
import { createHash } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { md5Password } from "../../js/login/md5.ts";
import { installRuntime, type Runtime } from "../../js/runtime/runtime.ts";

const runtime = {
  name: "test",
  module: () => new Uint8Array(),
  connect: () => Promise.reject(),
  background: () => {},
} as unknown as Runtime;
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

beforeEach(() => installRuntime({ ...runtime, md5: (bytes) => createHash("md5").update(bytes).digest() }));

test.each([
  ["postgres", "secret", 0x01020304, "md5bb41a296aab6baccb36ff243a562abff"],
  ["", "", 0, "md591b86670dcd47857d222fa05653500aa"],
  ["u", "pä", 0xff002c0a, "md5d52920e7992817d8a8769a1f936e1414"],
])("the answer for user %j, password %j, salt %d is as Python computes it", async (user, password, salt, expected) => {
  expect(text(await md5Password(user, password, salt))).toBe(expected);
});

test("a promise from the runtime is awaited", async () => {
  installRuntime({ ...runtime, md5: async (bytes) => createHash("md5").update(bytes).digest() });
  expect(text(await md5Password("postgres", "secret", 0x01020304))).toBe("md5bb41a296aab6baccb36ff243a562abff");
});

test.each([
  undefined,
  () => {
    throw new Error("no such digest");
  },
  () => Promise.reject(new Error("no such digest")),
])("without MD5 the error says what to do (%#)", async (md5) => {
  installRuntime(md5 ? { ...runtime, md5 } : runtime);
  await expect(md5Password("u", "p", 1)).rejects.toMatchObject({
    name: "AuthenticationError",
    code: "AUTH_METHOD_UNSUPPORTED",
    message: expect.stringContaining("scram-sha-256"),
  });
});
