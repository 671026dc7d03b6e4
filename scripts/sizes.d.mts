/** Sizes of the bundles in bytes. The keys are those of bench/results/size.json. */
export function bundleSizes(): Promise<Record<string, number>>;
/** Sizes of the same Worker with other drivers, in bytes. */
export function peerSizes(): Promise<Record<string, number>>;
/** Sizes of the package that npm would publish, in bytes. */
export function packageSizes(): Record<string, number>;
/** README's first program, as text. */
export function readmeWorker(): string;
