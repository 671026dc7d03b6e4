// What a member of a pool says of itself: whether it is clean, on its way back, or perhaps demoted.
import { expect, test } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Options } from "../../js/config/options.ts";
import type { Connection } from "../../js/connection/connection.ts";
import { Member } from "../../js/pool/member.ts";

const configOf = (targetSessionAttrs: Options["targetSessionAttrs"]) =>
  resolveConfig({ host: "h", user: "u", targetSessionAttrs });

/** What a member asks of its connection. */
function connectionOf(traits: Record<string, unknown> = {}): Connection {
  const core = { call: () => undefined, stats: {} };
  const config = configOf("any");
  return {
    ...{ core, config, parameters: new Map(), transactionStatus: "I", closed: undefined, stopping: undefined },
    ...{ isBusy: false, refusedWrite: false, isPooled: false, processId: 7, tell: () => {}, ...traits },
  } as unknown as Connection;
}

const memberOf = (traits?: Record<string, unknown>) => new Member(connectionOf(traits), 1, 3, 10, 20);

test("its socket is told when that changes, and not at each call", () => {
  const told: boolean[] = [];
  const member = memberOf({ hold: (isHeld: boolean) => told.push(isHeld) });
  for (const isHeld of [true, false, false, true, true, false]) member.hold(isHeld);
  expect(told).toEqual([false, true, false]);
});

test("a new member is busy, without borrowers, of its generation", () => {
  const member = memberOf();
  expect(member).toMatchObject({ place: "busy", borrowers: 0, isAlone: false, isSuspect: false, isDoomed: false });
  expect(member).toMatchObject({ generation: 3, since: 10, heard: 10, expiresAt: 20 });
  expect(member.session.sessionChanges).toBe(member.sessionChanges);
});

test("it is clean only while nothing speaks against it", () => {
  expect(memberOf().isClean).toBe(true);
  expect(memberOf({ closed: new Error("gone") }).isClean).toBe(false);
  expect(memberOf({ isBusy: true }).isClean).toBe(false);
  expect(memberOf({ stopping: Promise.resolve() }).isClean).toBe(false);
  expect(memberOf({ transactionStatus: "T" }).isClean).toBe(false);
  const left = memberOf();
  left.sessionChanges.note("set a.b = 1");
  expect(left.isClean).toBe(false);
  const config = configOf("primary");
  expect(memberOf({ refusedWrite: true, config }).isClean).toBe(false);
});

test.each<[Options["targetSessionAttrs"], boolean]>([
  ["read-write", true],
  ["primary", true],
  ["any", false],
  ["prefer-standby", false],
  ["read-only", false],
])("with target_session_attrs %s a refused write may mean that the server was demoted: %s", (attrs, maybe) => {
  const config = configOf(attrs);
  expect(memberOf({ refusedWrite: true, config }).mayBeDemoted).toBe(maybe);
  expect(memberOf({ refusedWrite: false, config }).mayBeDemoted).toBe(false);
});

test("it is on its way back when its call is over and the server has nothing more to say or to do", () => {
  const member = memberOf();
  member.place = "lent";
  member.call = { finished: true };
  expect(member.isReturning).toBe(true);
  member.call = { finished: false };
  expect(member.isReturning).toBe(false);
  member.call = undefined;
  expect(member.isReturning).toBe(false);
  member.call = { finished: true };
  member.place = "idle";
  expect(member.isReturning).toBe(false);
  member.place = "lent";
  member.borrowers = 2;
  expect(member.isReturning).toBe(false);
  const closed = memberOf({ closed: new Error("it has ended") as never });
  closed.place = "lent";
  closed.call = { finished: true };
  expect(closed.isReturning).toBe(false);
  for (const more of [{ isBusy: true }, { transactionStatus: "T" }, { transactionStatus: "E" }]) {
    const saying = memberOf(more);
    saying.place = "lent";
    saying.call = { finished: true };
    expect(saying.isReturning).toBe(false);
  }
  const stopping = memberOf({ stopping: Promise.resolve() });
  stopping.place = "lent";
  stopping.call = { finished: true };
  expect(stopping.isReturning).toBe(false);
});
