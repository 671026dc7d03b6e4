// Decisions of `pgz-edge/cluster` that need no server: texts of positions, lags, the choice of a server, and which
// calls continue on another server.
import { describe, expect, test } from "vitest";
import { reasonToLeave, reasonToLeaveGuarded } from "../../js/cluster/again.ts";
import { choose, type Candidate } from "../../js/cluster/choice.ts";
import { Memory, type Facts } from "../../js/cluster/memory.ts";
import { endOfRecord, lsnOf, lsnText, positionOf, positionText, UNKNOWN } from "../../js/cluster/position.ts";
import { refusalIn, refusalOf, statusOf } from "../../js/cluster/questions.ts";
import { ConnectionError, PostgresError, TimeoutError } from "../../js/util/errors.ts";

const MOST = (1n << 64n) - 1n;

describe("positions", () => {
  test("convert to a text that suits a cookie, and back", () => {
    for (const position of [
      { system: 7712834507549850398n, timeline: 1, lsn: lsnOf("0/1B820B8") },
      { system: MOST, timeline: 0xffffffff, lsn: MOST },
      { system: 1n, timeline: 1, lsn: 0n },
    ]) {
      const text = positionText(position);
      expect(text).toMatch(/^[0-9a-z-]{5,35}$/);
      expect(positionOf(text)).toEqual(position);
    }
  });

  test.each([
    "",
    "1-1",
    "1-1-1-1",
    "A-1-1",
    "zzzzzzzzzzzzz-1-1",
    "1-zzzzzzz-1",
    "1-1-' or true",
    7,
    null,
    undefined,
    {},
  ])("%j is not a position", (text) => expect(positionOf(text)).toBe(UNKNOWN));

  test("are parsed and written as the server writes them", () => {
    expect(lsnOf("1F/A0000028")).toBe(0x1fa0000028n);
    expect(lsnText(0x1fa0000028n)).toBe("1F/A0000028");
  });

  test("if a record has filled its page, its end is before the next page's header", () => {
    expect(endOfRecord(8192n * 5n + 24n, 8192)).toBe(8192n * 5n);
    expect(endOfRecord((1n << 24n) + 40n, 8192)).toBe(1n << 24n);
    expect(endOfRecord(8192n * 5n + 32n, 8192)).toBe(8192n * 5n + 32n);
    // In the middle of a larger page.
    expect(endOfRecord(8192n + 24n, 16384)).toBe(8192n + 24n);
  });

  test("a guard's refusal is recognized by its own words only", () => {
    const error = (message: string, code = "22P02") => new PostgresError({ severity: "ERROR", code, message });
    expect(refusalIn(error('invalid input syntax for type pg_lsn: "pgz-edge:behind"'))).toBe("behind");
    expect(refusalIn(error('ungültige Eingabesyntax für Typ pg_lsn: »"pgz-edge:role"«'))).toBe("role");
    expect(refusalIn(error('invalid input syntax for type integer: "7a"'))).toBeUndefined();
    expect(refusalIn(error('"pgz-edge:behind"', "22012"))).toBeUndefined();
    // This error is of the caller's own statement: its values may have any words.
    expect(refusalOf(error('invalid input syntax for type pg_lsn: "pgz-edge:behind"'))).toBeUndefined();
    expect(refusalOf(undefined)).toBeUndefined();
  });
});

const primary = (lsn: bigint, timeline = 1) => ({ isStandby: false, system: 7n, timeline, lsn });
const standby = (lsn: bigint, timeline = 1) => ({ isStandby: true, system: 7n, timeline, lsn });

describe("lags", () => {
  test("a standby has everything up to the last time at which the primary was no further", () => {
    const memory = new Memory();
    const facts = memory.of("one");
    memory.mark(primary(100n), 1_000);
    memory.mark(primary(200n), 2_000);
    memory.answered(facts, standby(99n), 1);
    expect(facts.upToDateAsOf).toBe(-Infinity);
    memory.reached(facts, 150n);
    expect(facts.upToDateAsOf).toBe(1_000);
    memory.reached(facts, 200n);
    expect(facts.upToDateAsOf).toBe(2_000);
    expect(facts.status!.lsn).toBe(200n);
  });

  test("a promotion drops earlier marks", () => {
    const memory = new Memory();
    const facts = memory.of("one");
    memory.mark(primary(100n), 1_000);
    memory.isSuspect = false;
    memory.answered(facts, standby(100n), 1);
    memory.mark(primary(90n, 2), 3_000);
    expect(memory.isSuspect).toBe(true);
    expect(facts.upToDateAsOf).toBe(-Infinity);
    memory.answered(facts, standby(90n, 2), 1);
    expect(facts.upToDateAsOf).toBe(3_000);
  });

  test("a primary that was left behind is ignored, and one of another cluster drops earlier marks", () => {
    const memory = new Memory();
    const facts = memory.of("one");
    memory.mark(primary(90n, 2), 3_000);
    memory.isSuspect = false;
    memory.mark(primary(100n, 1), 4_000);
    expect([memory.timeline, memory.isSuspect]).toEqual([2, true]);
    memory.answered(facts, standby(100n, 1), 1);
    expect(facts.upToDateAsOf).toBe(-Infinity);
    memory.mark({ ...primary(10n, 1), system: 8n }, 5_000);
    expect(memory.timeline).toBe(1);
  });

  test("positions of another timeline say nothing", () => {
    const memory = new Memory();
    const facts = memory.of("one");
    memory.mark(primary(90n, 2), 3_000);
    memory.answered(facts, standby(100n, 1), 1);
    expect(memory.knowsLag(facts)).toBe(false);
    expect(facts.upToDateAsOf).toBe(-Infinity);
    // The role may not read the timeline.
    memory.answered(facts, standby(100n, 0), 1);
    expect(memory.knowsLag(facts)).toBe(true);
    expect(facts.upToDateAsOf).toBe(3_000);
  });

  test("the texts of the answers are parsed", () => {
    expect(statusOf([true, "0/10", "7", 3, null, "8192"])).toEqual({
      isStandby: true,
      lsn: 16n,
      system: 7n,
      timeline: 3,
    });
    expect(statusOf([false, "0/10", null, null, "0000000A0000000000000001", "8192"])).toMatchObject({ timeline: 10 });
  });
});

