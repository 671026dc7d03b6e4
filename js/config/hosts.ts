// The servers that one configuration names: lists of hosts and ports like libpq's, and the configuration of each
// server.
//
// Knows which host has which port, and what follows from a host alone. Must not know sockets, or the order in which
// servers are tried (js/login/startup.ts).

import type { Runtime } from "../runtime/runtime.ts";
import { UsageError } from "../util/errors.ts";
import type { Config, Server } from "./options.ts";
import { invalid, wordsOf } from "./rules.ts";

/**
 * Returns each host with its port and address. As in libpq a single port is for all hosts, and an empty port is the
 * default.
 */
export function addresses(
  host: string | undefined,
  hostaddr: string | undefined,
  port: number | string | undefined,
): Pick<Server, "host" | "port" | "hostaddr">[] {
  const hostaddrs = hostaddr === undefined ? [] : wordsOf(hostaddr);
  const hosts = host === undefined ? (hostaddr === undefined ? ["localhost"] : hostaddrs) : wordsOf(host);
  const ports = wordsOf(port ?? "");
  if (ports.length > 1 && ports.length !== hosts.length) invalid("port", `one, or as many as hosts (${hosts.length})`);
  if (hostaddrs.length && hostaddrs.length !== hosts.length) invalid("hostaddr", `as many as hosts (${hosts.length})`);
  return hosts.map((name, at) => ({
    host: name,
    port: Number(ports[ports.length === 1 ? 0 : at]) || 5432,
    hostaddr: hostaddrs[at] || undefined,
  }));
}

/** Whether the host is a folder with the server's socket. As in libpq it is recognised by its absolute path. */
export function isUnixSocket(host: string): boolean {
  return host.startsWith("/");
}

/** The path of the server's socket, if it has one. */
export function socketPath({ host, port }: Config): string | undefined {
  return isUnixSocket(host) ? `${host}/.s.PGSQL.${port}` : undefined;
}

/** Whether the host is a Cloudflare binding, which may answer from its cache. */
export function isHyperdrive(host: string): boolean {
  return host.endsWith(".hyperdrive.local");
}

/** Whether the link never leaves the runtime or the machine. */
export function isLocal(host: string): boolean {
  return isHyperdrive(host) || isUnixSocket(host);
}

const perServer = new WeakMap<Config, readonly Config[]>();

/**
 * One configuration for each server, in the order in which they were given. What is learned of a server is kept by its
 * own host and port: two hosts of one list may be two databases, in which a text means other types.
 */
export function serversOf(config: Config): readonly Config[] {
  let servers = perServer.get(config);
  if (!servers) {
    const { hosts } = config;
    servers = hosts.length === 1 ? [config] : hosts.map((server) => Object.freeze({ ...config, ...server }));
    perServer.set(config, servers);
  }
  return servers;
}

/** @throws UsageError `UNSUPPORTED_ON_RUNTIME`, before anything is sent */
export function checkReach(
  { host, connect }: Config,
  { name, capabilities: can = {} }: Pick<Runtime, "name" | "capabilities">,
): void {
  if (isUnixSocket(host) && !connect && !can.canUseUnixSockets)
    throw new UsageError("UNSUPPORTED_ON_RUNTIME", `${name} has no Unix sockets: name a host or an address.`);
}
