// Measures a process's peak memory by the kernel's high-water mark, read from outside: the same for Node, Bun and Go.
import { readFileSync, writeFileSync } from "node:fs";

/** Returns `{ idle, peak }` in MiB around `work`. */
export async function peakOf(pid, work) {
  const read = (name) =>
    Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
  writeFileSync(`/proc/${pid}/clear_refs`, "5"); // resets VmHWM (proc(5))
  const idle = read("VmRSS");
  await work();
  return { idle, peak: read("VmHWM") };
}
