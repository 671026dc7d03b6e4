import type { run } from "./postgres.mjs";

/** Starts a PostgreSQL that has the extension pgvector. Rejects if Debian's packages cannot be had. */
export function startWithVector(options: { readonly log: string }): ReturnType<typeof run>;
