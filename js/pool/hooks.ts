// Running a hook of the user's: it may throw, and it may never end.
import { TimeoutError } from "../util/errors.ts";

/** Milliseconds that a hook has; a pool whose hook never ends would never end either. */
const HOOK_DEADLINE = 5_000;

/** What the hook gives. Rejects with what it throws, or when its time is over. */
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
