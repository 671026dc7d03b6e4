// Replays every transcript through the built wasm, in every split. The native runner (tests/transcripts.rs) owns the
// format and provides the steps.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { COMPLETE, MORE, READY_FAILED, READY_IDLE, READY_IN_TRANSACTION } from "../../js/wasm/numbers.ts";
import { CoreConnection, initSync } from "../../pkg/pgz_edge.js";

interface Transcript {
  name: string;
  whole: boolean;
  steps: { command?: { call: string; arguments: unknown[] }; feed?: number[]; output: number[] }[];
  rows: string;
  events: string[];
}

interface Outcome {
  outputs: string[];
  rows: string;
  events: string[];
}

const root = fileURLToPath(new URL("../..", import.meta.url));
let transcripts: Transcript[];
let memory: WebAssembly.Memory;

beforeAll(() => {
  const file = path.join(root, ".cache/transcripts.json");
  mkdirSync(path.dirname(file), { recursive: true });
  const { status, stderr } = spawnSync(
    "cargo",
    ["test", "--quiet", "--test", "transcripts", "steps_for_the_wasm_runner"],
    {
      cwd: root,
      env: { ...process.env, TRANSCRIPT_STEPS: file },
      encoding: "utf8",
    },
  );
  if (status !== 0) throw new Error(`the native runner did not hand over the steps: ${stderr}`);
  transcripts = JSON.parse(readFileSync(file, "utf8"));
  ({ memory } = initSync({ module: readFileSync(path.join(root, "pkg/pgz_edge_bg.wasm")) }));
});

/** JSON has neither `undefined` nor arrays of bytes. Other arrays name their type. */
function fromJson(value: unknown): unknown {
  if (Array.isArray(value)) return Uint8Array.from(value);
  const { u32, f64 } = (value ?? {}) as { u32?: number[]; f64?: number[] };
  if (u32) return Uint32Array.from(u32);
  return f64 ? Float64Array.from(f64) : (value ?? undefined);
}

/** The bits that `receive` returns, as the transcripts show them. */
function ended(core: CoreConnection, status: number): string[] {
  const events: object[] = [];
  if (status & COMPLETE) {
    const count = core.row_count();
    events.push({ kind: "complete", command: core.command(), rowCount: count < 0 ? null : count });
  }
  if (status & READY_IDLE) events.push({ kind: "ready", status: "I" });
  if (status & READY_IN_TRANSACTION) events.push({ kind: "ready", status: "T" });
  if (status & READY_FAILED) events.push({ kind: "ready", status: "E" });
  return events.map((event) => JSON.stringify(event));
}

/** `cut` returns whether a piece ends before the server's byte of this number. */
function replay({ steps }: Transcript, cut: (at: number) => boolean): Outcome {
  let core = new CoreConnection(1 << 30, "s", 64);
  const outcome: Outcome = { outputs: [], rows: "", events: [] };
  const text = new TextDecoder();
  let output: Uint8Array[] = [];
  let at = 0;

  const drain = (status = 0) => {
    output.push(core.take_output());
    outcome.rows += text.decode(new Uint8Array(memory.buffer, core.rows_pointer(), core.rows_length()));
    core.rows_taken();
    outcome.events.push(...core.take_events().split("\n").filter(Boolean), ...ended(core, status));
  };
  const receive = (bytes: number[]) => {
    const room = core.input(bytes.length);
    new Uint8Array(memory.buffer, room, bytes.length).set(bytes);
    let status = core.receive(bytes.length);
    drain(status);
    while (status & MORE) {
      status = core.receive(0);
      drain(status);
    }
  };
  for (const { command, feed } of steps) {
    output = [];
    if (command?.call === "constructor") {
      core.free();
      core = new CoreConnection(...(command.arguments as ConstructorParameters<typeof CoreConnection>));
    } else if (command !== undefined) {
      const call = core[command.call as keyof CoreConnection] as (...parameters: unknown[]) => unknown;
      const result = call.apply(
        core,
        command.arguments.map((value) => fromJson(value)),
      );
      if (result instanceof Uint8Array) output.push(result);
      drain();
    }
    for (let from = 0, end = 1; feed !== undefined && end <= feed.length; end++) {
      if (end < feed.length && !cut(at + end)) continue;
      receive(feed.slice(from, end));
      from = end;
    }
    at += feed?.length ?? 0;
    outcome.outputs.push(Buffer.concat(output).toString("latin1"));
  }
  core.free();
  return outcome;
}

test("every transcript gives the same result in every split", () => {
  let splits = 0;
  for (const transcript of transcripts) {
    const { name, steps, rows, events } = transcript;
    const expected: Outcome = {
      outputs: steps.map(({ output }) => Buffer.from(output).toString("latin1")),
      rows,
      events,
    };
    const bytes = steps.reduce((sum, { feed }) => sum + (feed?.length ?? 0), 0);
    expect(
      replay(transcript, () => false),
      name,
    ).toEqual(expected);
    if (transcript.whole) continue;
    expect(
      replay(transcript, () => true),
      `${name}, byte by byte`,
    ).toEqual(expected);
    const wanted = JSON.stringify(expected);
    for (let cut = 1; cut < bytes; cut++) {
      const outcome = replay(transcript, (at) => at === cut);
      if (JSON.stringify(outcome) !== wanted) expect(outcome, `${name}, cut before byte ${cut}`).toEqual(expected);
    }
    splits += bytes + 1;
  }
  expect(transcripts.length).toBeGreaterThan(70);
  console.log(`${transcripts.length} transcripts, ${splits} splits through wasm`);
});
