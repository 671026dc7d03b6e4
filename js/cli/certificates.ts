// Reads certificates and keys. --ca and PGSSLROOTCERT name files, as in libpq; the driver takes their text.
import { readFileSync } from "node:fs";
import process from "node:process";
import type { Options } from "../index.ts";
import type { OptionValues } from "./command.ts";
import { reasonOf } from "./files.ts";
import { Misuse } from "./misuse.ts";

const VARIABLES = { ca: "PGSSLROOTCERT", cert: "PGSSLCERT", key: "PGSSLKEY" } as const;

/**
 * Returns the driver's options with these texts, and the environment without the variables that name such a file,
 * because the driver refuses those.
 */
export function certificates(options: OptionValues): Pick<Options, "ca" | "cert" | "key" | "environment"> {
  const environment = { ...process.env };
  const texts: Pick<Options, "ca" | "cert" | "key"> = {};
  for (const option of ["ca", "cert", "key"] as const) {
    const named = environment[VARIABLES[option]];
    const path = options[option] ?? (named === "system" ? undefined : named || undefined);
    if (typeof path !== "string") continue;
    texts[option] = textOf(path, options[option] === undefined ? VARIABLES[option] : `--${option}`);
    delete environment[VARIABLES[option]];
  }
  return { ...texts, environment };
}

function textOf(path: string, from: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new Misuse(`The file of ${from} cannot be read: ${reasonOf(error)}`);
  }
}
