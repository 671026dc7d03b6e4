// CASE=profile: where the CPU of a small call goes, by part of the process, ours beside pg and a bare socket that
// exchanges the driver's own bytes. V8's profiler samples the process every 100 us; idle time does not count.
//
// Client and server each have their own CPU, because a client that waits for a shared CPU would seem to work. Sampling
// itself costs some microseconds a query, so the sums are larger than those of CASE=query and CASE=pool: compare parts.
//
//   ROWS queries per trial, TRIALS, WARM       how much
import { TABLE } from "../adapters/operations.mjs";
import { ask } from "../lib/connect.mjs";
import { resultRows } from "../lib/trials.mjs";
import { PARTS } from "./parts.mjs";

const shapes = ["select_arg", "pool_100", "kysely_1", "drizzle_1"];

export default {
  numbers: { ROWS: 20_000, TRIALS: 7, WARM: 20_000 },
  shapes,
  /** Each shape has processes of its own. */
  parts: shapes,
  idle: 0,

  fill: async ({ url }) => void (await ask(url, TABLE)),

  run: (shape, { ROWS }) => ({ config: { queries: ROWS }, request: { times: ROWS } }),

  warm: (scene, { WARM }) => [{ times: 1, warm: WARM }],

  rows: ({ shape, config, contestants, samples }) =>
    contestants.flatMap((one) => {
      const found = samples.get(one.key);
      const row = (part, valueOf) =>
        resultRows(one, `${shape} ${one.library}`, { part, ...config }, found, { cpu_us_per_query: ["µs", valueOf] });
      const shown = PARTS.filter((part) => found.some(({ parts }) => parts[part] >= 0.005));
      const all = ({ parts }) => Object.values(parts).reduce((sum, us) => sum + us, 0);
      return [...shown.flatMap((part) => row(part, ({ parts }) => parts[part] ?? 0)), ...row("all", all)];
    }),
};
