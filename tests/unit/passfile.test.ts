// Password files: which line applies to a login according to libpq itself (tests/libpq/passfile.json), which file is
// read, and which is refused.
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { ConnectInput, Options } from "../../js/config/options.ts";
import { passfiles, passwordIn } from "../../js/runtime/passfile.ts";
import { MOST_PASSFILE } from "../../js/util/limits.ts";
import type { Notice } from "../../js/util/observer.ts";

interface Case {
  readonly file: string;
  readonly host: string;
  readonly port: string;
  readonly dbname: string;
  readonly user: string;
  readonly password: string;
}
const { cases } = JSON.parse(readFileSync(new URL("../libpq/passfile.json", import.meta.url), "utf8")) as {
  cases: Case[];
};

let folder = "";
beforeAll(async () => void (folder = await mkdtemp(path.join(tmpdir(), "passfile-"))));
afterAll(() => rm(folder, { recursive: true }));

async function fileOf(text: string, mode = 0o600): Promise<string> {
  const name = path.join(folder, `file-${Math.random()}`);
  await writeFile(name, text);
  await chmod(name, mode);
  return name;
}

interface Around {
  readonly home?: string | undefined;
  readonly variables?: Readonly<Record<string, string>>;
  readonly mayRead?: (path: string) => boolean;
}

/** The password that a login uses, and what the observer is told, on a runtime with files. */
async function loginOf(
  input: ConnectInput,
  { home, variables = {}, mayRead = () => true }: Around = {},
  options: Options = {},
) {
  const told: string[] = [];
  const observer = { onNotice: ({ severity, message }: Notice) => void told.push(`${severity} ${message}`) };
  const variable = (name: string) => variables[name];
  const runtime = { environment: variable, passfile: passfiles({ home: () => home, variable, mayRead }) };
  const config = resolveConfig(input, runtime, { observer, ...options });
  return { password: (await config.password(config)).password, told };
}

test.each(cases)("of $file libpq takes $password for $host:$port:$dbname:$user", (one) => {
  const host = one.host || "127.0.0.1"; // as the recorder
  const login = { host, port: Number(one.port || 5432), database: one.dbname || one.user, user: one.user };
  expect(passwordIn(one.file, login)).toBe(one.password);
});

test("a line of any characters is read in linear time", () => {
  const login = { host: "h", port: 1, database: "d", user: "u" };
  const many = 1_000_000;
  for (const one of ["\r", "\\", ":", "*", "*:", "a\n", "\n"]) {
    passwordIn(`${one.repeat(many)}x`, login);
    passwordIn(`*:*:*:*:${one.repeat(many)}x`, login);
  }
  expect(passwordIn(`*:*:*:*:a\rb\r\r`, login)).toBe("a\rb");
});

test("a file of more than MOST_PASSFILE bytes is not read", async () => {
  const text = `*:*:*:*:x\n${"#".repeat(MOST_PASSFILE - 10)}`;
  expect(await loginOf({ user: "ada", passfile: await fileOf(text) })).toEqual({ password: "x", told: [] });
  const passfile = await fileOf(`${text}#`);
  expect(await loginOf({ user: "ada", passfile })).toEqual({
    password: undefined,
    told: [`WARNING Password file ${passfile} is ignored: it is larger than ${MOST_PASSFILE} bytes.`],
  });
});

test("a socket in Debian's folder counts as localhost too", () => {
  const login = { host: "/var/run/postgresql", port: 5432, database: "d", user: "ada" };
  expect(passwordIn("localhost:*:*:*:x", login)).toBe("x");
});

test("without a matching line there is no password", async () => {
  const passfile = await fileOf("other:*:*:*:x\n");
  expect(await loginOf({ user: "ada", passfile })).toEqual({ password: undefined, told: [] });
});

