// SaltedPassword compared with node:crypto's PBKDF2, and the bounds of its cache.
import { pbkdf2Sync } from "node:crypto";
import { afterEach, expect, test, vi } from "vitest";
import { saltedPassword } from "../../js/login/scram-keys.ts";

const oracle = (password: string, salt: string, iterations: number) =>
  new Uint8Array(pbkdf2Sync(password, Buffer.from(salt, "base64"), iterations, 32, "sha256"));
const salt = (n: number) => Buffer.from(`salt number ${n}`).toString("base64");

afterEach(() => vi.restoreAllMocks());

test.each(["pencil", "", "pässword €", "x".repeat(100)])(
  "the salted password equals PBKDF2-HMAC-SHA-256 for %j",
  async (password) => {
    expect(await saltedPassword(password, "W22ZaJ0SNY7soEsUEjb6gQ==", 4096)).toEqual(
      oracle(password, "W22ZaJ0SNY7soEsUEjb6gQ==", 4096),
    );
  },
);

test("a key is derived once for the same password, salt and iterations", async () => {
  const derive = vi.spyOn(crypto.subtle, "deriveBits");
  const first = await saltedPassword("once", salt(1), 10);
  expect(await saltedPassword("once", salt(1), 10)).toBe(first);
  expect(derive).toHaveBeenCalledTimes(1);
});

test("a different password, salt or iteration count gives a different key", async () => {
  const keys = await Promise.all([
    saltedPassword("a", salt(1), 10),
    saltedPassword("b", salt(1), 10),
    saltedPassword("a", salt(2), 10),
    saltedPassword("a", salt(1), 11),
  ]);
  expect(new Set(keys.map((key) => String(key))).size).toBe(4);
});

test("64 keys are cached, and the oldest is dropped first", async () => {
  for (let n = 100; n < 164; n++) await saltedPassword("bounded", salt(n), 1);
  const derive = vi.spyOn(crypto.subtle, "deriveBits");
  await saltedPassword("bounded", salt(100), 1);
  expect(derive).toHaveBeenCalledTimes(0);
  await saltedPassword("bounded", salt(164), 1);
  await saltedPassword("bounded", salt(100), 1);
  expect(derive).toHaveBeenCalledTimes(2);
});

test("a failure of WebCrypto rejects, and is not cached", async () => {
  const derive = vi
    .spyOn(crypto.subtle, "deriveBits")
    .mockRejectedValueOnce(
      new DOMException("Pbkdf2 failed: iteration counts above 100000 are not supported", "NotSupportedError"),
    );
  await expect(saltedPassword("refused", salt(1), 10)).rejects.toMatchObject({
    code: "CONNECT_FAILED",
    stage: "auth",
    cause: { name: "NotSupportedError" },
  });
  expect(await saltedPassword("refused", salt(1), 10)).toEqual(oracle("refused", salt(1), 10));
  expect(derive).toHaveBeenCalledTimes(2);
});

test("a salt that is not base64 rejects", async () => {
  await expect(saltedPassword("pencil", "*", 10)).rejects.toMatchObject({ code: "CONNECT_FAILED" });
});
