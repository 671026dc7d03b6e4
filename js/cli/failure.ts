// Turns an error into the text for standard error, and into an exit code.
//
// Knows the driver's errors. The text has psql's form: message, code, the line with the mark, DETAIL, HINT. It has a
// stack only on request, and never a URL or a password, which no error of the driver contains.
import { AuthenticationError, ConnectionError, PgzError, PostgresError, TimeoutError } from "../index.ts";
import type { InFlags } from "./command.ts";
import { isRefusal } from "./connect.ts";
import { Misuse } from "./misuse.ts";

/** Exit codes; docs/cli.md has the table. */
export const EXIT = { done: 0, refused: 1, notConnected: 2, misuse: 64, interrupted: 130, readerLeft: 141 } as const;

export function exitCodeOf(error: unknown): number {
  if (error instanceof Misuse) return EXIT.misuse;
  const isUnconnected =
    isRefusal(error) ||
    error instanceof ConnectionError ||
    error instanceof AuthenticationError ||
    (error instanceof TimeoutError && error.code === "CONNECT_TIMEOUT");
  return isUnconnected ? EXIT.notConnected : EXIT.refused;
}

/** `inFlags`: says the driver's words with the command's flags in place of the driver's options. */
export function textOf(error: unknown, withStack: boolean, inFlags: InFlags = (text) => text): string {
  if (error instanceof Misuse) return `pgz-edge: ${inFlags(error.message)}`;
  const lines = error instanceof PgzError ? ofDriver(error, inFlags) : [`ERROR:  ${messageOf(error)}`];
  if (withStack && error instanceof Error) lines.push(error.stack ?? String(error));
  return lines.join("\n");
}

function ofDriver(error: PgzError, inFlags: InFlags): string[] {
  const { cause } = error;
  const { severity, detail, hint, where } = serverErrorOf(error) ?? {};
  const advice = adviceOf(error);
  const isOfSource = error.code === "COPY_SOURCE_FAILED" && cause instanceof Error;
  // The server's words may name a column or a table as an option is named.
  const message = error instanceof PostgresError ? error.message : inFlags(error.message);
  return [
    `${severity ?? "ERROR"}:  ${MESSAGE[error.code] ?? message} (${error.code})`,
    ...(error.excerpt === undefined ? [] : [error.excerpt]),
    ...(isOfSource ? [`CAUSE:  ${cause.message}`] : []),
    ...(detail === undefined ? [] : [`DETAIL:  ${detail}`]),
    ...(hint === undefined ? [] : [`HINT:  ${hint}`]),
    ...(where === undefined ? [] : [`CONTEXT:  ${where}`]),
    ...(advice === undefined ? [] : [`ADVICE:  ${inFlags(advice)}`]),
  ];
}

/** Messages by code, for errors whose own message names the driver's calls. */
const MESSAGE: Readonly<Record<string, string>> = { COPY_NEEDS_COPY_CALL: "This command does not run this COPY." };

/** Advice by code. */
const ADVICE: Readonly<Record<string, string>> = {
  COPY_NEEDS_COPY_CALL: "copy-out runs a COPY … TO STDOUT, copy-in a COPY … FROM STDIN.",
  AUTH_CLEARTEXT_REFUSED: "On a network that only you can reach, pass --allow-cleartext-password.",
  PASSWORD_MISSING: "Put it into DATABASE_URL, PGPASSWORD or a line of ~/.pgpass that only you can read (chmod 600).",
};

/** The driver's advice is for programmers. Where it names one of these calls, advice for a shell replaces it. */
const IN_A_SHELL: readonly (readonly [RegExp, string])[] = [
  [/simple\(\)/, "Pass one statement: psql -f runs a file of several."],
  [/sql\.in\(/, "A list is one value: write = any($1), and pass it as {1,2,3}."],
  [/dot is part of a quoted name/, 'A dot is part of a quoted name: write "schema"."table".'],
  [/sql\.identifier\(/, "A value cannot be a name: write tables and columns into the SQL itself."],
];

const IS_CODE = /`|\bsql\.|\w\(\)/;

function adviceOf({ code, advice }: PgzError): string | undefined {
  const own = ADVICE[code] ?? IN_A_SHELL.find(([call]) => call.test(advice ?? ""))?.[1];
  return own ?? (IS_CODE.test(advice ?? "") ? undefined : advice);
}

function serverErrorOf(error: PgzError): PostgresError | undefined {
  if (error instanceof PostgresError) return error;
  return error.cause instanceof PostgresError ? error.cause : undefined;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