test("the file is that of the option, of the string, of PGPASSFILE, or the user's own, in this order", async () => {
  const [one, two, three] = [await fileOf("*:*:*:*:1"), await fileOf("*:*:*:*:2"), await fileOf("*:*:*:*:3")];
  const home = path.join(folder, "home");
  await mkdir(home);
  await writeFile(path.join(home, ".pgpass"), "*:*:*:*:4", { mode: 0o600 });
  const around: Around = { home, variables: { PGPASSFILE: three! } };
  const string = `user=ada passfile=${two}`;
  expect(await loginOf(string, around, { passfile: one })).toMatchObject({ password: "1" });
  expect(await loginOf(string, around)).toMatchObject({ password: "2" });
  expect(await loginOf({ user: "ada" }, around)).toMatchObject({ password: "3" });
  expect(await loginOf({ user: "ada" }, { home })).toMatchObject({ password: "4" });
  expect(await loginOf({ user: "ada" }, { home, variables: { PGPASSFILE: "" } })).toMatchObject({ password: "4" });
  expect(await loginOf({ user: "ada" }, {})).toEqual({ password: undefined, told: [] });
  // An explicit `environment` means that the process user's own file is not used.
  expect(await loginOf({ user: "ada", environment: false }, around)).toMatchObject({ password: undefined });
  expect(await loginOf({ user: "ada", environment: { PGPASSFILE: one } }, around)).toMatchObject({ password: "1" });
});

test("on Windows the file is in APPDATA, and its permissions are not checked", async () => {
  const platform = vi.spyOn(process, "platform", "get").mockReturnValue("win32");
  try {
    const seen: string[] = [];
    const around: Around = { variables: { APPDATA: "C:\\Users\\ada" }, mayRead: (name) => !seen.push(name) };
    await loginOf({ user: "ada" }, around);
    expect(seen).toEqual(["C:\\Users\\ada\\postgresql\\pgpass.conf"]);
    const passfile = await fileOf("*:*:*:*:x", 0o644);
    expect(await loginOf({ user: "ada", passfile })).toEqual({ password: "x", told: [] });
  } finally {
    platform.mockRestore();
  }
});

test("a given password is used, and no file is read", async () => {
  const passfile = await fileOf("*:*:*:*:x");
  const mayRead = vi.fn(() => true);
  for (const password of ["given", "", () => "given"]) {
    const { password: used } = await loginOf({ user: "ada", passfile, password }, { mayRead });
    expect(used).toBe(password === "" ? "" : "given");
  }
  expect(mayRead).not.toHaveBeenCalled();
});

test.each([0o640, 0o604, 0o660, 0o610])("a file of mode %o is ignored with a warning", async (mode) => {
  const passfile = await fileOf("*:*:*:*:s3cret", mode);
  const { password, told } = await loginOf({ user: "ada", passfile });
  expect(password).toBeUndefined();
  expect(told).toEqual([expect.stringMatching(/^WARNING Password file \/.* is ignored: .*0600/)]);
  expect(told.join()).not.toContain("s3cret");
});

test("what is not a plain file is ignored with a warning, and a missing file without one", async () => {
  const { password, told } = await loginOf({ user: "ada", passfile: folder });
  expect([password, told]).toEqual([undefined, [expect.stringContaining("not a plain file")]]);
  for (const missing of ["nowhere", "nowhere/at/all"])
    expect(await loginOf({ user: "ada", passfile: path.join(folder, missing) })).toEqual({
      password: undefined,
      told: [],
    });
  const behindFile = path.join(await fileOf(""), "x");
  expect(await loginOf({ user: "ada", passfile: behindFile })).toEqual({ password: undefined, told: [] });
  const tooLong = await loginOf({ user: "ada", passfile: `/${"x".repeat(5_000)}` });
  expect(tooLong.told).toEqual([expect.stringContaining("(ENAMETOOLONG)")]);
});

test("a file that would need a permission prompt is not read, with a warning only if it was named", async () => {
  const passfile = await fileOf("*:*:*:*:x");
  const mayRead = () => false;
  const named = await loginOf({ user: "ada", passfile }, { mayRead });
  expect([named.password, named.told]).toEqual([undefined, [expect.stringContaining("may not read")]]);
  expect(await loginOf({ user: "ada" }, { mayRead, home: folder })).toEqual({ password: undefined, told: [] });
});

test("a runtime without files refuses the option, unless there is a password", () => {
  expect(() => resolveConfig({ user: "ada", passfile: "/x" })).toThrow(
    expect.objectContaining({ code: "UNSUPPORTED_ON_RUNTIME" }),
  );
  expect(resolveConfig({ user: "ada", passfile: "/x", password: "" }).passfile).toBe("/x");
});

test("a file is read again for each login", async () => {
  const passfile = await fileOf("*:*:*:*:old");
  const runtime = { passfile: passfiles({ home: () => undefined, variable: () => undefined, mayRead: () => true }) };
  const config = resolveConfig({ user: "ada", passfile }, runtime);
  expect((await config.password(config)).password).toBe("old");
  await writeFile(passfile, "*:*:*:*:new");
  expect((await config.password(config)).password).toBe("new");
});
