// COPY of memory-session.ts's client: the server's messages, the data that it reads, and sources that tell what
// happens to them.
import { expect } from "vitest";
import type { CopyFromOptions } from "../../js/api/options.ts";
import type { CopySource } from "../../js/statement/copy.ts";
import { complete } from "./memory-answers.ts";
import { client, letIn, type Session } from "./memory-session.ts";
import * as wire from "./wire.mjs";

export const IN = "copy t from stdin";
export const OUT = "copy t to stdout";

/** A response with one column, as text or binary. */
const response = (letter: string, format: number) =>
  wire.message(letter, Buffer.of(format), wire.int16(1), wire.int16(format));
export const copyInResponse = (format = 0): Buffer => response("G", format);
export const copyOutResponse = (format = 0): Buffer => response("H", format);
export const copyData = (data: string | Uint8Array): Buffer => wire.message("d", Buffer.from(data));
export const copyDone = (): Buffer => wire.message("c");

/** The messages of a binary COPY of int4 with these values, up to CopyDone. */
export const binaryCopy = (...values: number[]): Buffer =>
  Buffer.concat([
    copyOutResponse(1),
    copyData(Buffer.concat([Buffer.from("PGCOPY\n\xff\r\n\0", "latin1"), Buffer.alloc(8)])),
    ...values.map((value) => copyData(binaryRow(value))),
    copyData(wire.int16(-1)),
    copyDone(),
  ]);

/** A binary row with one int4. */
export const binaryRow = (value: number): Buffer => Buffer.concat([wire.int16(1), wire.int32(4), wire.int32(value)]);

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
  session.send(complete("COPY 1"));
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
