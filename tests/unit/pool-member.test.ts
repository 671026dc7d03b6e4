// The state of a member of a pool: whether it is clean, on its way back, or possibly demoted.
import { expect, test } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Options } from "../../js/config/options.ts";
import type { Connection } from "../../js/connection/connection.ts";
import { Member } from "../../js/pool/member.ts";

const configOf = (targetSessionAttrs: Options["targetSessionAttrs"]) =>
  resolveConfig({ host: "h", user: "u", targetSessionAttrs });

/** The properties of a connection that a member reads. */
function connectionOf(traits: Record<string, unknown> = {}): Connection {
  const core = { call: () => undefined, stats: {} };
  const config = configOf("any");
  return {
    ...{ core, config, parameters: new Map(), transactionStatus: "I", closed: undefined, stopping: undefined },
    ...{ isBusy: false, refusedWrite: false, isPooled: false, processId: 7, callCore: () => {}, ...traits },
  } as unknown as Connection;
}

const memberOf = (traits?: Record<string, unknown>) => new Member(connectionOf(traits), 1, 3, 10, 20);

test("the socket is told of a change, and not of each call", () => {
  const told: string[] = [];
  const member = memberOf({ ref: () => told.push("ref"), unref: () => told.push("unref") });
  for (const call of ["ref", "unref", "unref", "ref", "ref", "unref"] as const) member[call]();
  expect(told).toEqual(["unref", "ref", "unref"]);
});

test("a new member is busy, without borrowers, and of the given generation", () => {
  const member = memberOf();
  expect(member).toMatchObject({ state: "busy", borrowers: 0, isAlone: false, isSuspect: false, isDoomed: false });
  expect(member).toMatchObject({ generation: 3, since: 10, heard: 10, expiresAt: 20 });
  expect(member.session.sessionChanges).toBe(member.sessionChanges);
});

test.each<[string, Record<string, unknown>, isClean: boolean]>([
  ["nothing", {}, true],
  ["its end", { closed: new Error("gone") }, false],
  ["a call", { isBusy: true }, false],
  ["a cancel", { stopping: Promise.resolve() }, false],
  ["an open transaction", { transactionStatus: "T" }, false],
  ["a refused write", { refusedWrite: true, config: configOf("primary") }, false],
])("with %s on its connection a member is clean, or not", (_, traits, isClean) => {
  expect(memberOf(traits).isClean).toBe(isClean);
});

test("a member whose session was changed is not clean", () => {
  const member = memberOf();
  member.sessionChanges.note("set a.b = 1");
  expect(member.isClean).toBe(false);
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

const over = { state: "lent", call: { finished: true } } as const;

test.each<[string, Partial<Member>, traits: Record<string, unknown>, isReturning: boolean]>([
  ["whose call is over", over, {}, true],
  ["whose call runs", { ...over, call: { finished: false } }, {}, false],
  ["without a call", { ...over, call: undefined }, {}, false],
  ["that is idle", { ...over, state: "idle" }, {}, false],
  ["with another borrower", { ...over, borrowers: 2 }, {}, false],
  ["that has ended", over, { closed: new Error("it has ended") }, false],
  ["that still reads", over, { isBusy: true }, false],
  ["in a transaction", over, { transactionStatus: "T" }, false],
  ["in a failed transaction", over, { transactionStatus: "E" }, false],
  ["on which something is cancelled", over, { stopping: Promise.resolve() }, false],
])("a member %s is on its way back, or not", (_, state, traits, isReturning) => {
  expect(Object.assign(memberOf(traits), state).isReturning).toBe(isReturning);
});
