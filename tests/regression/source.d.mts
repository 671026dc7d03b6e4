/** Unpacks src/test/regress into a folder: `sql/`, `data/`, `parallel_schedule`. */
export function unpackRegressionTests(folder: string): Promise<void>;

/** The tests in the order of their schedule. */
export function scheduleOf(folder: string): string[];
