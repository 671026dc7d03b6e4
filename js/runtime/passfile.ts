// libpq's password file, in Node, Deno and Bun: which file is read, whether it may be used, and which line is for a
// login.
//
//   host:port:database:user:password      a line each; * is any; \: and \\ are : and \; the first line that fits counts
//
// Knows the file and its rules (the manual's "The Password File"). Must not know connections, or when a password is
// wanted. A warning contains nothing from a file, only its path.
import { readFile, stat } from "node:fs/promises";
import process from "node:process";
import { MOST_PASSFILE } from "../util/limits.ts";
import { emit, type Observer } from "../util/observer.ts";
import type { PassfileEntry, Runtime } from "./runtime.ts";

/** What differs between runtimes. */
interface Surroundings {
  /** The user's home folder; `undefined` if the program may not know it. */
  readonly home: () => string | undefined;
  /** An environment variable of the process. */
  readonly variable: (name: string) => string | undefined;
  /** Whether a file may be read without asking the user for permission. */
  readonly mayRead: (path: string) => boolean;
}

/** Makes the `passfile` of a Runtime. */
export function passfiles(surroundings: Surroundings): NonNullable<Runtime["passfile"]> {
  return ({ passfile, environment, observer }) => {
    // A client with its own `environment` does not mean the user that the process runs as.
    if (passfile === undefined && environment !== undefined) return undefined;
    return async (attempt) => {
      const path = passfile ?? ownFile(surroundings);
      if (path === undefined) return { password: undefined };
      const { text = "", refusal } = await contents(path, surroundings);
      // As in libpq, a file that does not exist causes no warning. Neither does a default file that may not be read,
      // because it may not exist.
      if (refusal && (passfile !== undefined || refusal !== NOT_ALLOWED)) warn(observer, path, refusal);
      return { password: passwordIn(text, attempt) };
    };
  };
}

function ownFile({ home, variable }: Surroundings): string | undefined {
  const isWindows = process.platform === "win32";
  const folder = isWindows ? variable("APPDATA") : home();
  return folder && (isWindows ? `${folder}\\postgresql\\pgpass.conf` : `${folder}/.pgpass`);
}

const NOT_ALLOWED = "this program may not read it";

/** Returns the file's text, or why it is not used; neither if the file does not exist. */
async function contents(path: string, { mayRead }: Surroundings): Promise<{ text?: string; refusal?: string }> {
  if (!mayRead(path)) return { refusal: NOT_ALLOWED };
  try {
    const found = await stat(path);
    if (!found.isFile()) return { refusal: "it is not a plain file" };
    if (process.platform !== "win32" && found.mode & 0o077)
      return { refusal: "group or others may access it; its permissions must be u=rw (0600) or less" };
    if (found.size > MOST_PASSFILE) return { refusal: `it is larger than ${MOST_PASSFILE} bytes` };
    return { text: await readFile(path, "utf8") };
  } catch (error) {
    const { code } = error as { code?: string };
    return code === "ENOENT" || code === "ENOTDIR" ? {} : { refusal: `it cannot be read (${code ?? "unknown"})` };
  }
}

function warn(observer: Observer | undefined, path: string, refusal: string): void {
  emit(observer, "onNotice", { severity: "WARNING", message: `Password file ${path} is ignored: ${refusal}.` });
}

// -- lines ------------------------------------------------------------------------------------------------------------

/** The folders where libpq and Debian's libpq look for a Unix socket. A password file has `localhost` for them. */
const SOCKET_FOLDERS = ["/tmp", "/var/run/postgresql"];

/** Returns the password of the first line that fits. */
export function passwordIn(text: string, { host, port, database, user }: PassfileEntry): string | undefined {
  const place = SOCKET_FOLDERS.includes(host) ? "localhost" : host;
  for (const line of text.split("\n")) {
    if (line.startsWith("#")) continue;
    let at: number | undefined = 0;
    for (const field of [place, String(port), database, user]) at = at === undefined ? at : afterField(line, at, field);
    if (at !== undefined) return passwordFrom(withoutReturns(line), at);
  }
  return undefined;
}

/** In a loop, because a regular expression would try the line's end from each return again. */
function withoutReturns(line: string): string {
  let end = line.length;
  while (line[end - 1] === "\r") end--;
  return line.slice(0, end);
}

/** Returns where the next field begins, if the field that begins at `at` is `*` or `value`. */
function afterField(line: string, at: number, value: string): number | undefined {
  if (line.startsWith("*:", at)) return at + 2;
  let read = 0;
  for (; at < line.length; at++, read++) {
    if (line[at] === ":" && read === value.length) return at + 1;
    if (line[at] === "\\") at++;
    if (read === value.length || line[at] !== value[read]) return undefined;
  }
  return undefined;
}

/** Reads up to a colon: libpq ignores fields after the password. */
function passwordFrom(line: string, at: number): string {
  let password = "";
  for (; at < line.length && line[at] !== ":"; at++) {
    if (line[at] === "\\" && at + 1 < line.length) at++;
    password += line[at];
  }
  return password;
}
