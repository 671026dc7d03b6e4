// Tracing channels of node:diagnostics_channel, and the contexts in which an observer may run a call's work. A runtime
// without that module (Workers without nodejs_compat; tests/workerd/channels.test.ts has it) makes its calls as usual.
import type { AsyncLocalStorage } from "node:async_hooks";
import type * as diagnostics from "node:diagnostics_channel";
import type { Enter, Observer } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { text } from "./helpers.ts";

const KINDS = ["query", "batch", "copy", "connect", "acquire"] as const;
const PARTS = ["start", "end", "asyncStart", "asyncEnd", "error"] as const;

interface Message extends Record<string, unknown> {
  kind: string;
  parts: string[];
}

function builtin<Module>(name: string): Module | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } };
  return process?.getBuiltinModule?.(name) as Module | undefined;
}

/** Returns the messages published meanwhile, in order of their starts, with the parts of each. */
async function published(work: () => Promise<void>): Promise<Message[] | undefined> {
  const module = builtin<typeof diagnostics>("node:diagnostics_channel");
  const seen = new Map<object, Message>();
  const subscribed = KINDS.map((kind) => {
    const channel = module?.tracingChannel(`pgz-edge:${kind}`);
    const note = (part: string) => (message: object) => {
      const known = seen.get(message) ?? { kind, parts: [] };
      known.parts.push(part);
      seen.set(message, Object.assign(known, message));
    };
    const listeners = Object.fromEntries(PARTS.map((part) => [part, note(part)])) as never;
    channel?.subscribe(listeners);
    return () => channel?.unsubscribe(listeners);
  });
  try {
    await work();
  } finally {
    for (const unsubscribe of subscribed) unsubscribe();
  }
  return module && [...seen.values()];
}

const WELL = ["start", "end", "asyncStart", "asyncEnd"];
const BADLY = ["start", "end", "error", "asyncStart", "asyncEnd"];

