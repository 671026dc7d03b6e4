/** What npm says about a tarball. */
export interface Packed {
  readonly filename: string;
  readonly name: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

/** Returns the variables for caches below the folder. Without `registry` there is none; `null` is the user's. */
export function ownCaches(folder: string, options?: { readonly registry?: string | null }): NodeJS.ProcessEnv;

/** Returns the variables of all tests: caches and a registry that do not exist. */
export function withoutCaches(env: NodeJS.ProcessEnv): Record<string, string>;

/** Packs the package in `cwd` into the folder `to`, or only says what it would pack. */
export function npmPack(cwd: string, to?: string): Packed;
