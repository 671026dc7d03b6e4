/** Makes the folders for `npm publish`. Returns them by the packages' names. */
export function makePackages(folder: string): Record<string, string>;
/** Makes the tarballs of all packages in `folder`. Returns their paths by the packages' names. */
export function makeTarballs(folder: string): Record<string, string>;
