// What a client or pool was configured with, as far as changes need it.
import type { ChangesEvent, Client, Notice, Observer, Pool } from "../../index.ts";

interface Config {
  readonly connectTimeout: number;
  readonly maxMessageBytes: number;
  readonly hosts: readonly { readonly host: string }[];
  readonly observer?: Observer | undefined;
}

/** Calls the observer. An error that it throws or rejects with is dropped, as everywhere. */
export function tell(db: Client | Pool, event: { readonly changes: ChangesEvent } | { readonly notice: Notice }): void {
  const { observer } = configOf(db);
  try {
    const result: unknown =
      "changes" in event ? observer?.onChanges?.(event.changes) : observer?.onNotice?.(event.notice);
    (result as Promise<void> | undefined)?.catch(() => {});
  } catch {
    // Dropped.
  }
}

export const configOf = (db: Client | Pool): Config => (db as unknown as { readonly config: Config }).config;
