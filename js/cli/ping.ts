// `pgz-edge ping`: says whether a server is there, and how long connecting and a round trip take.
//
// Knows clocks and one small statement. Continues after a failure, so that it can watch a server come back.
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { TimeoutError, type Client, type ConnectEvent } from "../index.ts";
import { count, duration } from "./arguments.ts";
import type { Command, Task } from "./command.ts";
import { leave, clientOf } from "./connect.ts";
import { EXIT, exitCodeOf, textOf } from "./failure.ts";
import { Misuse } from "./misuse.ts";
import { say, write } from "./terminal.ts";

export const ping: Command = {
  summary: "says whether a server is there, and how far away",
  usage: `Usage: pgz-edge ping [URL] [--count 5] [--interval 1s]

Connects, and measures round trips of "select 1". The exit code is 2 if the server was not there, at least once: it could
not be reached, or did not answer in time.

  -c, --count N      round trips (1)
  --interval TIME    from one to the next (1s)
  --timeout TIME     the longest that one may take (5s)`,
  options: {
    count: { type: "string", short: "c" },
    interval: { type: "string" },
  },
  run,
};

/** The default of --timeout in milliseconds. A server that accepts a login and never answers counts as away too. */
const LONGEST = 5_000;

async function run(task: Task): Promise<number> {
  const { options, signal } = atUrl(task);
  const times = count(task, "count") ?? 1;
  const interval = duration(task, "interval") ?? 1_000;
  if (times === 0) throw new Misuse("--count is at least 1.");
  let connected: ConnectEvent | undefined;
  const client = clientOf(options, signal, {
    timeout: duration(task, "timeout") ?? LONGEST,
    observer: { onConnect: (event) => void (connected = event) },
  });
  const trips: number[] = [];
  let code = 0;
  let begun = 0;
  try {
    for (let n = 1; n <= times; n++) {
      if (n > 1) await pause(interval, undefined, { signal });
      begun = n;
      try {
        await measure(client, trips);
      } catch (error) {
        if (signal.aborted) throw error;
        say(`${times > 1 ? `${n}: ` : ""}${textOf(error, options["debug"] === true)}`);
        code = Math.max(code, isAway(error) ? EXIT.notConnected : exitCodeOf(error));
      }
    }
    if (times > 1) await write(`${summary(trips, times)}\n`);
    return code;
  } catch (error) {
    // Standard output takes nothing after Ctrl-C. What was measured is the reason for a long run.
    if (signal.aborted && trips.length > 1) say(summary(trips, begun));
    throw error;
  } finally {
    await leave(client);
  }

  async function measure(client: Client, trips: number[]): Promise<void> {
    connected = undefined;
    let from = performance.now();
    await client.exec("select 1", { signal });
    // Connecting is reported separately. The round trip is that of the next statement.
    if (connected) {
      const { host, port, durationMs } = connected as ConnectEvent;
      await write(`connected to ${host}:${port} in ${milliseconds(durationMs)}\n`);
      from = performance.now();
      await client.exec("select 1", { signal });
    }
    const trip = performance.now() - from;
    trips.push(trip);
    await write(`${milliseconds(trip)}\n`);
  }
}

/** Whether the server could not be reached, or did not answer in time. */
export function isAway(error: unknown): boolean {
  return exitCodeOf(error) === EXIT.notConnected || error instanceof TimeoutError;
}

/** Takes the URL from the value after the command, if there is one. */
export function atUrl(task: Task): Task {
  const [url, ...others] = task.values;
  if (others.length) throw new Misuse("Pass one URL, or none.");
  return url === undefined ? task : { ...task, options: { ...task.options, url } };
}

function summary(trips: readonly number[], times: number): string {
  const sorted = [...trips].sort((a, b) => a - b);
  const lost = times - trips.length;
  const text = `${trips.length} of ${times} answered`;
  if (lost === times) return text;
  const middle = sorted[Math.floor(sorted.length / 2)]!;
  return `${text}: least ${milliseconds(sorted[0]!)}, median ${milliseconds(middle)}, most ${milliseconds(sorted.at(-1)!)}`;
}

export function milliseconds(time: number): string {
  return `${time < 10 ? time.toFixed(2) : time.toFixed(time < 100 ? 1 : 0)} ms`;
}
