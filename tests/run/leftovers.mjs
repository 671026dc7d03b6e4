// What a run has left on the machine: files, processes, and the ports at which those listen.
//
//   const run = begin();              // a temporary folder, and a mark that all its processes inherit
//   const lines = await leftBy(run);  // a line for each thing that is left; none: the run has cleaned up
//   remove(run);
//
// The mark is in PGZ_TEST_RUN, and the folder in TMPDIR. Servers have their folders elsewhere, because a process of
// another user must be able to read them (tests/servers/home.mjs). Their names contain the mark. A process is the run's
// if its environment or its command has the mark, or if it descends from such a process. Processes are found only on
// Linux, by /proc.
//
// Must not know suites, or how a command runs.
import { chmodSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** Caches that programs keep in the temporary folder, under a fixed name, for their next run. */
const KEPT = [
  /^bun-node-[\w-]+$/, // `node`, a link to Bun itself, for `bun --bun`
  /^\.bunx-\d+$/, // `bun x`
  /^node-compile-cache$/, // module.enableCompileCache(), as wrangler calls it
  /^jest_\w+$/,
];
/** For processes that were asked to end and are ending. */
const STEPS = 100;
const STEP = 100;

/** Begins a run: `{ mark, folder }`. The name is short, because sockets may be in the folder: a path has 107 bytes. */
export function begin() {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-"));
  chmodSync(folder, 0o1777); // as the temporary folder itself: servers run as another user
  return { mark: path.basename(folder), folder };
}

/** Returns the variables that make a process the run's. */
export const variablesOf = ({ mark, folder }) => ({ PGZ_TEST_RUN: mark, TMPDIR: folder });

/**
 * Returns a line for each thing that the run has left. Waits for processes that are ending. `folders` are those in
 * which servers have their folders.
 */
export async function leftBy(run, folders = [], steps = STEPS) {
  for (let step = 0; step < steps && processesOf(run).length > 0; step++)
    await new Promise((resolve) => setTimeout(resolve, STEP));
  return [...filesOf(run, folders), ...processesOf(run).map(described)];
}

function filesOf({ folder, mark }, folders) {
  const own = namesIn(folder).filter((name) => !KEPT.some((kept) => kept.test(name)));
  const elsewhere = folders.flatMap((one) =>
    namesIn(one)
      .filter((name) => name.includes(mark))
      .map((name) => path.join(one, name)),
  );
  return [...own.sort().map((name) => path.join(folder, name)), ...elsewhere].map((file) => `left the file ${file}`);
}

function namesIn(folder) {
  try {
    return readdirSync(folder);
  } catch {
    return []; // no server has ever run here
  }
}

function described({ pid, command }) {
  const ports = portsOf(pid);
  const listens = ports.length > 0 ? `, which listens at port ${ports.join(", ")}` : "";
  return `left process ${pid}${listens}: ${command.slice(0, 200)}`;
}

/** Returns the processes of the run: `[{ pid, command }]`. The process that asks is not one of them. */
export function processesOf({ mark }) {
  const all = namesIn("/proc")
    .filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
    .map((pid) => ({ pid: Number(pid), parent: parentOf(pid), command: commandOf(pid) }))
    .filter(({ parent }) => parent !== undefined);
  const own = new Set(all.filter(({ pid, command }) => command.includes(mark) || isMarked(pid, mark)));
  const pids = new Set([...own].map(({ pid }) => pid));
  for (let size = -1; size !== own.size;) {
    size = own.size;
    for (const one of all.filter(({ parent }) => pids.has(parent))) {
      own.add(one);
      pids.add(one.pid);
    }
  }
  return [...own];
}

const isMarked = (pid, mark) => textOf(pid, "environ").split("\0").includes(`PGZ_TEST_RUN=${mark}`);
const commandOf = (pid) => textOf(pid, "cmdline").replaceAll("\0", " ").trim();

/** Returns the parent, or undefined for a process that has ended: one that its parent has not read yet, too. */
function parentOf(pid) {
  // The name of the program is in parentheses, and may have spaces and parentheses.
  const [state, parent] = textOf(pid, "stat").split(") ").at(-1).split(" ");
  return state === "Z" || parent === undefined ? undefined : Number(parent);
}

function textOf(pid, name) {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "utf8");
  } catch {
    return ""; // it has ended meanwhile
  }
}

/** Returns the ports of TCP at which the process listens. */
export function portsOf(pid) {
  const sockets = new Set(namesIn(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`)));
  const lines = ["tcp", "tcp6"].flatMap((name) => textOf(pid, `net/${name}`).split("\n").slice(1));
  const listening = lines
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === "0A" && sockets.has(`socket:[${fields[9]}]`));
  return [...new Set(listening.map(([, address]) => Number.parseInt(address.split(":").at(-1), 16)))].sort(
    (one, other) => one - other,
  );
}

function linkOf(file) {
  try {
    return readlinkSync(file);
  } catch {
    return "";
  }
}

/** Removes the run's temporary folder. */
export const removeFiles = ({ folder }) => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });

/** Ends the processes that the run has left, and removes its temporary folder. */
export function remove(run) {
  for (const { pid } of processesOf(run)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // it has ended meanwhile
    }
  }
  removeFiles(run);
}
