// Waits for a source to change.
//
// Knows folders and the endings of sources. Must not know what happens after a change. Each folder that has a source
// has its own watcher: a watcher of a whole project would look into node_modules too.
import { watch, type FSWatcher } from "node:fs";
import path from "node:path";

const SOURCE = /\.[cm]?tsx?$|^(?:tsconfig.*|package)\.json$/;
/** Milliseconds that must pass without a change, because an editor saves several files at once. */
const QUIET = 100;

export class Watcher {
  readonly #ours: string;
  readonly #folders = new Map<string, FSWatcher>();
  #hasChanged = false;
  #wake: () => void = () => {};

  /** `ours` is the file that is written, which is not a source. */
  constructor(ours: string) {
    this.#ours = ours;
  }

  /** Watches these folders too. */
  look(folders: readonly string[]): void {
    for (const folder of folders) {
      if (this.#folders.has(folder)) continue;
      try {
        const watcher = watch(folder, (_, name) => this.#changed(folder, name));
        watcher.on("error", () => this.#folders.delete(folder)); // the folder is gone
        this.#folders.set(folder, watcher);
      } catch {
        // The folder does not exist. Creating it changes a folder that exists.
      }
    }
  }

  /**
   * Resolves after a source has changed since the last call. Rejects with the signal's reason, and then stops watching.
   */
  async change(signal: AbortSignal): Promise<void> {
    try {
      while (!this.#hasChanged) await this.#next(signal);
      while (this.#hasChanged) {
        this.#hasChanged = false;
        await new Promise((resolve) => setTimeout(resolve, QUIET));
        signal.throwIfAborted();
      }
    } catch (error) {
      for (const watcher of this.#folders.values()) watcher.close();
      throw error;
    }
  }

  async #next(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      signal.throwIfAborted();
      const aborted = () => reject(signal.reason as Error);
      signal.addEventListener("abort", aborted, { once: true });
      this.#wake = () => {
        signal.removeEventListener("abort", aborted);
        resolve();
      };
    });
  }

  #changed(folder: string, name: string | null): void {
    if (name !== null && (!SOURCE.test(name) || path.join(folder, name) === this.#ours)) return;
    this.#hasChanged = true;
    this.#wake();
  }
}

/** The folders of the files that the command line names. For a glob, the folder before its first star or brace. */
export function foldersOf(patterns: readonly string[]): string[] {
  return patterns.map((pattern) => path.resolve(path.dirname(pattern.replace(/[*?{].*$/, "x"))));
}
