// `pgz-edge mcp`: a read-only server of the Model Context Protocol over standard input and output.
//
// Knows its options, and the order: check the role, serve, clean up. Standard output belongs to the protocol; every
// message to a person goes to standard error.
import process from "node:process";
import type { Pool } from "../../index.ts";
import { count, duration, size } from "../arguments.ts";
import type { Command, OptionValues, Task } from "../command.ts";
import { poolOf } from "../connect.ts";
import { Misuse } from "../misuse.ts";
import { say } from "../terminal.ts";
import { version } from "../version.ts";
import { Guard } from "./guard.ts";
import { roleFacts, type RoleFacts } from "./role.ts";
import { mcpServer, NoSdk, stdio } from "./server.ts";

const DEFAULTS = { rows: 1_000, bytes: 65_536, timeout: 30_000, connections: 4 } as const;

/**
 * Maximum number of bytes of one message of the server, such as a row. A value that cannot be refused before it is
 * decoded (an array, a composite) costs up to twelve times as much.
 */
const LONGEST_MESSAGE = 8 << 20;

export const mcp: Command = {
  summary: "shows the database to agents, read-only (Model Context Protocol)",
  usage: `Usage: pgz-edge mcp [--max-rows N] [--max-bytes SIZE] [--timeout TIME] [--tenant name=value]

Speaks the Model Context Protocol on standard input and output: tools to list and describe tables, to describe a
statement and to run one that reads. Every call is a read-only transaction that is rolled back; its rows, bytes and time
are capped, and an answer says whether it was cut. Give it a role that may only read (docs/mcp.md).
It needs the package @modelcontextprotocol/sdk beside @pgz-edge/cli.

  --max-rows N       the most rows of an answer: ${DEFAULTS.rows} unless given
  --max-bytes SIZE   the most bytes of an answer: 64kB unless given
  --timeout TIME     the longest that a statement may take: 30s unless given
  --connections N    calls that run at a time: ${DEFAULTS.connections} unless given
  --schema NAMES     list and describe only tables of these schemas, with commas between (query is not restricted)
  --tenant NAME=VALUE
                     a setting of every call, such as app.tenant=7, for row-level security; may be repeated with commas
  --allow-superuser  serve as a superuser, whose functions a read-only transaction does not stop`,
  options: {
    "max-rows": { type: "string" },
    "max-bytes": { type: "string" },
    connections: { type: "string" },
    schema: { type: "string" },
    tenant: { type: "string" },
    "allow-superuser": { type: "boolean" },
  },
  run,
};

async function run(task: Task): Promise<void> {
  const { options, signal, values } = task;
  if (values.length) throw new Misuse("mcp takes no values, only options.");
  const most = {
    maxRows: atLeastOne(count(task, "max-rows"), "max-rows") ?? DEFAULTS.rows,
    maxBytes: atLeastOne(size(task, "max-bytes"), "max-bytes") ?? DEFAULTS.bytes,
    timeout: atLeastOne(duration(task, "timeout"), "timeout") ?? DEFAULTS.timeout,
  };
  const settings = tenantOf(options);
  const schemas = listOf(options["schema"]);
  const max = atLeastOne(count(task, "connections"), "connections") ?? DEFAULTS.connections;
  const pool = poolOf(options, {
    max,
    applicationName: "pgz-edge mcp",
    // Clears what a statement leaves and no rollback undoes, such as advisory locks.
    reset: "always",
    idleTimeout: 60_000,
    leakThreshold: 0,
    maxMessageBytes: LONGEST_MESSAGE,
  });
  try {
    const server = await mcpServer(
      { guard: new Guard(pool, { timeout: most.timeout, settings }), most, schemas },
      version(),
    );
    const transport = await stdio();
    checkRole(await roleFacts(pool, signal), options);
    const closed = new Promise<void>((resolve) => (server.onclose = resolve));
    const close = () => void server.close();
    // The SDK's transport does not report that its client is gone.
    process.stdin.once("end", close).once("close", close).once("error", close);
    signal.addEventListener("abort", close, { once: true });
    server.onerror = (error) => say(`pgz-edge mcp: ${error.message}`);
    await server.connect(transport);
    if (signal.aborted) close();
    await closed;
  } catch (error) {
    throw error instanceof NoSdk ? new Misuse(error.message) : error;
  } finally {
    await leave(pool);
  }
}

/** Closes the pool after the cancels of running calls are through. Closing the server has aborted these calls. */
async function leave(pool: Pool): Promise<void> {
  await pool.close({ timeout: 2_000 });
}

function checkRole({ superuser, warnings, role }: RoleFacts, options: OptionValues): void {
  if (superuser && !options["allow-superuser"])
    throw new Misuse(
      `${superuser}: it may run programs and write files of the server from within a select, which no read-only ` +
        "transaction stops. Use a role that may only read (docs/mcp.md), or pass --allow-superuser.",
    );
  for (const warning of warnings) say(`WARNING:  ${warning}`);
  say(`pgz-edge mcp: read-only as role "${role}"`);
}

function atLeastOne(value: number | undefined, name: string): number | undefined {
  if (value === 0) throw new Misuse(`--${name} must be at least 1: without a limit an answer could be of any size.`);
  return value;
}

const listOf = (given: OptionValues[string]) =>
  typeof given === "string" ? given.split(",").map((name) => name.trim()) : undefined;

/** Reads `app.tenant=7,app.region=eu`. */
function tenantOf(options: OptionValues): Record<string, string> {
  const pairs = listOf(options["tenant"]) ?? [];
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, name, value] = /^([^=]+)=(.*)$/.exec(pair) ?? [];
      if (name === undefined || value === undefined) throw new Misuse("--tenant is name=value, such as app.tenant=7.");
      return [name, value];
    }),
  );
}
