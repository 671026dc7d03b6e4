// One user of a cluster: its calls one after the other, with the position of its last write, as in a cookie.
//
// Knows steps, and what the oracle is told about each. Must not know servers.
import type { Cluster } from "../../../js/cluster.ts";
import type * as pgz from "../../../js/index.ts";
import { positionOf } from "../../../js/cluster/position.ts";
import { driver } from "../driver.ts";
import type { Step } from "./program.ts";
import type { ClusterSession } from "./session.ts";
import { isAtomic, reads, writes, type Written } from "./ways.ts";

/** Virtual milliseconds within which each call must settle: attempts on several servers, each with its time. */
const DEADLINE = 200_000;
/** Milliseconds within which a look asks again a server that it has found to be the primary. */
const A_LOOK = 300;

export class Lane {
  readonly name: string;
  readonly cluster: Cluster;
  readonly #session: ClusterSession;
  /** The routes of the lane's own calls, in order. If lanes share the cluster, the routes of the others too. */
  readonly routes: pgz.RouteEvent[];
  /** The position of the lane's last write. */
  #position: string | undefined;
  #known = { timeline: 0, since: 0 };
  running = "";

  constructor(session: ClusterSession, name: string, cluster: Cluster, routes: pgz.RouteEvent[]) {
    this.#session = session;
    this.name = name;
    this.cluster = cluster;
    this.routes = routes;
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      if (step.pause) await sleep(step.pause);
      await this.step(step);
    }
  }

  /** Runs a step. Returns its error if it fails. */
  async step(step: Step): Promise<unknown> {
    const { world } = this.#session;
    const says = `${this.name} ${step.kind} ${step.how}`;
    world.note(this.name, `calls ${step.kind} ${step.how}`);
    this.#session.calls++;
    this.running = says;
    const began = world.now;
    const error = await within(this.#made(step, says), DEADLINE);
    this.running = "";
    const { code = "" } = Object(error) as { code?: string };
    world.note(this.name, `${error === undefined ? "has" : code} ${step.kind} ${step.how}`);
    if (error !== undefined) this.#session.failed(says, error, began);
    return error;
  }

  async #made(step: Step, says: string): Promise<void> {
    const { kind, how } = step;
    if (kind === "write" || kind === "write on reads") return await this.#write(step, says);
    if (kind === "look") return await this.#look(says);
    if (kind === "position") return this.#keep(await this.cluster.position());
    const session = this.#session;
    const since = session.world.now;
    const after = kind === "reads" ? undefined : kind === "after" ? this.#position : session.newest;
    const routed = this.routes.length;
    const knows = this.#knows(since);
    const all = await reads[how]!(after === undefined ? this.cluster.reads : this.cluster.reads.after(after));
    const asked = { says, after, since, until: session.world.now, maxLag: session.maxLag, knows };
    for (const rows of all) session.oracle.answered(rows, asked);
    session.routed(this, routed, all, asked);
  }

  /** Returns the timeline of the primary that the cluster knows, if the look that found it is over. */
  #knows(now: number): number | undefined {
    const timeline = this.#session.newestKnown(this.cluster);
    if (timeline !== this.#known.timeline) this.#known = { timeline, since: now };
    return now - this.#known.since >= A_LOOK ? timeline : undefined;
  }

  /**
   * Looks twice, because another lane may have begun the first look earlier. Then a write must know the newest of two
   * primaries.
   */
  async #look(says: string): Promise<void> {
    const session = this.#session;
    const { replicas, program } = session;
    const [both, down] = [replicas.primaries, replicas.nodes.filter(({ isUp }) => !isUp)];
    await this.cluster.probe();
    await this.cluster.probe();
    session.looked(this.cluster, down);
    const isCalm = program.faults.length + program.happenings.filter(({ kind }) => kind === "restart").length === 0;
    if (both.length < 2 || !isCalm || !areSame(replicas.primaries, both)) return;
    await this.#write({ kind: "write", how: "exec", count: 1, pause: 0 }, says);
    const { timeline } = positionOf(this.#position);
    if (timeline && timeline < replicas.primary.timeline && areSame(replicas.primaries, both))
      session.faults.push(`${says}: of two primaries the one of timeline ${timeline} was taken`);
  }

  async #write({ kind, how, count, isBlind }: Step, says: string): Promise<void> {
    const { oracle } = this.#session;
    const numbers = oracle.take(count, isAtomic(how));
    const given = (isBlind ? {} : { position: true }) as { position: true };
    let written: Written = {};
    try {
      if (kind === "write") written = await writes[how]!(this.cluster, numbers, given);
      else await this.cluster.reads.exec(`insert into ledger values ${numbers.map((n) => `(${n})`).join(", ")}`);
    } catch (error) {
      oracle.settle(numbers, hasNoEffect(error) ? "absent" : "doubtful");
      throw error;
    }
    const { position, errors = [] } = written;
    numbers.forEach((n, at) => {
      const error = errors[at];
      oracle.settle([n], error === undefined ? "stored" : hasNoEffect(error) ? "absent" : "doubtful");
    });
    const failed = errors.find((error) => error !== undefined);
    if (failed !== undefined) this.#session.failed(says, failed, this.#session.world.now);
    if (position !== undefined) {
      oracle.positioned(
        numbers.filter((_, at) => errors[at] === undefined),
        position,
        says,
      );
      this.#keep(position);
    } else if (kind === "write" && !isBlind) throw new Error(`${says}: no position`);
  }

  #keep(position: string): void {
    this.#position = position;
    this.#session.newest = position;
  }
}

/** Whether the error is documented to have no effect: the statement did not run, or the server refused it. */
function hasNoEffect(error: unknown): boolean {
  const { hasNoEffect, severity } = error as { hasNoEffect?: boolean; severity?: string };
  return hasNoEffect === true || (error instanceof driver.PostgresError && severity === "ERROR");
}

/** Returns the outcome of the work: its error, or `undefined`. */
async function within(work: Promise<void>, milliseconds: number): Promise<unknown> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<unknown>((resolve) => {
    timer = setTimeout(() => resolve(new Error(`not settled within ${milliseconds} ms`)), milliseconds);
  });
  const end = work.then(
    () => undefined,
    (error: unknown) => error ?? new Error("rejected with nothing"),
  );
  const ended = await Promise.race([end, late]);
  clearTimeout(timer);
  return ended;
}

export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, milliseconds));
}

function areSame(some: readonly unknown[], others: readonly unknown[]): boolean {
  return some.length === others.length && some.every((one, at) => one === others[at]);
}
