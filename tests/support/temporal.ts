// The runtime's Temporal or, where it has none, a stand-in with what the driver and the adapters' pages call: `from`,
// `toString` and the tag.

export interface TemporalValue {
  readonly [Symbol.toStringTag]: string;
  toString(): string;
}

type Temporal = Readonly<Record<"Instant" | "PlainDate", { from(text: string): TemporalValue }>>;

const global = globalThis as { Temporal?: Temporal };

function standIn(type: string, read: (text: string) => string): { from(text: string): TemporalValue } {
  return { from: (text) => ({ [Symbol.toStringTag]: `Temporal.${type}`, toString: () => read(text) }) };
}

/** Runs `work` with a Temporal, as after importing a polyfill. */
export async function withTemporal<Result>(work: (temporal: Temporal) => Promise<Result>): Promise<Result> {
  if (global.Temporal) return work(global.Temporal);
  const made = {
    Instant: standIn("Instant", (text) => new Date(text).toISOString().replace(/\.?0*Z$/, "Z")),
    PlainDate: standIn("PlainDate", (text) => text),
  };
  global.Temporal = made;
  try {
    return await work(made);
  } finally {
    delete global.Temporal;
  }
}
