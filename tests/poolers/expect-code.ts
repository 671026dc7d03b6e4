// Expects the failure that a tenant's job wants.
import { assert } from "../integration/assert.ts";

/** Any other outcome is a failure of the job, and is thrown unchanged. */
export async function expectCode(code: string, work: Promise<unknown>): Promise<void> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason as { code?: string },
  );
  if (error && error.code !== code) throw error;
  assert.equal(error?.code, code);
}
