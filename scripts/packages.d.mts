/** Makes the folders that `npm publish` takes, and gives them by the names of the packages. */
export function makePackages(folder: string): Record<string, string>;
