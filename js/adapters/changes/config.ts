// What a client or pool was configured with, as far as changes need it.
import type { Client, Observer, Pool } from "../../index.ts";

interface Config {
  readonly connectTimeout: number;
  readonly maxMessageBytes: number;
  readonly hosts: readonly { readonly host: string }[];
  readonly observer?: Observer | undefined;
}

export const configOf = (db: Client | Pool): Config => (db as unknown as { readonly config: Config }).config;
