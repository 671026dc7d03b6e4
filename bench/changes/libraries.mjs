// One reader of changes on Node. A request reads a slot up to its last commit.
import process from "node:process";
import { collect } from "../lib/child.mjs";

const publication = "bench_changes"; // NAME of case.mjs
let url;

const readers = {
  "pgz-edge ndjson": async () => {
    const read = await ours();
    return ({ slot, bytes, check, ...expected }) => (check ? parsed(read, slot, expected) : counted(read, slot, bytes));
  },
  "pgz-edge rows": async () => {
    const read = await ours();
    return async ({ slot, commits, check, ...expected }) => {
      if (check) return parsed(read, slot, { commits, ...expected });
      let [rows, sum, left] = [0, 0, commits];
      for await (const change of read(slot)) {
        if (change.kind === "insert") {
          rows++;
          sum += Number(change.new.id);
        } else if (change.kind === "commit" && --left === 0) break;
      }
      return { rows, sum };
    };
  },
  "pg-logical-replication": async () => {
    const { LogicalReplicationService, PgoutputPlugin } = await import("pg-logical-replication");
    return ({ slot, commits }) => throughPg(LogicalReplicationService, PgoutputPlugin, slot, commits);
  },
  pgwire: async () => {
    const { pgconnection } = await import("pgwire");
    return ({ slot, commits }) => throughPgwire(pgconnection, slot, commits);
  },
};

async function ours() {
  const { createPool } = await import("../../dist/node.js");
  const { changes } = await import("../../dist/changes.js");
  const db = createPool(url, { max: 1 });
  return (slot) => changes(db, { slot, publication });
}

/** Counts the bytes and drops them, like a response that has sent them. */
async function counted(read, slot, bytes) {
  const reader = read(slot).stream().getReader();
  let seen = 0;
  while (seen < bytes) seen += (await reader.read()).value.length;
  await reader.cancel();
  return { bytes: seen };
}

/** Returns the number of bytes, and checks their content. */
async function parsed(read, slot, { commits, rows, sum }) {
  const reader = read(slot).stream().getReader();
  const found = { commits: 0, rows: 0, sum: 0 };
  let bytes = 0;
  const decoder = new TextDecoder();
  while (found.commits < commits) {
    const { value } = await reader.read();
    bytes += value.length;
    for (const line of decoder.decode(value).trimEnd().split("\n")) {
      const change = JSON.parse(line);
      if (change.kind === "commit") found.commits++;
      if (change.kind !== "insert") continue;
      found.rows++;
      found.sum += change.new.id;
    }
  }
  await reader.cancel();
  if (found.rows !== rows || found.sum !== sum) throw new Error(`${JSON.stringify(found)} instead of ${rows}, ${sum}`);
  return { bytes };
}

async function throughPg(Service, Plugin, slot, commits) {
  const service = new Service({ connectionString: url }, { acknowledge: { auto: false, timeoutSeconds: 0 } });
  let [rows, sum, left] = [0, 0, commits];
  await new Promise((resolve, reject) => {
    service.on("error", reject);
    service.on("data", (_, { tag, new: row }) => {
      if (tag === "insert") {
        rows++;
        sum += Number(row.id);
      } else if (tag === "commit" && --left === 0) resolve();
    });
    service.subscribe(new Plugin({ protoVersion: 1, publicationNames: [publication] }), slot).catch(reject);
  });
  await service.stop();
  return { rows, sum };
}

/** pgwire's rows convert a value when it is read. The others have converted all values, so here all are read. */
async function throughPgwire(pgconnection, slot, commits) {
  const connection = pgconnection({ replication: "database" }, url);
  let [rows, sum, left] = [0, 0, commits];
  try {
    const options = { proto_version: 1, publication_names: publication };
    const stream = connection.logicalReplication({ slot, options });
    for await (const { messages } of stream.pgoutputDecode()) {
      for (const { tag, after } of messages)
        if (tag === "insert") {
          rows++;
          for (const name in after) sum += name === "id" ? Number(after[name]) : after[name] === undefined;
        } else if (tag === "commit") left--;
      if (left === 0) break;
    }
  } finally {
    await connection.end();
  }
  return { rows, sum };
}

/** Returns the peak growth of the process during `work`, in bytes. */
async function watched(work) {
  collect();
  const before = process.memoryUsage.rss();
  let most = before;
  const timer = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 20);
  await work();
  clearInterval(timer);
  return { grown: most - before };
}

export async function open(library, server) {
  url = server;
  const read = await readers[library]();
  return { run: ({ memory, ...request }) => (memory ? watched(() => read(request)) : read(request)), check: read };
}
