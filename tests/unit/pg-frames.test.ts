// pgz-edge/pg's framing: the same messages, however the bytes are split. An invalid message ends it.
import fc from "fast-check";
import { expect, test } from "vitest";
import { Frames } from "../../js/adapters/pg/frames.ts";
import { MalformedMessage, messageOf } from "../../js/adapters/pg/messages.ts";

const frame = (type: number, body: Uint8Array): Buffer => {
  const head = Buffer.alloc(5);
  head[0] = type;
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
};

function read(chunks: readonly Uint8Array[]): [number, string][] {
  const frames = new Frames();
  const seen: [number, string][] = [];
  const scratch = new Uint8Array(1 << 16);
  for (const chunk of chunks) {
    // The socket fills its buffer again and again.
    scratch.fill(255);
    scratch.set(chunk);
    frames.push(scratch.subarray(0, chunk.length), (type, bytes, at, end) =>
      seen.push([type, bytes.toString("hex", at, end)]),
    );
  }
  return seen;
}

test("messages do not depend on where their bytes are split", () => {
  const message = fc.tuple(fc.integer({ min: 1, max: 255 }), fc.uint8Array({ maxLength: 40 }));
  const sizes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1 });
  fc.assert(
    fc.property(fc.array(message), sizes, (messages, sizes) => {
      const bytes = Buffer.concat(messages.map(([type, body]) => frame(type, body)));
      const chunks: Uint8Array[] = [];
      for (let at = 0, index = 0; at < bytes.length; index++)
        chunks.push(bytes.subarray(at, (at += sizes[index % sizes.length]!)));
      expect(read(chunks)).toEqual(messages.map(([type, body]) => [type, Buffer.from(body).toString("hex")]));
    }),
  );
});

test("an invalid message length is refused", () => {
  expect(() => read([Buffer.from([68, 0, 0, 0, 3])])).toThrow(MalformedMessage);
  expect(() => read([Buffer.from([68, 255, 0, 0, 0])])).toThrow(MalformedMessage);
});

test("OIDs are unsigned: those above 2,147,483,647 are read as the server sends them", () => {
  const [table, type] = [4_294_967_295, 3_000_000_000];
  const int32 = (value: number) => Buffer.from([value >>> 24, value >>> 16, value >>> 8, value].map((it) => it & 255));
  const description = [Buffer.from("\0\x01id\0"), int32(table), Buffer.from([0, 1]), int32(type)];
  const columns = Buffer.concat([...description, Buffer.from([255, 255]), int32(-1), Buffer.from([0, 0])]);
  expect(messageOf(84, columns, 0, columns.length)).toMatchObject({
    name: "rowDescription",
    fields: [{ name: "id", tableID: table, dataTypeID: type, dataTypeSize: -1, dataTypeModifier: -1, format: "text" }],
  });
  const parameters = Buffer.concat([Buffer.from([0, 2]), int32(type), int32(23)]);
  expect(messageOf(116, parameters, 0, parameters.length)).toMatchObject({
    name: "parameterDescription",
    dataTypeIDs: [type, 23],
  });
});

test("a body of any bytes is read or refused", () => {
  const types = fc.constantFrom(...Buffer.from("123ACDEGHINSTWZdnst"), 255);
  fc.assert(
    fc.property(types, fc.uint8Array({ maxLength: 60 }), (type, body) => {
      const bytes = Buffer.concat([Buffer.from(body), Buffer.from("behind it\0")]);
      try {
        expect(messageOf(type, bytes, 0, body.length)).toHaveProperty("name");
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedMessage);
      }
    }),
  );
});
