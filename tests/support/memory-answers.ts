// What a server answers to memory-session.ts's client at the end of a flight, and how it takes a cancel.
//
// Knows messages. Must not know which call is answered: memory-copy.ts and memory-transaction.ts do.
import { expect } from "vitest";
import { accepted, type Session } from "./memory-session.ts";
import * as wire from "./wire.mjs";

type Status = "I" | "T" | "E";

/** A command's end, and the end of its flight. */
export const complete = (tag: string, status: Status = "I"): Buffer =>
  Buffer.concat([wire.commandComplete(tag), wire.readyForQuery(status)]);

/** An error, and the end of its flight. */
export const failed = (C: string, status: Status = "I"): Buffer =>
  Buffer.concat([wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no" }), wire.readyForQuery(status)]);

/** Returns the text of the next message, which is a Query. Another message: its name. */
export async function query(session: Session): Promise<string> {
  const message = await session.message();
  return message?.name === "Query" ? message.body.toString().slice(0, -1) : (message?.name ?? "end");
}

/** Accepts a connection that only cancels, and ends it. */
export async function canceled(): Promise<void> {
  const cancel = await accepted();
  expect(await cancel.flight()).toEqual(["CancelRequest"]);
  cancel.peer.end();
}
