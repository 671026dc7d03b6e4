// StartupMessage: which protocol it asks for, and the settings that it brings.
//
// Knows the packet. Must not know logins, or what the settings do.
import * as errors from "./errors.ts";
import { negotiateProtocolVersion, readStartup, type Fields } from "./messages.ts";

/** Codes in the place of the protocol's version. */
export const SSL_REQUEST = 80877103;
export const GSSENC_REQUEST = 80877104;
export const CANCEL_REQUEST = 80877102;

export interface Startup {
  readonly parameters: ReadonlyMap<string, string>;
  /** The minor version of the protocol that is spoken. */
  readonly protocol: number;
  /** NegotiateProtocolVersion, if the server cannot do everything that was asked for. */
  readonly answer: Uint8Array | undefined;
}

/** Reads StartupMessage after its `code`, as a server of this major version does. */
export function startupOf(code: number, packet: Fields, version: number): Startup {
  const [major, minor] = [code >>> 16, code & 0xffff];
  const newest = version >= 18 ? 2 : 0;
  if (major !== 3)
    throw errors.fatal("0A000", `unsupported frontend protocol ${major}.${minor}: server supports 3.0 to 3.${newest}`);
  const parameters = readStartup(packet);
  const options = [...parameters.keys()].filter((name) => name.startsWith("_pq_."));
  const protocol = Math.min(minor, newest);
  if (minor <= newest && !options.length) return { parameters, protocol, answer: undefined };
  const shown = version >= 18 ? protocol : newest;
  return { parameters, protocol, answer: negotiateProtocolVersion((3 << 16) | shown, options) };
}

const OF_THE_CONNECTION = new Set(["user", "database", "options", "replication"]);

/**
 * Returns the settings of StartupMessage. `options` has the form of a command line: `-c name=value`, `--name=value`.
 */
export function startupSettings(parameters: ReadonlyMap<string, string>): [string, string][] {
  const words = parameters.get("options")?.match(/(?:\\[^]|[^\s\\])+/g) ?? [];
  const given = words
    .map((word) => word.replace(/\\([^])/g, "$1").replace(/^(-c|--)/, ""))
    .filter((word) => word.includes("="))
    .map((word): [string, string] => [
      word.slice(0, word.indexOf("=")).replaceAll("-", "_"),
      word.slice(word.indexOf("=") + 1),
    ]);
  const named = [...parameters].filter(([name]) => !OF_THE_CONNECTION.has(name) && !name.startsWith("_pq_."));
  return [...given, ...named];
}
