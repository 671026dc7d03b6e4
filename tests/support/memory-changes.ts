// A server that sends changes, over memory-session.ts's sockets: what it says of its log and its slot, and the messages
// of a stream of one transaction.
//
// Knows the conversation before and in a stream. Must not know what a test is about.
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import { changes, type ChangesOptions } from "../../js/changes.ts";
import { provide } from "../../js/changes/core.ts";
import type { AnyChange } from "../../js/changes/kinds.ts";
import { client, isPending, letIn, type fakeTimers, type Session } from "./memory-session.ts";
import { completeAndReady, ended } from "./server-messages.ts";
import * as wire from "./wire.mjs";

const wasm = readFileSync(new URL("../../pkg/pgz_changes_bg.wasm", import.meta.url));
provide(() => wasm);

export const newest = { server_version: "18.0" };
export const options = { slot: "s", publication: "p" } as const;

/** Requests the first change. Its outcome is known when the returned promise settles. */
export function first(more: Partial<ChangesOptions> = {}) {
  const feed = changes(client, { ...options, ...more });
  const next = feed[Symbol.asyncIterator]().next();
  next.catch(() => {});
  return { feed, next };
}

/** A stream, and a function that returns its next change. */
export function read(more: Partial<ChangesOptions> = {}) {
  const iterator = changes(client, { ...options, ...more })[Symbol.asyncIterator]();
  return async () => ((await iterator.next()) as { value: AnyChange }).value;
}

// -- messages -----------------------------------------------------------------------------------------------------

export const position = (at: number) => Buffer.concat([wire.int32(0), wire.int32(at)]);
export const data = (letter: string, ...parts: Buffer[]) =>
  wire.message("d", Buffer.from("w"), position(16), position(64), position(0), Buffer.from(letter), ...parts);
export const copyBoth = wire.message("W", Buffer.of(0), wire.int16(0));
export const insertedRow = data(
  "I",
  wire.int32(1),
  Buffer.from("N"),
  wire.int16(1),
  Buffer.from("t"),
  wire.int32(1),
  Buffer.from("5"),
);

/** The beginning of a transaction with one row, and its commit, which ends at 64. */
export function transaction(): Buffer[] {
  const column = [Buffer.of(1), wire.cstring("n"), wire.int32(23), wire.int32(-1)];
  const names = [wire.cstring("public"), wire.cstring("t"), Buffer.from("d"), wire.int16(1)];
  return [
    data("B", position(48), position(0), wire.int32(7)),
    data("R", wire.int32(1), ...names, ...column),
    insertedRow,
    data("C", Buffer.of(0), position(48), position(64), position(0)),
  ];
}

/** The answer to START_REPLICATION, and the beginning of a transaction with one row. */
export function beginsStream(session: Session): void {
  session.send(copyBoth, ...transaction().slice(0, -1));
}

/** The next connection, after a pause of the driver. */
export async function another(clock: Clock, settings?: Record<string, string>): Promise<Session> {
  const coming = letIn(settings);
  while (await isPending(coming)) await clock.pass(500);
  return coming;
}

// -- questions before a stream ------------------------------------------------------------------------------------

export interface Server {
  readonly system?: string;
  readonly timeline?: string;
  readonly end?: string;
  readonly isStandby?: boolean;
  readonly confirmed?: string;
  readonly isActive?: boolean;
  readonly hasSlot?: boolean;
  readonly instance?: string;
  readonly missing?: string;
  /** The content of its history file. */
  readonly history?: string;
}

const oneRow = (...values: readonly (string | undefined)[]) =>
  Buffer.concat([
    wire.rowDescription(values.map((_, at) => ({ name: `c${at}`, oid: 25 }))),
    wire.dataRow(values.map((value) => (value === undefined ? null : Buffer.from(value)))),
    ended(1),
  ]);

/** Answers the first flight: where the slot is, and whose log it is. */
export async function answersFirst(session: Session, server: Server = {}): Promise<void> {
  const { system = "7", timeline = "1", end = "0/40", history } = server;
  expect([...(await session.flight()), ...(await session.flight())]).toEqual(["Query", "Query"]);
  session.send(firstRow(server), oneRow(system, timeline, end, "d"));
  if (history === undefined) return;
  expect(await session.flight()).toEqual(["Query"]);
  session.send(oneRow("00000002.history", history));
}

/** The same, up to START_REPLICATION. Returns its text. */
export async function answersToStart(session: Session, server: Server = {}): Promise<string> {
  await answersFirst(session, server);
  return await command(session, server);
}

/** Answers the question where the slot is, which comes again in the flight of START_REPLICATION. Returns its text. */
export async function command(session: Session, server: Server = {}): Promise<string> {
  const [question, start] = [await session.message(), await session.message()];
  expect([question!.name, start!.name]).toEqual(["Query", "Query"]);
  session.send(firstRow(server));
  return Buffer.from(start!.body).toString().replace("\0", "");
}

const firstRow = (server: Server) => {
  const { isStandby, instance = "some time", confirmed = "0/10", isActive, hasSlot = true, missing } = server;
  const slot = hasSlot ? [confirmed, isActive ? "t" : "f"] : [undefined, undefined];
  return oneRow(isStandby ? "t" : "f", instance, ...slot, missing, "7");
};

/** Answers a Query of the driver's. */
export async function answerQuery(session: Session, ...answers: Buffer[]): Promise<void> {
  expect(await session.flight()).toEqual(["Query"]);
  session.send(...answers);
}

/** Answers BEGIN, which comes before the slot of a snapshot. */
export const beginSnapshot = (session: Session) => answerQuery(session, completeAndReady("BEGIN", "T"));

/** The answer to CREATE_REPLICATION_SLOT. */
export const slotMade = Buffer.concat([
  wire.rowDescription(["slot_name", "consistent_point"].map((name) => ({ name, oid: 25 }))),
  wire.dataRow([Buffer.from("s"), Buffer.from("0/10")]),
  ended(1),
]);

// -- streams that have begun ------------------------------------------------------------------------------------------

type Clock = ReturnType<typeof fakeTimers>;

/** A stream that has yielded the beginning of a transaction, on a server whose log ends at 0/40. */
export async function reading(clock: Clock, more: Partial<ChangesOptions> = {}) {
  const feed = changes(client, { ...options, ...more });
  const reader = feed[Symbol.asyncIterator]();
  const begun = reader.next();
  const session = await another(clock);
  await answersToStart(session);
  beginsStream(session);
  await begun;
  return { feed, reader, session };
}

/** The same once it has yielded all that has arrived. `next` waits for more. */
export async function waiting(clock: Clock, more: Partial<ChangesOptions> = {}) {
  const { feed, reader, session } = await reading(clock, more);
  for (let left = 2; left; left--) await reader.next();
  const next = reader.next();
  next.catch(() => {});
  return { feed, next, session };
}

/** The same after the connection was lost. */
export async function lost(clock: Clock) {
  const { next, session } = await waiting(clock);
  session.peer.end();
  return { next };
}
