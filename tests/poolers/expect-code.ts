// A failure that a job of a tenant wants.
import { assert } from "../integration/assert.ts";

/** Anything else is a failure of the job, as it was thrown. */
export async function expectCode(code: string, work: Promise<unknown>): Promise<void> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason as { code?: string },
  );
  if (error && error.code !== code) throw error;
  assert.equal(error?.code, code);
}
