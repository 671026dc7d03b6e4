// Caps of every reading call: maxRows, maxBytes and maxFieldBytes, exceeded and not exceeded.
//
// Knows what each cap counts (docs/limits.md). Must not know where it is counted.
import { assert } from "../../integration/assert.ts";
import type { Dice } from "../../random/dice.ts";
import { readLines, type Caller, type Disturbed } from "../../random/plan.ts";
import { codeOf, endOf, type CallWorld, type Make } from "./call.ts";

type Cap = "maxRows" | "maxBytes" | "maxFieldBytes";
type Limits = Disturbed & Partial<Record<Cap, number>>;

interface Asked {
  readonly count: number;
  /** Characters in the second column. */
  readonly pad: number;
  readonly first: number;
}

const textOf = ({ first, count, pad }: Asked) =>
  `select n, repeat('x', ${pad}) as pad from generate_series(${first}, ${first + count - 1}) n`;

/** Returns the number of rows that arrived. */
type Read = (caller: Caller, asked: Asked, options: Limits, world: CallWorld) => Promise<number>;

const READS: Readonly<Record<string, Read>> = {
  query: async (caller, asked, options) => (await caller.query(textOf(asked), options)).rows.length,
  json: async (caller, asked, options) =>
    (JSON.parse(new TextDecoder().decode(await caller.json(textOf(asked), options))) as unknown[]).length,
  rows: async (caller, asked, options) => {
    let count = 0;
    for await (const row of caller.rows(textOf(asked), options)) count += row ? 1 : 0;
    return count;
  },
  cursor: async (caller, asked, options) => {
    let count = 0;
    for await (const rows of caller.cursor(textOf(asked), 7, options)) count += rows.length;
    return count;
  },
  stream: async (caller, asked, options) => (await readLines(await caller.stream(textOf(asked), options))).length,
  respond: async (caller, asked, options) =>
    (await readLines((await caller.respond(textOf(asked), options)).body!)).length,
  batch: async (caller, asked, options) =>
    (await caller.batch([textOf(asked)], options)).reduce((sum, { rows }) => sum + rows.length, 0),
  simple: async (caller, asked, options) =>
    (await caller.simple(textOf(asked), options)).reduce((sum, { rows }) => sum + rows.length, 0),
  copyTo: async (caller, asked, options) =>
    (await readLines(await caller.copyTo(`copy (select row_to_json(t) from (${textOf(asked)}) t) to stdout`, options)))
      .length,
  copyToRows: async (caller, asked, options) => {
    let count = 0;
    for await (const row of caller.copyToRows(textOf(asked), options)) count += row ? 1 : 0;
    return count;
  },
};

function draw(dice: Dice, world: CallWorld) {
  const count = 2 + dice.below(dice.pick([5, 60, Math.min(600, world.mostRows ?? 600)]));
  const pad = dice.pick([3, 100, 900]);
  const cap = dice.pick(["maxRows", "maxBytes", "maxFieldBytes"] as const);
  const isPassed = dice.oneIn(2);
  const most = { maxRows: count, maxBytes: 10_000_000, maxFieldBytes: 10_000 }[cap];
  const less = { maxRows: 1 + dice.below(count - 1), maxBytes: 1 + dice.below(count * pad), maxFieldBytes: 1 }[cap];
  return { asked: { count, pad, first: (world.number += 1_000_000) }, cap, isPassed, value: isPassed ? less : most };
}

const capped: Make = (dice, world) => {
  const call = dice.pick(Object.keys(READS));
  const { asked, cap, isPassed, value } = draw(dice, world);
  return {
    says: `${call} of ${asked.count} rows of ${asked.pad} bytes with ${cap} ${value}`,
    streams: ["rows", "stream", "respond", "copyTo", "copyToRows", "cursor"].includes(call),
    leaves: isPassed,
    ...(isPassed ? { fails: "RESPONSE_TOO_LARGE" } : {}),
    async run(caller, options) {
      const reading = READS[call]!(caller, asked, { ...options, [cap]: value }, world);
      const error = await endOf(reading);
      if (codeOf(error) === "RESPONSE_TOO_LARGE") {
        const { limit, value: told } = error as { limit?: string; value?: number };
        const name = { maxRows: "rows", maxBytes: "bytes", maxFieldBytes: "fieldBytes" }[cap];
        assert.deepEqual([limit, told], [name, value], "what the error says");
      }
      if (error !== undefined) throw error;
      assert.equal(await reading, asked.count);
    },
  };
};

/** A shortened result, which is marked as such. */
const truncated: Make = (dice, world) => {
  const call = dice.pick(["query", "json", "stream"] as const);
  const { asked } = draw(dice, world);
  const most = 1 + dice.below(asked.count - 1);
  return {
    says: `${call} of ${asked.count} rows, truncated after ${most}`,
    streams: call === "stream",
    leaves: true,
    async run(caller, options) {
      const limits = { ...options, maxRows: most, onLimit: "truncate" } as const;
      const text = textOf(asked);
      if (call === "query") {
        const { rows, truncated: told } = await caller.query(text, limits);
        assert.equal(rows.length, most);
        return assert(told, "it was truncated");
      }
      const answer =
        call === "json"
          ? new TextDecoder().decode(await caller.json(text, { ...limits, format: "ndjson" }))
          : await new Response((await caller.stream(text, limits)) as unknown as BodyInit).text();
      const all = answer
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      assert.equal(all.filter((row) => "n" in row).length, most, "rows");
      assert(all.length === most + 1, "the mark of what is missing");
    },
  };
};

/** Calls for any caller. */
export const caps: readonly Make[] = [capped, capped, capped, truncated];
