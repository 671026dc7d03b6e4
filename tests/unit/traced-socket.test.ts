// Option `debug`: the lines of a session, however its bytes are split.
import { expect, test } from "vitest";
import { tracedSocket } from "../../js/connection/traced-socket.ts";
import type { Socket } from "../../js/runtime/contract.ts";

const int32 = (value: number) => [24, 16, 8, 0].map((shift) => (value >> shift) & 255);
const chars = (text: string) => [...new TextEncoder().encode(text)];
const message = (type: string, body: number[]) => [...chars(type), ...int32(body.length + 4), ...body];
const zero = (text: string) => [...chars(text), 0];

const startup = [...int32(8 + 10), ...int32(196_608), ...zero("user"), ...zero("app"), 0];
const parse = (name: string, sql: string) => message("P", [...zero(name), ...zero(sql), 0, 0]);
const bind = (name: string, value: string) => message("B", [0, ...zero(name), ...chars(value)]);
const sync = message("S", []);

/** The lines of a socket that writes and reads these bytes, `size` at a time, offered to `take` if there is one. */
async function linesOf(
  flights: { sent: number[]; answer: number[] }[],
  size = Infinity,
  take?: (bytes: Uint8Array) => boolean,
): Promise<string[]> {
  const lines: string[] = [];
  let left: number[] = [];
  const piece = () => Uint8Array.from(left.splice(0, size));
  const plain: Socket = {
    async read(offer) {
      if (!left.length) return null;
      if (!offer) return piece();
      while (offer(piece()) && left.length);
      return new Uint8Array();
    },
    write: () => Promise.resolve(),
    startTls: () => Promise.reject(new Error("no TLS")),
    close: () => Promise.resolve(),
  };
  const socket = tracedSocket(plain, (line) => {
    lines.push(line.replace(/^pgz-edge #\d+ /, "").replace(/[\d.]+ ms/, "# ms"));
    throw new Error("who watches must not break what is watched");
  });
  for (const { sent, answer } of flights) {
    await socket.write(Uint8Array.from(sent));
    left = [...answer];
    while (left.length) await socket.read(take);
  }
  await socket.read();
  await socket.close();
  return lines;
}

const ready = message("Z", chars("I"));
const row = message("D", [...int32(1), ...chars("secret")]);
const session = [
  { sent: startup, answer: [...message("R", int32(0)), ...message("S", zero("a")), ...ready] },
  {
    sent: [...parse("s1", "select  1\n as a"), ...bind("s1", "secret"), ...message("E", [0]), ...sync],
    answer: [...message("1", []), ...message("2", []), ...row, ...row, ...message("C", zero("SELECT 2")), ...ready],
  },
  {
    sent: [...bind("s1", "secret"), ...message("Q", zero("alter role app password 'secret'")), ...sync],
    answer: [...message("E", [...zero("SERROR"), ...zero("C42P01"), ...zero("Msecret"), 0]), ...ready],
  },
];

test("each flight is a line with the names of its messages", async () => {
  expect(await linesOf(session)).toEqual([
    "> StartupMessage (18 bytes)",
    "< Authentication ParameterStatus ReadyForQuery (22 bytes, # ms)",
    "> Parse Bind Execute Sync (52 bytes): select 1 as a",
    "< ParseComplete BindComplete 2 DataRow CommandComplete ReadyForQuery (60 bytes, # ms)",
    "> Bind Query Sync (58 bytes): select 1 as a; (hidden: it may hold a password)",
    "< ErrorResponse 42P01 ReadyForQuery (34 bytes, # ms)",
    "the server closed it",
  ]);
});

test("answers in pieces give the same lines", async () => {
  const withoutCode = (lines: string[]) => lines.map((line) => line.replace(" 42P01", ""));
  const whole = withoutCode(await linesOf(session));
  for (const size of [1, 2, 3, 5, 7, 11]) expect(withoutCode(await linesOf(session, size))).toEqual(whole);
});

test("answers that the socket offers give the same lines, and are all taken", async () => {
  const answers = session.flatMap(({ answer }) => answer);
  for (const mayFollow of [true, false]) {
    const taken: number[] = [];
    const take = (bytes: Uint8Array) => taken.push(...bytes) > 0 && mayFollow;
    expect(await linesOf(session, 60, take)).toEqual(await linesOf(session, 60));
    expect(taken).toEqual(answers);
  }
});

test("a message with a negative length does not make the parser loop", async () => {
  const lying = [...chars("D"), ...int32(-2_000_000_000), ...chars("D"), ...int32(0)];
  expect(await linesOf([{ sent: startup, answer: lying }])).toEqual([
    "> StartupMessage (18 bytes)",
    "< 2 DataRow (10 bytes, # ms)",
    "the server closed it",
  ]);
});

test("bytes that are no PostgreSQL message are shown as such, and CancelRequest by its name", async () => {
  const lines = await linesOf([
    { sent: [...int32(16), ...int32(80_877_102), ...int32(1), ...int32(2)], answer: chars("OOPS, no server") },
  ]);
  expect(lines).toEqual(["> CancelRequest (16 bytes)", '< message "O" (15 bytes, # ms)', "the server closed it"]);
});
