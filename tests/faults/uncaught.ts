// Collects uncaught errors, and everything that a log could show of them.

/** Returns everything that a log could show of an error. */
export function everything(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = Object.getOwnPropertyNames(error)
    .filter((key) => key !== "cause")
    .map((key) => `${key}=${String((error as unknown as Record<string, unknown>)[key])}`);
  return [String(error), ...own, ...(error.cause === undefined ? [] : [`cause: ${everything(error.cause)}`])].join(
    " | ",
  );
}

/** Collects this runtime's uncaught errors from now on. */
export function watchUncaught(): string[] {
  const found: string[] = [];
  const scope = globalThis as {
    addEventListener?: (type: string, listener: (event: { reason?: unknown; error?: unknown }) => void) => void;
  };
  const host = globalThis.process as { on?: (event: string, listener: (error: unknown) => void) => void } | undefined;
  if (host?.on) {
    for (const event of ["unhandledRejection", "uncaughtException"])
      host.on(event, (error) => found.push(`${event}: ${everything(error)}`));
  } else {
    for (const type of ["unhandledrejection", "error"])
      scope.addEventListener?.(type, (event) => found.push(`${type}: ${everything(event.reason ?? event.error)}`));
  }
  return found;
}