export const channels: Cases = {
  async "tracing channels report calls, connects and acquisitions in the documented order, without values"(t) {
    const { sql } = t.pgz;
    const { host: serverAddress, port: serverPort, database } = t.options;
    const messages = await published(async () => {
      const pool = t.pool({ max: 1 });
      await pool.query(sql`select ${"secret value"}::text as t`);
      await pool.batch([sql`select ${"secret value"}::text as t`, "select 2"]);
      await text(await pool.copyTo("copy (select generate_series(1, 3)) to stdout"));
      await t.assert.code(pool.query("select 1/0"), "22012");
      await t.assert.code(pool.query("select 1", { signal: AbortSignal.abort() }), "ABORTED");
      await t.assert.code(t.pgz.connect({ ...t.options, database: "no such database" }), "3D000");
    });
    if (!messages) return t.assert.equal(t.runtime, "workerd");
    const brief = messages
      .filter(({ kind }) => kind !== "acquire")
      .map(({ kind, parts, query, rows, command, error }) => {
        // A batch has a command tag for each item, and none for itself.
        const tag = kind === "batch" ? undefined : command;
        return [kind, parts, query, rows, tag, (error as { code?: string } | undefined)?.code];
      });
    t.assert.deepEqual(brief, [
      ["query", WELL, "select $1::text as t", 1, "SELECT", undefined],
      ["connect", WELL, undefined, undefined, undefined, undefined],
      ["batch", WELL, "/* batch of 2 */ select $1::text as t", 2, undefined, undefined],
      ["copy", WELL, "copy (select generate_series(1, 3)) to stdout", 3, "COPY", undefined],
      ["query", BADLY, "select 1/0", null, "", "22012"],
      ["query", BADLY, "select 1", null, "", "ABORTED"],
      ["connect", BADLY, undefined, undefined, undefined, "3D000"],
    ]);
    const acquired = messages.filter(({ kind }) => kind === "acquire");
    t.assert.deepEqual(
      acquired.map(({ parts }) => parts),
      [WELL, WELL, WELL, WELL],
    );
    for (const message of messages.slice(0, -1)) {
      t.assert.deepEqual(
        [message["serverAddress"], message["serverPort"], message["database"]],
        [serverAddress, serverPort, database],
      );
    }
    t.assert.deepEqual(messages[3]?.kind === "batch" && messages[3]["queries"], ["select $1::text as t", "select 2"]);
    t.assert.equal(JSON.stringify(messages).includes("secret value"), false);
    t.assert.equal(JSON.stringify(messages).includes(t.options.password), false);
  },
  async "channel messages have parameter values only when asked to, and nothing is published without a subscriber"(t) {
    const { sql } = t.pgz;
    const client = await t.client({ observeParameters: true });
    const messages = await published(async () => {
      await client.query(sql`select ${"shown"}::text as t`);
      await client.batch([sql`select ${"not of a batch"}::text as t`]);
    });
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
    if (!messages) return t.assert.equal(t.runtime, "workerd");
    const values = messages.map(({ kind, values }) => [kind, values]);
    t.assert.deepEqual(values, [
      ["query", ["shown"]],
      ["batch", undefined],
    ]);
  },
  async "the observer and the channels report the same calls"(t) {
    const heard: string[] = [];
    const client = await t.client({
      observer: {
        onQueryStart: ({ text }) => void heard.push(text),
        onNotice: ({ message }) => void heard.push(message!),
      },
    });
    const raise = "do $$ begin raise notice 'one'; end $$";
    const messages = await published(async () => void (await client.exec(raise)));
    t.assert.deepEqual(heard, [raise, "one"]);
    if (messages) t.assert.equal(messages[0]?.["query"], heard[0]);
  },
  async "a call runs in the context its observer gives, even through a pool's queue, and its caller keeps its own context"(
    t,
  ) {
    const hooks = builtin<{ AsyncLocalStorage: typeof AsyncLocalStorage }>("node:async_hooks");
    if (!hooks) return t.assert.equal(t.runtime, "workerd");
    const storage = new hooks.AsyncLocalStorage<string>();
    const seen: string[] = [];
    const observer: Observer = {
      onQueryStart: ({ text }) => {
        const parent = storage.getStore();
        return (work) => storage.run(`${parent}/${text}`, work);
      },
      onAcquireStart: () => void seen.push(`acquire in ${storage.getStore()}`),
      onConnectStart: () => void seen.push(`connect in ${storage.getStore()}`),
    };
    const types = { text: (value: string) => `${value} in ${storage.getStore()}` };
    const pool = t.pool({ max: 1, observer, types });
    const ask = async (caller: string) => {
      const { rows } = await pool.query<{ t: string }>(`select '${caller}'::text as t`);
      t.assert.equal(storage.getStore(), caller);
      return rows[0]!.t.split(" in ")[0];
    };
    const callers = ["a", "b", "c"];
    const answers = await Promise.all(callers.map((caller) => storage.run(caller, () => ask(caller))));
    t.assert.deepEqual(answers, callers);
    const inCall = (caller: string) => `in ${caller}/select '${caller}'::text as t`;
    t.assert.deepEqual(seen.sort(), [
      `acquire ${inCall("a")}`,
      `acquire ${inCall("b")}`,
      `acquire ${inCall("c")}`,
      `connect ${inCall("a")}`,
    ]);
  },
  async "an observer that misuses the work it is given to run changes no result"(t) {
    const wrong: Enter[] = [
      () => {},
      (work) => (work(), work()),
      () => {
        throw new Error("a bad observer");
      },
      (work) => {
        work();
        throw new Error("a bad observer");
      },
      (work) => setTimeout(work, 10),
    ];
    for (const enter of wrong) {
      const observer: Observer = {
        onQueryStart: () => enter,
        onAcquireStart: () => enter,
        onConnectStart: () => enter,
      };
      const pool = t.pool({ max: 1, observer });
      await t.assert.rows(pool.query("select 1 as a"), [{ a: 1 }]);
      t.assert.equal((await pool.exec("select 1")).rowCount, 1);
      t.assert.deepEqual([pool.stats().acquires, pool.stats().queries], [2, 2]);
    }
  },
};
