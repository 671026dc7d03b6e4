import type { Plugin } from "esbuild";

export const here: string;
export const root: string;
export function linkDriver(): void;
export function bundleWorker(folder: string, options?: { plugins?: Plugin[] }): Promise<string>;
