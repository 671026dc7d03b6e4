// How far a process's memory went, by the kernel's own high-water mark, read from outside: the same for Node, Bun and
// Go.
import { readFileSync, writeFileSync } from "node:fs";

/** `{ idle, peak }` in MiB around `work`. */
export async function peakOf(pid, work) {
  const read = (name) =>
    Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
  writeFileSync(`/proc/${pid}/clear_refs`, "5"); // sets VmHWM back (proc(5))
  const idle = read("VmRSS");
  await work();
  return { idle, peak: read("VmHWM") };
}
