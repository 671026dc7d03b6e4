// One library of a case in a process of its own, on Node, Deno and Bun: `child.mjs <case> <library> <url> …`.
//
// Knows the requests of lib/harness.mjs. The case's libraries.mjs exports `open(library, url, …)`, which returns
// `{ run(request, prepared), … }`:
//
//   shapes             what the library can do; without it everything
//   prepare(request)   makes what `run` needs, and is not timed
//   check(request)     answers with the content, and is not timed
//   call()             a known call without a wrapper, for lib/per-call.mjs
//   clean              whether garbage is collected before a run (lib/child.mjs, `timed`)
//   end()              before the process ends
import process from "node:process";
import { serve, timed } from "./lib/child.mjs";
import { perCall } from "./lib/per-call.mjs";

const [name, library, ...rest] = process.argv.slice(2);
const { open } = await import(`./${name}/libraries.mjs`);
const opened = await open(library, ...rest);

serve(
  async ({ hello, idle, counts, ...request }) => {
    if (hello) return { shapes: opened.shapes };
    if (idle) return timed(() => new Promise((resolve) => setTimeout(() => resolve({}), idle)));
    if (counts) return perCall(opened.call);
    if (request.check) return opened.check(request);
    const prepared = await opened.prepare?.(request);
    const { clean } = opened;
    return timed(() => opened.run(request, prepared), { clean: typeof clean === "function" ? clean(request) : clean });
  },
  () => opened.end?.(),
);
