// Runs the user's hooks, which may throw and may never end, and reports an error that no call rejects with. Must not
// know connections, or what a hook is for.
import type { Config } from "../config/options.ts";
import { TimeoutError } from "../util/errors.ts";
import { emit } from "../util/observer.ts";

/** Milliseconds that a hook may take. With a hook that never ends the pool would never end either. */
const HOOK_DEADLINE = 5_000;

/** An error that a hook threw while a connection was made. It ends this connect; the next one may succeed. */
export class HookThrew {
  readonly hook: string;
  readonly error: unknown;

  constructor(hook: string, error: unknown) {
    this.hook = hook;
    this.error = error;
  }
}

/** Reports an error that no call rejects with. */
export function reportThrow({ hook, error }: HookThrew, { observer, host, port, database }: Config): void {
  if (observer?.onHookError) emit(observer, "onHookError", { host, port, database, hook, error });
  // eslint-disable-next-line no-console -- without a call and an observer there is no other place for it
  else console.warn(`pgz-edge: the hook ${hook} threw: ${String(error)}`);
}

/** Resolves with the hook's result. Rejects with what it throws, or when its time is over. */
export async function runHook<T>(name: string, hook: () => T | Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new TimeoutError("HOOK_TIMEOUT", `The hook ${name} took longer than ${HOOK_DEADLINE} ms.`)),
      HOOK_DEADLINE,
    );
  });
  try {
    return await Promise.race([(async () => hook())(), late]);
  } finally {
    clearTimeout(timer);
  }
}
