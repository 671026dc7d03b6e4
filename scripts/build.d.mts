export function build(): Promise<void>;
/** Bytes of what ships; the keys are those of bench/results/size.json. */
export function sizes(): Promise<Record<string, number>>;