describe("the choice of a server", () => {
  const now = 10_000;
  const server = (key: string, facts: Partial<Facts>): Candidate => ({
    key,
    facts: { ...new Memory().of(key), status: standby(50n), roundTrip: 1, upToDateAsOf: now - 100, ...facts },
  });
  const of = (servers: Candidate[], more: Partial<Parameters<typeof choose>[1]> = {}) => {
    const choice = choose(servers, { now, maxLag: 1_000, turn: 0, ...more });
    return choice.is === "standby" ? choice.server.key : choice.reason;
  };

  test("takes the nearest of those that lag little enough", () => {
    const servers = [
      server("far", { roundTrip: 50 }),
      server("near", { roundTrip: 4 }),
      server("late", { roundTrip: 1, upToDateAsOf: now - 2_000 }),
      server("primary", { status: primary(60n), roundTrip: 0.1 }),
    ];
    expect(of(servers)).toBe("near");
    expect(of(servers, { maxLag: Infinity })).toBe("late");
    expect(of(servers, { tried: new Set(["near"]) })).toBe("far");
  });

  test("lets servers that are equally near take turns", () => {
    const servers = [server("a", { roundTrip: 2 }), server("b", { roundTrip: 2.4 }), server("c", { roundTrip: 9 })];
    expect([0, 1, 2, 3].map((turn) => of(servers, { turn }))).toEqual(["a", "b", "a", "b"]);
  });

  test("prefers a server that is known to have reached the position", () => {
    const servers = [server("near", {}), server("far", { roundTrip: 9, status: standby(70n) })];
    expect(of(servers, { lsn: 60n })).toBe("far");
    expect(of(servers, { lsn: 80n })).toBe("near");
  });

  test("gives the reason why the primary answers", () => {
    expect(of([])).toBe("none");
    expect(of([server("primary", { status: primary(1n) })])).toBe("none");
    expect(of([server("gone", { status: undefined, failure: new Error() })])).toBe("unreachable");
    expect(of([server("late", { upToDateAsOf: -Infinity })])).toBe("lag");
    expect(of([server("late", { upToDateAsOf: -Infinity })], { maxLag: Infinity })).toBe("late");
  });
});

describe("a call continues on another server", () => {
  const sent = (code: string) => new PostgresError({ severity: "ERROR", code, message: "" });
  const lost = (hasNoEffect: boolean) => new ConnectionError("CONNECTION_LOST", "", { hasNoEffect, stage: "session" });

  test("after conflicts and writes, unless a part may be committed", () => {
    expect(reasonToLeave(sent("40001"), "select 1")).toBe("conflict");
    expect(reasonToLeave(sent("57P04"), "select 1")).toBe("conflict");
    expect(reasonToLeave(sent("25006"), "insert into t values (1)")).toBe("write");
    expect(reasonToLeave(sent("25006"), "call f()")).toBeUndefined();
    expect(reasonToLeave(sent("40001"), "select 1; commit; select 2")).toBeUndefined();
    expect(reasonToLeaveGuarded(sent("40001"))).toBe("conflict");
    expect(reasonToLeaveGuarded(sent("42P01"))).toBeUndefined();
  });

  test("if its server is gone, and with a guard even if it may have had an effect", () => {
    expect(reasonToLeave(lost(true), "select f()")).toBe("unreachable");
    expect(reasonToLeave(lost(false), "select f()")).toBeUndefined();
    expect(reasonToLeaveGuarded(lost(false))).toBe("unreachable");
    expect(reasonToLeaveGuarded(sent("57P01"))).toBe("unreachable");
    expect(reasonToLeaveGuarded(new TimeoutError("QUERY_TIMEOUT", ""))).toBeUndefined();
    expect(reasonToLeaveGuarded(new Error("the user's"))).toBeUndefined();
  });

  test("but never after rows have been seen", () => {
    const seen = new ConnectionError("CONNECTION_LOST", "", { committed: true, stage: "session" });
    expect(reasonToLeaveGuarded(seen)).toBeUndefined();
    expect(reasonToLeaveGuarded(Object.assign(sent("40001"), { completed: ["SELECT"] }))).toBeUndefined();
  });
});
