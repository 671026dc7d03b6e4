// Adds to a call's error where the call was made and what it ran, when the error leaves the driver.
//
// An error is created where the server's response is read, far from the caller: its own stack does not show the caller.
// To record the stack at each call would cost 3 to 5 us (measured). So the stack is recorded after the call has failed,
// in an async function that the call's promise depends on: the engine then names the function that awaits that promise,
// and a call that succeeds pays nothing. V8 follows a promise that is resolved with another one (`rejecting`).
// JavaScriptCore follows async functions only (`traced`), which costs a call that succeeds three promises.
//
// Knows errors and the engine's stacks. Must not know calls.
import { CONFLICT, MAY_HAVE_RUN, PgzError, PostgresError } from "./errors.ts";
import { adviceFor } from "./advice.ts";
import type { CallSubject } from "./observer.ts";
import { SqlReader } from "./sql-reader.ts";
import { mayCommitApart } from "./statement-words.ts";
import { excerptOf, shownSql } from "./shown-sql.ts";

/** Errors that belong to a call already: one error ends a connection and all its calls. */
const taken = new WeakSet<PgzError>();
const located = new WeakSet<PgzError>();

interface Place {
  readonly isDebug?: boolean;
  readonly trace?: Error | undefined;
  /** It failed in a transaction that another call had begun. */
  readonly isInTransaction?: boolean;
}

/** Returns the call's own error: this one, or a copy if it belongs to another call too. */
export function errorOf(
  error: PgzError,
  subject: CallSubject,
  { isDebug, trace, isInTransaction }: Place = {},
): PgzError {
  const own = ownError(error);
  const { batch } = own;
  // The server has rolled the conflict back, but not what was committed before it. What follows in a batch has not run.
  // An item of an isolated batch has no `batch`: it is a transaction of its own.
  const last = batch?.index ?? Infinity;
  const texts = (batch && subject.texts)?.slice(0, last + 1) ?? [subject.text ?? ""];
  if (CONFLICT.test(own.code) && mayCommitApart(texts, isInTransaction)) Object.assign(own, MAY_HAVE_RUN);
  const text = subject.texts && batch ? subject.texts[batch.index ?? -1] : subject.text;
  if (text !== undefined) describe(own, text, subject);
  if (isDebug && subject.values) hide(own, "parameters", subject.values);
  if (trace) located.add(withStack(own, trace.stack));
  return own;
}

/** Returns the error for one call: this one, or a copy if it belongs to another call already. */
export function ownError<E>(error: E): E {
  if (!(error instanceof PgzError)) return error;
  const own = taken.has(error) ? copyOf(error) : error;
  taken.add(own);
  return own;
}

/** Not enumerable, so that a logger that writes errors as JSON does not include it. */
function hide(error: PgzError, name: "query" | "excerpt" | "advice" | "parameters", value: unknown): void {
  Object.defineProperty(error, name, { value, configurable: true, writable: true });
}

function describe(error: PgzError, text: string, { isRewritten, values = [], texts }: CallSubject): void {
  hide(error, "query", shownSql(text));
  const position = isRewritten ? undefined : positionOf(error, text);
  const excerpt = position === undefined ? undefined : excerptOf(text, position);
  const { code, message } = error;
  const advice = adviceFor({ code, message, position }, text, values, texts);
  if (excerpt) hide(error, "excerpt", excerpt);
  if (advice) hide(error, "advice", advice);
}

/** The server's position, or that of the first `$n` that was refused, in characters from 1, as the server counts. */
function positionOf(error: PgzError, text: string): string | undefined {
  if (error instanceof PostgresError) return error.position;
  const { parameter } = error;
  if (parameter === undefined) return undefined;
  const reader = new SqlReader(text);
  while (reader.next() !== "end")
    if (reader.kind === "parameter" && Number(reader.text.slice(1)) === parameter)
      return String([...text.slice(0, reader.start)].length + 1);
  return undefined;
}

/** Rejects with the error, with the stack of the function that awaits the promise that is resolved with this one. */
export async function rejecting(error: unknown): Promise<never> {
  // V8 links the two promises in a microtask of its own.
  await undefined;
  await undefined;
  throw here(error, rejecting);
}

/** Resolves like the promise, or rejects with its error, with the stack of the function that awaits this promise. */
export async function traced<T>(promise: Promise<T>): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    throw here(error, traced);
  }
}

/**
 * Returns the error with the stack of the function that awaits the caller of this one, unless the error has such a
 * stack already. Frames down to `inside` are left out.
 */
export function here<T>(error: T, inside: (...values: never[]) => unknown = here): T {
  if (!(error instanceof PgzError) || located.has(error)) return error;
  located.add(error);
  const holder: { stack?: unknown } = {};
  Error.captureStackTrace?.(holder, inside);
  return withStack(error, holder.stack);
}

/** Puts the error's text and the frames of `stack` into the error's stack. */
function withStack<E extends PgzError>(error: E, stack: unknown): E {
  // A custom Error.prepareStackTrace may give anything; a limit of 0 gives no frames; Safari's stack has no header. If
  // no function awaits the promise by then, an engine may know no frames: the frames of the error's origin are kept.
  const frames = framesOf(stack) ?? framesOf(error.stack);
  if (frames === undefined) return error;
  const { name, message, excerpt, advice } = error;
  const { hint } = error as { readonly hint?: string };
  const lines = [`${name}: ${message}`, excerpt, hint && `HINT: ${hint}`, advice && `ADVICE: ${advice}`];
  const value = lines.filter(Boolean).join("\n") + frames;
  return Object.defineProperty(error, "stack", { value, configurable: true, writable: true });
}

function framesOf(stack: unknown): string | undefined {
  return typeof stack === "string" ? /\n {4}at [^]*/.exec(stack)?.[0] : undefined;
}

/** A copy of the error, of the same class, without what `describe` and `debug` added for one call. */
export function copyOf<E extends PgzError>(error: E): E {
  const copy = Reflect.construct(Error, [error.message], error.constructor) as E;
  const own: Record<string, PropertyDescriptor> = Object.getOwnPropertyDescriptors(error);
  for (const name of OF_ONE_CALL) delete own[name];
  return Object.defineProperties(copy, own);
}

const OF_ONE_CALL = ["stack", "query", "excerpt", "advice", "parameters"];
