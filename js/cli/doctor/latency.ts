// Measures round trips and milliseconds until the first row: on the first connection, on the next connection, and on an
// open connection.
import { performance } from "node:perf_hooks";
import type { Client, ConnectEvent } from "../../index.ts";
import { leave } from "../connect.ts";
import { milliseconds } from "../ping.ts";
import { change, good, note, type Finding } from "./findings.ts";
import { isHere } from "./link.ts";
import { whenFree, type Patient } from "./patient.ts";

interface FirstRow {
  readonly flights: number;
  readonly ms: number;
}

/** Milliseconds. The first connect is longer, because a sleeping database has to wake up. `timeout` includes it. */
const FIRST = { connectTimeout: 10_000, timeout: 13_000 };
/** Milliseconds. A statement that takes longer spends most of its time on the way to the server. */
const FAR = 15;
const STATEMENT = "select 1 as one";

/** Rejects if the server cannot be reached, because the doctor connects here first. */
export async function latency(patient: Patient): Promise<{ finding: Finding; place: ConnectEvent | undefined }> {
  let place: ConnectEvent | undefined;
  const first = patient.client({ observer: { onConnect: (event) => void (place = event) } }, FIRST);
  const next = patient.client();
  try {
    const cold = await timed(first);
    await leave(first); // a role may be allowed only one connection
    const again = await whenFree(() => timed(next));
    const runs: FirstRow[] = [];
    for (let n = 0; n < 7; n++) runs.push(await timed(next));
    const warm = runs.sort((a, b) => a.ms - b.ms)[3]!;
    return { finding: findingOf(cold, again, warm, place?.host ?? ""), place };
  } finally {
    await Promise.all([leave(first), leave(next)]);
  }
}

async function timed(client: Client): Promise<FirstRow> {
  const { flights } = client.stats();
  const from = performance.now();
  await client.query(STATEMENT);
  return { ms: performance.now() - from, flights: client.stats().flights - flights };
}

export function findingOf(cold: FirstRow, again: FirstRow, warm: FirstRow, host: string): Finding {
  const text = [
    `${described(cold)} from nothing`,
    `${described(again)} on the next connection`,
    `${described(warm)} on an open one (round trips of the protocol, without those of TCP and TLS)`,
  ].join("; ");
  const facts = { cold, again, warm };
  if (warm.ms < FAR) return good("first-row", "First row", text, facts);
  if (isHere(host)) return note("first-row", "First row", text, facts, SLOW_HERE);
  return change(
    "first-row",
    "First row",
    text,
    facts,
    "The server is far away. Run next to it (a region, on Workers a placement), or keep connections near it: a pool, " +
      "on Workers Hyperdrive.",
    "Send statements that do not need each other's results together, or as a batch: they share one round trip.",
  );
}

const SLOW_HERE =
  "That is long for a host that is this machine: it was busy, or the address is that of a tunnel or a proxy, whose " +
  "server is elsewhere.";

const described = ({ flights, ms }: FirstRow) =>
  `${flights} ${flights === 1 ? "round trip" : "round trips"}, ${milliseconds(ms)}`;
