// Finds the password for a login: a text, or the result of a user's function or of the runtime's password files for
// this attempt.
//
// Knows that logins of one client or pool that wait for the same password share one request. Must not know files,
// sockets or messages.
import { onAbort } from "../util/abort.ts";
import { AuthenticationError, PgzError } from "../util/errors.ts";
import type { Config, Found } from "./options.ts";
import { invalid } from "./rules.ts";
import { passwordText, type LoginAttempt, type Password, type PasswordAnswer } from "./table.ts";

/** Looks up the password in a password file. */
export type PasswordFile = (attempt: LoginAttempt) => Promise<Found>;

/** `file` is used if there is no password. */
export function passwordOf(password: Password | undefined, file: PasswordFile | undefined): Config["password"] {
  const find = typeof password === "function" ? (attempt: LoginAttempt) => answerOf(password, attempt) : file;
  if (typeof password === "string" || !find) {
    const found = Promise.resolve({ password: password as string | undefined });
    return () => found;
  }
  // Pending requests by login. No other request of a Worker waits for these promises, because a configuration belongs
  // to one client or pool.
  const asked = new Map<string, Promise<Found>>();
  return ({ host, port, user, database }, signal) => {
    const attempt = { host, port, user, database };
    const key = JSON.stringify(attempt);
    const pending = asked.get(key);
    if (pending) return pending;
    const finding = find(attempt);
    asked.set(key, finding);
    // If a function does not answer, the next login calls it again as soon as this login has given up.
    const forget = () => asked.get(key) === finding && asked.delete(key);
    finding.then(forget, forget);
    onAbort(signal, forget);
    return finding;
  };
}

async function answerOf(ask: Exclude<Password, string>, attempt: LoginAttempt): Promise<Found> {
  const { password, expiresAt } = await read(ask, attempt);
  // A token service may return seconds, or a text.
  if (!(expiresAt > 1e12)) invalid("expiresAt", "a Date or milliseconds");
  return { password: passwordText(password, "password"), expiresAt };
}

/** Only an Error's message: another thrown value may be anything, such as a secret. */
function textOf(cause: unknown): string {
  return cause instanceof Error ? `: ${cause.message.replace(/\.$/, "")}` : "";
}

/** Reads the answer once: a getter of it, or its Date, may run the user's code and throw, as the function may. */
async function read(ask: Exclude<Password, string>, attempt: LoginAttempt) {
  try {
    const given = await ask(attempt);
    const { password = given, expiresAt = Infinity } = Object(given) as Partial<PasswordAnswer>;
    return { password, expiresAt: Number(expiresAt) };
  } catch (cause) {
    const isLasting = cause instanceof PgzError && !cause.retryable;
    const facts = { hasNoEffect: true, isLasting, cause };
    throw new AuthenticationError("PASSWORD_FUNCTION_FAILED", `Option "password" threw${textOf(cause)}.`, facts);
  }
}
