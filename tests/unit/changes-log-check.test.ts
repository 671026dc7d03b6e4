// Whether a stream of changes may continue on a server (js/changes/log-check.ts): each combination of what it
// has read with what the server says, and the texts that the decision is made from.
import { describe, expect, test } from "vitest";
import { changesLost, decide, isAtWork, timelineAt, type LogName, type ServerLog } from "../../js/changes/log-check.ts";
import { branchesIn, logQuestion } from "../../js/changes/log-question.ts";
import { ReadLog } from "../../js/changes/log-read.ts";
import { positionText } from "../../js/cluster/position.ts";

const SYSTEM = 7n;
const log = (timeline: number, branches: LogName["branches"] = [], system = SYSTEM) => ({ system, timeline, branches });
/** Its older timelines are not known. */
const unknown = (timeline: number, system = SYSTEM) => ({ system, timeline, branches: undefined });
/** Timeline 1 up to 60, then timeline 2. */
const promoted = log(2, [{ timeline: 1, end: 60n }]);

function server(more: Partial<ServerLog> = {}): ServerLog {
  return { ...log(1), end: 100n, isStandby: false, instance: "b", confirmed: 40n, ...more };
}

interface Stream {
  readonly log?: LogName & { readonly instance?: string };
  readonly needed?: bigint;
  readonly flushed?: bigint;
  readonly ownsSlot?: boolean;
}

/** A stream that has read 50 and is flushed there, if nothing else is said. */
function outcome({ log, needed = 50n, flushed = needed, ownsSlot = log !== undefined }: Stream, of: ServerLog) {
  const decision = decide({ log, needed, flushed, ownsSlot }, of);
  return decision.kind === "start" ? `start ${decision.flushed}` : decision.kind;
}

type Case = readonly [what: string, stream: Stream, server: Partial<ServerLog>, outcome: string];

const first: readonly Case[] = [
  ["nothing read, without a slot", { needed: 0n }, { confirmed: undefined }, "start 0"],
  ["nothing read", { needed: 0n }, {}, "start 40"],
  ["a bare position", {}, {}, "start 50"],
  ["a bare position before that of the slot", { needed: 30n }, {}, "start 40"],
  ["a bare position at the end of the log", { needed: 100n }, {}, "start 100"],
  ["a bare position beyond the end", { needed: 101n }, {}, "lost"],
  ["a bare position beyond the end of a standby", { needed: 101n }, { isStandby: true }, "wait"],
  ["a slot beyond the end", { needed: 0n }, { confirmed: 101n }, "lost"],
  ["a slot beyond the end of a standby", { needed: 0n }, { confirmed: 101n, isStandby: true }, "wait"],
];

const full: readonly Case[] = [
  ["a full position", { log: unknown(1), ownsSlot: false }, {}, "start 50"],
  ["a full position beyond the end", { log: unknown(1), needed: 101n, ownsSlot: false }, {}, "lost"],
  ["a full position of another system", { log: unknown(1, 8n), ownsSlot: false }, {}, "lost"],
  ["a full position of an unknown system", { log: unknown(1, 0n), ownsSlot: false }, {}, "start 50"],
  ["a full position before a promotion", { log: unknown(1), ownsSlot: false }, promoted, "start 50"],
  ["a full position at a promotion", { log: unknown(1), needed: 60n, ownsSlot: false }, promoted, "start 60"],
  ["a full position after a promotion", { log: unknown(1), needed: 61n, ownsSlot: false }, promoted, "lost"],
  [
    "a full position where its timeline begins",
    { log: unknown(2), needed: 61n, ownsSlot: false },
    promoted,
    "start 61",
  ],
  ["a full position before its timeline begins", { log: unknown(2), needed: 60n, ownsSlot: false }, promoted, "lost"],
  ["a full position of a newer timeline", { log: unknown(2), ownsSlot: false }, {}, "lost"],
  ["the same on a standby", { log: unknown(2), ownsSlot: false }, { isStandby: true }, "wait"],
  ["a full position of a timeline that is not there", { log: unknown(2), ownsSlot: false }, log(3), "lost"],
];

const again: readonly Case[] = [
  ["the same server", { log: log(1) }, {}, "start 50"],
  ["another system", { log: log(1, [], 8n) }, {}, "lost"],
  ["a server with a shorter log", { log: log(1) }, { end: 49n }, "lost"],
  ["a standby that lags", { log: log(1) }, { end: 49n, isStandby: true }, "wait"],
  ["a promoted server with everything", { log: log(1) }, promoted, "start 50"],
  ["a promoted server without some", { log: log(1), needed: 61n }, promoted, "lost"],
  ["one of its standbys", { log: log(1), needed: 61n }, { ...promoted, isStandby: true }, "lost"],
  // Between 50 and 80 the first log had nothing for the stream, and the promoted server's log is another one.
  ["a promoted server without an idle part", { log: log(1), flushed: 80n }, promoted, "start 60"],
  ["the same with a slot that was made there", { log: log(1), flushed: 80n }, { ...promoted, confirmed: 70n }, "lost"],
  ["a shorter log without an idle part", { log: log(1), flushed: 80n }, { end: 70n }, "start 70"],
  ["a primary that was left behind", { log: promoted, needed: 70n }, {}, "lost"],
  ["the same before the promotion", { log: promoted }, {}, "start 50"],
  ["a standby that has yet to follow", { log: promoted, needed: 70n }, { end: 55n, isStandby: true }, "wait"],
  ["a standby that follows the other one", { log: promoted, needed: 70n }, { end: 90n, isStandby: true }, "lost"],
  ["another timeline of the same number", { log: promoted, needed: 70n }, log(2, [{ timeline: 1, end: 65n }]), "lost"],
  ["the same where both are one", { log: promoted, needed: 60n }, log(2, [{ timeline: 1, end: 65n }]), "start 60"],
  [
    "a timeline without the one that was read",
    { log: promoted, needed: 70n },
    log(3, [{ timeline: 1, end: 80n }]),
    "lost",
  ],
  [
    "a timeline after the one that was read",
    { log: promoted, needed: 70n },
    log(3, [...promoted.branches!, { timeline: 2, end: 75n }]),
    "start 70",
  ],
  ["a promoted server whose history is lost", { log: log(1) }, unknown(2), "lost"],
  ["the same timeline without its history", { log: promoted, needed: 70n }, unknown(2), "start 70"],
  // A standby that was promoted while the stream read from it.
  ["the same instance on a new timeline", { log: { ...log(1), instance: "b" }, needed: 70n }, promoted, "start 70"],
  ["a slot that another reader moved", { log: log(1) }, { confirmed: 51n }, "lost"],
  ["the same after another reader had the slot", { log: log(1), ownsSlot: false }, { confirmed: 51n }, "start 51"],
  ["a slot that lost its last position", { log: log(1) }, { confirmed: 10n }, "start 50"],
  ["a slot that is gone", { log: log(1) }, { confirmed: undefined }, "start 50"],
];

