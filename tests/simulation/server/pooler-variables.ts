// The settings that the pooler tracks for each client: their values in a client, a server connection or a pool, and the
// SET that gives a server connection its client's values.
//
// This follows PgBouncer's varcache.c. Must not know connections.
import type { PoolerVersion } from "./pooler.ts";

/** In the order in which clients receive them. */
const NAMES: Record<PoolerVersion, readonly string[]> = {
  "1.18": ["client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "application_name"],
  // The last one is the default of track_extra_parameters.
  "1.24": [
    "DateStyle",
    "client_encoding",
    "TimeZone",
    "standard_conforming_strings",
    "application_name",
    "IntervalStyle",
  ],
};

/** The length of PgBouncer's buffers. A value that does not fit is not set. */
const LONGEST = 127;

export class Variables {
  readonly #version: PoolerVersion;
  readonly #values = new Map<string, string>();

  constructor(version: PoolerVersion) {
    this.#version = version;
  }

  /** Sets a value. Returns whether the setting is tracked. */
  set(name: string, value: string): boolean {
    const known = NAMES[this.#version].find((it) => it.toLowerCase() === name.toLowerCase());
    if (known === undefined) return false;
    this.#values.set(known, value);
    return true;
  }

  /** Takes from `other` the values that are missing here. */
  fillFrom(other: Variables): void {
    for (const [name, value] of other.all) if (!this.#values.has(name)) this.#values.set(name, value);
  }

  /** Takes the spelling of `other`'s values. */
  spellAs(other: Variables): void {
    for (const [name, value] of other.all) if (this.#values.has(name)) this.#values.set(name, value);
  }

  get all(): [string, string][] {
    return NAMES[this.#version].flatMap((name): [string, string][] => {
      const value = this.#values.get(name);
      return value === undefined ? [] : [[name, value]];
    });
  }

  clear(): void {
    this.#values.clear();
  }

  /** Returns the statements that give `server` these values, or `""` if it already has them. */
  changesOf(server: Variables): string {
    return this.all.map(([name, value]) => this.#change(name, value, server.#values.get(name))).join("");
  }

  #change(name: string, value: string, old: string | undefined): string {
    const isOld = this.#version === "1.18";
    if (old === undefined || (isOld && value === "")) return "";
    if (value.toLowerCase() === old.toLowerCase()) return "";
    const quoted = quote(value);
    const statement = `SET ${name}=${quoted};`;
    return quoted.length > LONGEST || (isOld && statement.length > LONGEST) ? "" : statement;
  }
}

function quote(text: string): string {
  const inner = text.replaceAll("'", "''").replaceAll("\\", "\\\\");
  return text.includes("\\") ? `E'${inner}'` : `'${inner}'`;
}
