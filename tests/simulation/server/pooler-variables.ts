// The settings that the pooler follows for each client: their values as a client, a server connection or a pool has
// them, and the SET that makes a server connection like its client.
//
// This is PgBouncer's varcache.c. Must not know connections.
import type { PoolerVersion } from "./pooler.ts";

/** In the order in which clients are told. */
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

/** PgBouncer's buffers are so long; what does not fit is not set. */
const LONGEST = 127;

export class Variables {
  readonly #version: PoolerVersion;
  readonly #values = new Map<string, string>();

  constructor(version: PoolerVersion) {
    this.#version = version;
  }

  /** Whether it is one of those that are followed. */
  set(name: string, value: string): boolean {
    const known = NAMES[this.#version].find((it) => it.toLowerCase() === name.toLowerCase());
    if (known === undefined) return false;
    this.#values.set(known, value);
    return true;
  }

  /** Takes from `other` what has no value here. */
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

  /** The statements that give `server` these values; `""`: it has them. */
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
