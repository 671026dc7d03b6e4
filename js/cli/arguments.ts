// Parses the words of a command line: values and options, and the durations, sizes and counts in them.
//
// Knows node:util's parseArgs and units. Must not know commands or connections. A word that cannot be read is a Misuse.
import { parseArgs } from "node:util";
import type { OptionValues, ParseArgsOptionsConfig } from "./command.ts";
import { Misuse, nearest } from "./misuse.ts";

/** The options that every command takes. */
const commonOptions = {
  url: { type: "string", short: "u" },
  timeout: { type: "string" },
  ca: { type: "string" },
  cert: { type: "string" },
  key: { type: "string" },
  "allow-cleartext-password": { type: "boolean" },
  debug: { type: "boolean" },
  help: { type: "boolean" },
} as const satisfies ParseArgsOptionsConfig;

export const COMMON_HELP = `Options of every command:
  -u, --url URL      where to connect to: postgres://user@host/database; else DATABASE_URL, else PGHOST, PGUSER, …
  --timeout TIME     the longest that a call may take, as 30s, 500ms or 2m; a bare number is milliseconds
  --ca FILE          certificates (PEM) to trust, for sslmode=verify-full; else PGSSLROOTCERT
  --cert FILE, --key FILE  the client's own certificate and its key (PEM); else PGSSLCERT and PGSSLKEY
  --allow-cleartext-password  send the password as clear text, without TLS, if the server asks for it
  --debug            show the stack of an error
  --help             show this`;

interface Words {
  readonly values: readonly string[];
  readonly options: OptionValues;
}

/** Parses the words after the command. */
export function readWords(words: readonly string[], options: ParseArgsOptionsConfig): Words {
  try {
    const read = parseArgs({
      args: [...words],
      options: { ...commonOptions, ...options },
      allowPositionals: true,
      strict: true,
    });
    return { values: read.positionals, options: read.values as OptionValues };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code?.startsWith("ERR_PARSE_ARGS"))
      throw new Misuse(reasonOf(error, Object.keys({ ...commonOptions, ...options })));
    throw error;
  }
}

/** Keeps the first sentence of Node's message: the rest repeats the value, which may be a URL with a password. */
function reasonOf(error: unknown, names: readonly string[]): string {
  const [sentence = ""] = (error as Error).message.split(/\.\s/);
  const [unknown, name = ""] = /^Unknown option '([^]*)/.exec(sentence) ?? [];
  if (/^-[hpdUwW]'/.test(name))
    return "Say where to connect to by --url, DATABASE_URL, or PGHOST, PGPORT, PGUSER …; help is --help.";
  if (/^-c'/.test(name)) return 'The SQL is the first value: pgz-edge query "select 1".';
  const [, word = ""] = /^--([a-z][a-z-]*\d?)'/.exec(name) ?? [];
  const advice = nearest(word, names);
  if (advice) return `Unknown option --${word}: ${advice.replace("mean ", "mean --")}`;
  if (unknown !== undefined && !/^-(?:[a-z]|-[a-z][a-z-]*\d?)'/i.test(name))
    return "SQL or a value that begins with a dash: put -- in front of it.";
  return `${sentence.replace(/\.$/, "")}.`;
}

const CONNECTION_STRING = /^\s*(?:postgres(?:ql)?:\/\/|(?:host|hostaddr|port|dbname|user|password|sslmode)\s*=)/i;

/**
 * Throws Misuse if a word that should be SQL, a table or a file is a connection string. psql takes one in that place.
 * Here its password would be shown: by the server, which repeats the line, or by an error that names the file.
 */
export function refuseUrls(...words: readonly (string | boolean | undefined)[]): void {
  if (words.some((word) => typeof word === "string" && CONNECTION_STRING.test(word)))
    throw new Misuse("Pass a URL with --url.");
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, min: 60_000, m: 60_000, h: 3_600_000 };

/** The value of an option in milliseconds; `undefined` if it was not given. */
export function duration({ options }: Pick<Words, "options">, name: string): number | undefined {
  return measure(options[name], name, UNITS, "", "a time, such as 500ms, 30s or 2m");
}

const SIZES: Readonly<Record<string, number>> = { B: 1, kB: 1_024, MB: 1 << 20, GB: 1 << 30, k: 1_024, M: 1 << 20 };

/** The value of an option in bytes, read with PostgreSQL's units; `undefined` if it was not given. */
export function size({ options }: Pick<Words, "options">, name: string): number | undefined {
  return measure(options[name], name, SIZES, "", "a size, such as 4096, 64kB or 10MB");
}

export function count({ options }: Pick<Words, "options">, name: string): number | undefined {
  return measure(options[name], name, {}, "", "a whole number");
}

/**
 * The value of an option, which must be one of `words`. The error ends with `advice`, for a user who meant another
 * option.
 */
export function choice<Word extends string>(
  { options }: Pick<Words, "options">,
  name: string,
  words: readonly Word[],
  advice = "",
): Word | undefined {
  const given = options[name];
  if (given === undefined || words.includes(given as Word)) return given as Word | undefined;
  throw new Misuse(`--${name} is one of ${words.join(", ")}. ${advice}`.trimEnd());
}

function measure(
  given: string | boolean | undefined,
  name: string,
  units: Readonly<Record<string, number>>,
  fallback: string,
  what: string,
): number | undefined {
  if (given === undefined) return undefined;
  const [, digits = "", unit = fallback] = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(String(given)) ?? [];
  const value = Number(digits) * (unit === "" ? 1 : (units[unit] ?? NaN));
  if (digits !== "" && Number.isSafeInteger(value)) return value;
  throw new Misuse(`--${name} is ${what}.`);
}
