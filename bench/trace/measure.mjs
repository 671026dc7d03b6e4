// Measures the cost of an error's stack for a successful call, in nanoseconds: an additional `await` (`traced`, as
// calls do), beside a call without it (`plain`) and one that records its stack at once (`recorded`, as option `debug`
// does).
import { traced } from "../../js/util/trace.ts";

const ways = {
  plain: async (promise) => await promise,
  traced: async (promise) => await traced(promise),
  recorded: async (promise) => {
    const trace = new Error();
    return (await promise) && trace;
  },
};

/** Runs one way `times` times, a few calls deep. */
export async function run(way, times) {
  const call = ways[way];
  const inner = (value) => call(Promise.resolve(value));
  const handler = async (value) => await inner(value);
  for (let at = 0; at < times; at++) await handler(at);
}
