/** Makes the folders for `npm publish`. Returns them by the packages' names. */
export function makePackages(folder: string): Record<string, string>;
