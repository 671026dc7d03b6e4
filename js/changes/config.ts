// What a client or pool was configured with, as far as changes need it.
import type { ChangesEvent, Client, Notice, Observer, Pool } from "../index.ts";
import { emit } from "../util/observer.ts";

interface Config {
  readonly connectTimeout: number;
  readonly maxMessageBytes: number;
  readonly hosts: readonly { readonly host: string }[];
  readonly observer?: Observer | undefined;
}

export function report(
  db: Client | Pool,
  event: { readonly changes: ChangesEvent } | { readonly notice: Notice },
): void {
  const { observer } = configOf(db);
  if ("changes" in event) emit(observer, "onChanges", event.changes);
  else emit(observer, "onNotice", event.notice);
}

export const configOf = (db: Client | Pool): Config => (db as unknown as { readonly config: Config }).config;
