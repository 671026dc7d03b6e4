/** Bytes of what bundles; the keys are those of bench/results/size.json. */
export function bundleSizes(): Promise<Record<string, number>>;
/** Bytes of the same Worker with other drivers. */
export function peerSizes(): Promise<Record<string, number>>;
/** Bytes of what npm would publish. */
export function packageSizes(): Record<string, number>;
/** README's first program, as text. */
export function readmeWorker(): string;
