// A consumer of changes that stops after its first row until it is told to continue: `stopped-child.mjs <url> <slot>
// <form> <rows> <statusInterval>`. It reports that it has stopped; then how much the process has grown meanwhile,
// whether the numbers of all rows came in order, and over how many connections.
import process from "node:process";
import { changes } from "../../dist/changes.js";
import { createClient } from "../../dist/node.js";

const [url, slot, form, rows, statusInterval] = process.argv.slice(2);
const LOOK = 50;

const db = createClient(url);
const options = { slot, publication: "stopped", statusInterval: Number(statusInterval) };
const feed = changes(db, { ...options, acknowledge: "commit" });
let [seen, inOrder, grown] = [0, true, 0];

/** Returns whether that was the last row. */
async function row({ n }) {
  if (n !== ++seen) inOrder = false;
  if (n === 1) grown = await stopped();
  return seen === Number(rows);
}

async function stopped() {
  globalThis.gc();
  const before = process.memoryUsage.rss();
  let most = before;
  const timer = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), LOOK);
  const told = new Promise((resolve) => process.once("message", resolve));
  process.send({ stopped: true });
  await told;
  clearInterval(timer);
  return most - before;
}

async function readLines(body) {
  const decoder = new TextDecoder();
  for await (const lines of body)
    for (const line of decoder.decode(lines).trimEnd().split("\n")) {
      const { kind, new: values } = JSON.parse(line);
      if (kind === "insert" && (await row(values))) return;
    }
}

const forms = {
  async iterator() {
    for await (const change of feed) if (change.kind === "insert" && (await row(change.new))) return;
  },
  async transactions() {
    for await (const { changes: all } of feed.transactions())
      for (const change of all) if (change.kind === "insert" && (await row(change.new))) return;
  },
  stream: () => readLines(feed.stream()),
  respond: () => readLines(feed.respond().body),
};

await forms[form]();
process.send({ grown, seen, inOrder, connections: feed.stats().connections });
await db.close();
process.disconnect();
