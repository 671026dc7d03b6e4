/** Makes a new empty folder that the servers own. */
export function scratch(prefix: string): string;
