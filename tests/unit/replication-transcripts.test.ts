// Replays every transcript of a replication connection through the built wasm, in every split. The native runner
// (tests/replication.rs) owns the format and provides the steps.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import {
  CHANGES_ANSWERED,
  CHANGES_FAILED,
  CHANGES_KEEPALIVE,
  CHANGES_LINES,
  CHANGES_NOTICED,
  CHANGES_STATUS_WANTED,
  CHANGES_STREAM_OVER,
  CHANGES_STREAMING,
  CHANGES_TYPES_WANTED,
} from "../../js/wasm/numbers.ts";
import { ChangesCore, initSync } from "../../pkg/pgz_changes.js";

interface Conversation {
  name: string;
  steps: { call?: [name: string, ...values: unknown[]]; feed?: number[]; output: number[] }[];
  rows: string;
  events: string[];
}

/** In the order of the native runner. */
const BITS = {
  answered: CHANGES_ANSWERED,
  streaming: CHANGES_STREAMING,
  lines: CHANGES_LINES,
  keepalive: CHANGES_KEEPALIVE,
  statusWanted: CHANGES_STATUS_WANTED,
  streamOver: CHANGES_STREAM_OVER,
  failed: CHANGES_FAILED,
  typesWanted: CHANGES_TYPES_WANTED,
  noticed: CHANGES_NOTICED,
};

const root = fileURLToPath(new URL("../..", import.meta.url));
const decoder = new TextDecoder();
let conversations: Conversation[];
let memory: WebAssembly.Memory;

beforeAll(() => {
  const file = path.join(root, ".cache/replication.json");
  mkdirSync(path.dirname(file), { recursive: true });
  const words = ["test", "--quiet", "--all-features", "--test", "replication", "steps_for_the_wasm_runner"];
  const env = { ...process.env, REPLICATION_STEPS: file };
  const { status, stderr } = spawnSync("cargo", words, { cwd: root, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`the native runner did not hand over the steps: ${stderr}`);
  conversations = JSON.parse(readFileSync(file, "utf8")) as Conversation[];
  const module = readFileSync(path.join(root, "pkg/pgz_changes_bg.wasm"));
  ({ memory } = initSync({ module }) as { memory: WebAssembly.Memory });
});

/** JSON has neither typed arrays nor 64-bit integers. */
function fromJson(value: unknown): unknown {
  const { u32, u64 } = Object(value) as { u32?: number[]; u64?: string };
  if (u32) return Uint32Array.from(u32);
  return u64 === undefined ? value : BigInt(u64);
}

const said = (position: bigint) => `${(position >> 32n).toString(16)}/${(position & 0xffffffffn).toString(16)}`;

/** `cut` returns whether a piece ends before the server's byte of this number. */
function replay({ steps }: Conversation, cut: (at: number) => boolean) {
  const streams = steps.some(({ call }) => String(call?.[1]).includes("streaming '"));
  const core = new ChangesCore(1 << 30, 0, streams);
  const outcome = { outputs: [] as string[], rows: "", events: [] as string[] };
  let at = 0;

  const step = (happened: number, wanted: number[]) => {
    outcome.outputs.push(Buffer.from(core.take_output()).toString("hex"));
    const length = core.seal();
    outcome.rows += decoder.decode(new Uint8Array(memory.buffer, core.changes_pointer(), length));
    core.changes_taken();
    if (!happened) return;
    const names = Object.entries(BITS).flatMap(([name, bit]) => (happened & bit ? [name] : []));
    const parts = [`"happened":${JSON.stringify(names)}`];
    if (happened & CHANGES_ANSWERED) parts.push(`"answer":${core.take_answer()}`);
    if (happened & CHANGES_FAILED) parts.push(`"failure":${core.failure()}`);
    if (happened & CHANGES_TYPES_WANTED) parts.push(`"types":${JSON.stringify(wanted)}`);
    const [end, committed] = [core.end(), core.committed()].map((position) => said(position).toUpperCase());
    parts.push(`"end":"${end}","committed":"${committed}","outside":${core.is_outside()}`);
    outcome.events.push(`{${parts.join()}}`);
  };
  const receive = (bytes: Uint8Array, wanted: number[]) => {
    new Uint8Array(memory.buffer, core.input(bytes.length), bytes.length).set(bytes);
    let all = core.receive(bytes.length);
    for (let happened = all; happened & CHANGES_TYPES_WANTED; all |= happened) {
      wanted.push(...core.take_wanted_types());
      core.define_types(new Uint32Array(), new Uint32Array(), "");
      happened = core.receive(0);
    }
    return all;
  };

  for (const { call, feed } of steps) {
    const wanted: number[] = [];
    let happened = 0;
    if (call) {
      const [name, ...values] = call;
      (core as unknown as Record<string, (...values: unknown[]) => void>)[name]!(...values.map(fromJson));
    }
    let piece: number[] = [];
    for (const [index, byte] of (feed ?? []).entries()) {
      piece.push(byte);
      if (!cut(++at) && index + 1 < feed!.length) continue;
      happened |= receive(Uint8Array.from(piece), wanted);
      piece = [];
    }
    step(happened, wanted);
  }
  core.free();
  return outcome;
}

test("every conversation gives the same result in every split", () => {
  let splits = 0;
  for (const conversation of conversations) {
    const { name, steps, rows, events } = conversation;
    const fed = steps.reduce((sum, { feed }) => sum + (feed?.length ?? 0), 0);
    const outputs = steps.map(({ output }) => Buffer.from(output).toString("hex"));
    const expected = { outputs, rows, events };
    expect(
      replay(conversation, () => false),
      name,
    ).toEqual(expected);
    expect(
      replay(conversation, () => true),
      `${name}: one byte at a time`,
    ).toEqual(expected);
    const whole = JSON.stringify(expected);
    for (let cut = 1; cut < fed; cut++) {
      const outcome = replay(conversation, (at) => at === cut);
      if (JSON.stringify(outcome) !== whole) expect(outcome, `${name}: cut before byte ${cut}`).toEqual(expected);
    }
    splits += 1 + fed;
  }
  console.log(`${conversations.length} transcripts of replication, ${splits} splits through wasm`);
  expect(conversations.length).toBeGreaterThan(15);
});