describe.each([
  ["the first connection, from", first],
  ["the first connection, from", full],
  ["the next connection, to", again],
] as const)("%s", (_, cases) => {
  test.each(cases)("%s", (_, stream, said, expected) => {
    expect(outcome(stream, server(said))).toBe(expected);
  });
});

test("no stream starts at, or reports, a position that the server's log does not have", () => {
  const positions = [0n, 40n, 60n, 61n, 100n, 120n];
  const logs = [undefined, log(1), unknown(1), promoted, unknown(3), log(1, [], 8n)];
  let starts = 0;
  for (const read of logs)
    for (const said of [log(1), promoted, unknown(2)])
      for (const isStandby of [false, true])
        for (const needed of positions)
          for (const flushed of positions.filter((position) => position >= needed))
            for (const confirmed of [undefined, ...positions])
              for (const ownsSlot of [false, true]) {
                const of = server({ ...said, isStandby, confirmed });
                const decision = decide({ log: read, needed, flushed, ownsSlot }, of);
                if (decision.kind !== "start") continue;
                starts++;
                expect(decision.flushed).toBeLessThanOrEqual(of.end);
                expect(decision.flushed).toBeGreaterThanOrEqual(needed);
                if (ownsSlot) expect(confirmed ?? 0n).toBeLessThanOrEqual(flushed);
                if (read) expect(read.system).toBe(of.system);
              }
  expect(starts).toBeGreaterThan(100);
});

test("the error says what is missing and how to begin anew", () => {
  const decision = decide({ log: log(1), needed: 0x61n, flushed: 0x61n, ownsSlot: true }, server(promoted));
  const error = changesLost("search", 0x61n, decision.kind === "lost" ? decision.why : "");
  expect(error).toMatchObject({ code: "CHANGES_LOST", retryable: false });
  for (const part of ['"search"', "0/61", "timeline 1", "timeline 2", "after 0/3C", "snapshot: true"])
    expect(error.message).toContain(part);
});

test("a history file has a line for each older timeline", () => {
  const content = "1\t0/3000148\tno recovery target specified\n\n2\t1/A0\tbefore 2026-11-28\n# a comment\n";
  expect(branchesIn(content)).toEqual([
    { timeline: 1, end: 0x3000148n },
    { timeline: 2, end: 0x1_0000_00a0n },
  ]);
  expect(branchesIn("")).toEqual([]);
});

test("a position belongs to the timeline in which it was written", () => {
  expect([50n, 60n, 61n].map((position) => timelineAt(promoted, position))).toEqual([1, 1, 2]);
});

test("the question quotes names", () => {
  const question = logQuestion("search", [`it's`, "b"]);
  expect(question).toContain("values ('it''s'::pg_catalog.name), ('b'::pg_catalog.name)");
});

test("a read log begins at `from`, and names positions once it has begun", () => {
  expect(new ReadLog(undefined).from).toBe(0n);
  expect(new ReadLog("1/A0")).toMatchObject({ from: 0x1_0000_00a0n, read: undefined });
  const text = positionText({ system: 7n, timeline: 1, lsn: 0x50n });
  const read = new ReadLog(text);
  expect(read).toMatchObject({ from: 0x50n, read: { system: 7n, timeline: 1 } });
  expect(read.progress(0x40n, 0x60n)).toMatchObject({ needed: 0x50n, flushed: 0x50n, ownsSlot: false });
  expect(() => read.fullPosition(0x50n)).toThrow("No change has been read");
  read.found({ log: server(promoted), hasSlot: true, isSlotActive: false, processId: 7, missing: undefined });
  read.begins(60n);
  expect(read.fullPosition(50n)).toBe("7-1-1e");
  expect(read.fullPosition(70n)).toBe("7-2-1y");
  expect(read.progress(70n, 70n)).toMatchObject({ needed: 80n, ownsSlot: true });
});

test.each([
  ["its server, at work", { isAtWork: true }, {}, true],
  ["its server, which waits for this client", {}, {}, false],
  ["no server", "unreachable", {}, false],
  ["the primary that has taken its place, or the same one after a restart", { instance: "c" }, {}, false],
  ["another primary, from a standby", { instance: "c" }, { isStandby: true }, true],
  ["a standby", { instance: "c", isStandby: true }, {}, true],
] as const)("a silent connection whose `db` finds %s", (_, found, own, outcome) => {
  const standing = { isStandby: false, instance: "b", isAtWork: false };
  expect(isAtWork(found === "unreachable" ? found : { ...standing, ...found }, { ...standing, ...own })).toBe(outcome);
});
