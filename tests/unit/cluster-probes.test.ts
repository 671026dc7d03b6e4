// When a look at the servers of `pgz-edge/cluster` waits, and for which server. The servers are scripted, and only the
// test moves the clock.
import { expect, test } from "vitest";
import { Probes } from "../../js/cluster/probes.ts";
import { Memory, type Facts } from "../../js/cluster/memory.ts";
import type { ClusterConfig } from "../../js/cluster/options.ts";
import { REPLAY_POSITION } from "../../js/cluster/questions.ts";
import type { Server, Servers } from "../../js/cluster/servers.ts";
import type { ConnectInput, Pool } from "../../js/index.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const clock = useFakeClock();

const settle = async () => {
  for (let n = 0; n < 100; n++) await null;
};

type Role = "primary" | "standby" | "silent";

/** One server, whose role can change. */
class Scripted {
  role: Role;
  timeline = 1;
  lsn = "0/1000";
  asked = 0;
  readonly facts: Facts;
  constructor(memory: Memory, key: string, role: Role) {
    this.facts = memory.of(key);
    this.role = role;
  }

  readonly pool = {
    stats: () => ({ idle: 1, total: 1, acquired: 0, max: 2 }),
    json: async ({ text }: { text: string }, { timeout }: { timeout: number }) => {
      this.asked++;
      if (this.role === "silent") await late(timeout);
      if (text === REPLAY_POSITION) return answer([this.lsn]);
      const file = `${String(this.timeline).padStart(8, "0")}0000000000000001`;
      const isStandby = this.role === "standby";
      return answer([isStandby, this.lsn, "7", isStandby ? this.timeline : null, isStandby ? null : file, "8192"]);
    },
  } as unknown as Pool;
}

const answer = (row: readonly unknown[]) => new TextEncoder().encode(JSON.stringify({ rows: [row] }));

const late = (timeout: number) =>
  new Promise<never>((_, reject) => setTimeout(() => reject(new Error("it is silent")), timeout));

/** Creates a cluster of servers with these roles. Its pool of the primary finds the primary when it is woken. */
function world(roles: readonly Role[], discover?: ClusterConfig["discover"]) {
  const memory = new Memory();
  const list = roles.map((role, index) => new Scripted(memory, `server ${index}`, role));
  const updates: unknown[] = [];
  let reached = list.find(({ role }) => role === "primary");
  let woken = 0;
  let found = () => {};
  const joint = {
    stats: () => ({ total: reached?.role === "primary" ? 1 : 0 }),
    json: async (query: { text: string; values: [] }, options: { timeout: number }) => {
      if (reached?.role !== "primary")
        await Promise.race([new Promise<void>((resolve) => (found = resolve)), late(options.timeout)]);
      return await reached!.pool.json(query, options);
    },
  } as unknown as Pool;
  const servers = {
    memory,
    primary: joint,
    list: list.map((server) => Object.assign(server, { key: "", replacePool: () => {} }) as unknown as Server),
    update: (inputs: readonly ConnectInput[]) => void updates.push(inputs),
    elect: () => true,
    get primaries() {
      return list.filter(({ facts }) => facts.status && !facts.status.isStandby);
    },
    wake: () => {
      woken++;
      reached = list.find(({ role }) => role === "primary");
      found();
    },
  } as unknown as Servers;
  const config: ClusterConfig = { maxLag: 10_000, wait: 1_000, probeInterval: 2_000, discover };
  return { probes: new Probes(servers, config), list, memory, updates, woken: () => woken };
}

/** Returns how long `work` takes, in milliseconds of the clock. */
async function took(work: Promise<unknown>): Promise<number> {
  const began = clock.now;
  let isOver = false;
  void work.then(() => (isOver = true));
  await settle();
  while (!isOver && clock.now < began + 60_000) await clock.advance(10, settle);
  return clock.now - began;
}

test("a discover that does not answer delays a look by two seconds, and is not called again meanwhile", async () => {
  let asked = 0;
  let answer: (inputs: ConnectInput[]) => void = () => {};
  const discover = () => {
    asked++;
    return new Promise<ConnectInput[]>((resolve) => (answer = resolve));
  };
  const { probes, list, updates } = world(["primary", "standby"], discover);
  expect(await took(probes.probe())).toBe(2_000);
  expect(list[1]!.facts.status).toMatchObject({ isStandby: true });
  expect(await took(probes.probe())).toBe(2_000);
  expect(asked).toBe(1);
  // The late answer is used when it arrives, and the next look asks again.
  answer(["postgres://one"]);
  await settle();
  expect(updates).toEqual([["postgres://one"]]);
  void probes.probe();
  await settle();
  expect(asked).toBe(2);
});

test("a discover that fails changes nothing", async () => {
  const { probes, updates } = world(["primary"], () => Promise.reject(new Error("not now")));
  expect(await took(probes.probe())).toBe(0);
  expect(updates).toEqual([]);
  expect(clock.timers).toEqual([]);
});

test("while the primary is lost, the next one is found as soon as it says so", async () => {
  const { probes, list, memory, woken } = world(["primary", "standby", "standby"]);
  await took(probes.probe());
  expect(memory.timeline).toBe(1);
  list[0]!.role = "silent";
  // The first look waits for the primary, and then asks all servers. The next looks ask all servers without waiting.
  expect(await took(probes.probe())).toBeGreaterThanOrEqual(2_000);
  const { asked } = list[1]!;
  const before = woken();
  list[1]!.role = "primary";
  list[1]!.timeline = list[2]!.timeline = 2;
  const probed = probes.probe();
  await settle();
  expect(list[1]!.asked).toBeGreaterThan(asked);
  expect(woken()).toBe(before + 1);
  await took(probed);
  expect(memory.timeline).toBe(2);
  // The standby is asked again after the primary, so that its lag is known.
  expect(clock.now - list[2]!.facts.upToDateAsOf).toBeLessThan(10_000);
});

test("a look for a standby does not wait for a server that was silent the last time", async () => {
  const { probes, list } = world(["primary", "silent", "standby"]);
  list[2]!.lsn = "0/0"; // it lags
  // It is not known yet that one server is silent.
  expect(await took(probes.probeForStandby())).toBe(2_000);
  await took(probes.probe());
  expect(await took(probes.probeForStandby())).toBeLessThan(300);
  // The look continues. A later caller does not wait for it either.
  expect(await took(probes.probeForStandby())).toBe(0);
  await took(probes.probe());
});

test("a suitable standby ends the wait at once", async () => {
  const { probes } = world(["primary", "silent", "standby"]);
  expect(await took(probes.probeForStandby())).toBe(0);
});
