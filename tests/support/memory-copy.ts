// COPY of memory-session.ts's client: how a copyFrom begins, the data that the server reads, and sources that
// tell what happens to them.
import { expect } from "vitest";
import type { CopyFromOptions } from "../../js/api/options.ts";
import type { CopySource } from "../../js/statement/copy.ts";
import { client, letIn, type Session } from "./memory-session.ts";
import { completeAndReady, copyInResponse } from "./server-messages.ts";

export const IN = "copy t from stdin";
export const OUT = "copy t to stdout";

/** Reads the client's data up to the message that ends them. */
export async function dataOf(session: Session): Promise<{ data: string; end: string; words: string }> {
  const pieces: Buffer[] = [];
  for (;;) {
    const message = await session.message();
    if (message?.name === "CopyData") pieces.push(message.body);
    else
      return {
        data: Buffer.concat(pieces).toString("latin1"),
        end: message?.name ?? "end",
        words: message?.body.toString() ?? "",
      };
  }
}

/** Calls copyFrom. Both have sent what they can when this returns, and the server has not answered. */
export async function asked(
  source: unknown,
  options?: CopyFromOptions,
): Promise<{ call: Promise<unknown>; session: Session }> {
  const call = client.copyFrom(IN, source as CopySource, options);
  call.catch(() => {});
  const session = await letIn();
  expect(await session.flight()).toEqual(["Query"]);
  return { call, session };
}

/** The same, and the server has asked for the data. */
export async function askedForData(source: unknown, options?: CopyFromOptions) {
  const { call, session } = await asked(source, options);
  session.send(copyInResponse());
  return { call, session };
}

/** Expects that another COPY on this session succeeds. */
export async function copiesAgain(session: Session): Promise<void> {
  const call = client.copyFrom(IN, "a");
  expect(await session.flight()).toEqual(["Query"]);
  session.send(copyInResponse());
  expect(await dataOf(session)).toMatchObject({ data: "a", end: "CopyDone" });
  session.send(completeAndReady("COPY 1"));
  expect(await call).toEqual({ command: "COPY", rowCount: 1 });
}

/** A source that gives these items and then waits. It records when it was asked for data, and when it was left. */
export function watched(...items: unknown[]) {
  const told: string[] = [];
  const stream = new ReadableStream<string>(
    {
      pull(controller) {
        told.push("asked");
        if (items.length === 0) return new Promise<void>(() => {});
        controller.enqueue(items.shift() as string);
        return undefined;
      },
      cancel: () => void told.push("left"),
    },
    { highWaterMark: 0 },
  );
  return { stream, told };
}

/** Returns all rows of a loop. */
export async function allOf<Row>(loop: AsyncIterable<Row>): Promise<Row[]> {
  const found: Row[] = [];
  for await (const row of loop) found.push(row);
  return found;
}
