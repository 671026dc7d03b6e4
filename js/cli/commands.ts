// The commands by name.
//
// Each command is loaded when it is used. So it does not wait for the modules of the others, and a package that only
// one command needs (a compiler, an SDK) need not be installed for the others.
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
