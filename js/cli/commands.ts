// The commands by name.
//
// Each is loaded when it is asked for, so that nobody waits for the parts of another, and what only one of them needs
// (a compiler, a server's kit) need not be installed for the rest.
import type { Command } from "./command.ts";

export const commands: Readonly<Record<string, () => Promise<Command>>> = {
  query: async () => (await import("./query.ts")).query,
  "copy-in": async () => (await import("./copy-in.ts")).copyIn,
  "copy-out": async () => (await import("./copy-out.ts")).copyOut,
  changes: async () => (await import("./changes.ts")).changes,
  ping: async () => (await import("./ping.ts")).ping,
  doctor: async () => (await import("./doctor.ts")).doctor,
  mcp: async () => (await import("./mcp/mcp.ts")).mcp,
  types: async () => (await import("./types/types.ts")).types,
};
