// The fence of pgz-edge/cache, in the world of tests/support/cache-world.ts and alone.
import { describe, expect, it } from "vitest";
import { Fence, type FenceOptions, type Opening } from "../../js/cache/fence.ts";
import { EVERYTHING } from "../../js/cache/tags.ts";
import { readSnapshot, sees, widened, type Snapshot } from "../../js/cache/visibility.ts";
import { runWorld, type Faults } from "../support/cache-world.ts";

/** Fences that lack one thing. */
class PurgesOnce extends Fence {
  override takeDue(now: number): readonly string[] {
    return super.takeDue(now).filter((tag) => tag === EVERYTHING);
  }
}
class ForgetsOpenFills extends Fence {
  override close(fill: Pick<Opening, "id" | "tags">, _: Snapshot, now: number): readonly string[] {
    super.close(fill, SEES_ALL, now);
    return [];
  }
}
class ConfirmsWithoutAFill extends Fence {
  override revalidate(opening: Opening, ids: readonly string[], now: number): string | undefined {
    const id = super.revalidate(opening, ids, now);
    this.abandon(opening.id);
    return id;
  }
}
class StopsFollowing extends Fence {
  #commits = 0;
  override commit(...given: Parameters<Fence["commit"]>): readonly string[] {
    return this.#commits++ < 10 ? super.commit(...given) : [];
  }
}
class TrustsTheLearning extends Fence {
  override open(opening: Opening, now: number): boolean {
    return super.open({ ...opening, learned: SEES_ALL }, now);
  }
  override isLearned(): boolean {
    return true;
  }
}
const SEES_ALL = readSnapshot(`${Number.MAX_SAFE_INTEGER}:${Number.MAX_SAFE_INTEGER}:`, false);

const planted: Record<string, Faults> = {
  "a position stands for the snapshot": { positionForSnapshot: true },
  "a standby's snapshot is read as a primary's": { trustsStandby: true },
  "headers leave though the opening was refused": { ignoresRefusals: true },
  "a fill is closed when its headers leave": { closesEarly: true },
  "a new life does not purge what an earlier one may have left": { forgetsRestart: true },
  "what is purged is not purged again": { fence: (...given) => new PurgesOnce(...given) },
  "commits before the end of a fill are not compared with it": { fence: (...given) => new ForgetsOpenFills(...given) },
  "a 304 is not a fill": { fence: (...given) => new ConfirmsWithoutAFill(...given) },
  "commits are not looked at any more": { fence: (...given) => new StopsFollowing(...given) },
  "tags are used that were learned before a change of definitions": {
    fence: (...given) => new TrustsTheLearning(...given),
  },
};

describe("in simulated time", () => {
  it("no answer is served that lacks a commit for longer than promised", () => {
    let [hits, purges, confirmed] = [0, 0, 0];
    for (let seed = 1; seed <= 250; seed++) {
      const outcome = runWorld(seed);
      expect(outcome.violations, `seed ${seed}`).toEqual([]);
      hits += outcome.hits;
      purges += outcome.purges;
      confirmed += outcome.confirmed;
    }
    expect(hits).toBeGreaterThan(10_000); // most reads are not served otherwise, and then the property means little
    expect(purges).toBeGreaterThan(10_000);
    expect(confirmed).toBeGreaterThan(100);
  });

  it.each(Object.entries(planted))("finds the fault: %s", (_, faults) => {
    let seed = 1;
    while (seed < 2_000 && !runWorld(seed, faults).violations.length) seed++;
    expect(seed).toBeLessThan(2_000);
  });
});

const OPTIONS: FenceOptions = {
  settle: 10,
  maxFill: 100,
  maxFills: 3,
  maxCommits: 2,
  maxDefinitions: 2,
  maxValidators: 2,
};
const snapshot = (text: string, isStandby = false) => readSnapshot(text, isStandby);
/** A fence whose first time, in which it knows nothing of what is stored, is over. */
function settled(): Fence {
  const fence = new Fence(OPTIONS, 100, 0);
  expect(fence.takeDue(110)).toEqual([EVERYTHING]);
  return fence;
}
type Answer = Opening & { readonly snapshot: Snapshot };
const close = (fence: Fence, answer: Answer, now: number) => fence.close(answer, answer.snapshot, now);
const fill = (id: string, seen = "200:200:", tags = ["a"]): Answer => ({
  id,
  tags,
  representation: "r",
  maxAge: 1_000,
  learned: snapshot("200:200:"),
  snapshot: snapshot(seen),
});

describe("the fence", () => {
  it("purges every tag until it knows what is stored, and then only tags that a fill has used", () => {
    const fence = new Fence(OPTIONS, 100, 0);
    expect(fence.commit({ xid: 200, tags: ["a"] }, 1)).toEqual(["a"]);
    expect(fence.takeDue(109)).toEqual([]);
    expect(fence.takeDue(110)).toEqual([EVERYTHING]);
    expect(fence.commit({ xid: 201, tags: ["a"] }, 111)).toEqual([]);
    fence.open(fill("1", "210:210:"), 112);
    expect(fence.commit({ xid: 202, tags: ["a", "b"] }, 113)).toEqual(["a"]);
  });

  it("purges a tag once for all answers that were stored before", () => {
    const fence = settled();
    fence.open(fill("1"), 200);
    close(fence, fill("1"), 210);
    fence.takeDue(220);
    expect(fence.commit({ xid: 200, tags: ["a"] }, 230)).toEqual(["a"]);
    expect(fence.commit({ xid: 201, tags: ["a"] }, 231)).toEqual([]);
  });

  it("does not purge what is no longer stored because of its age", () => {
    const fence = settled();
    fence.open(fill("1"), 200);
    close(fence, fill("1"), 210);
    fence.takeDue(220);
    fence.takeDue(1_310);
    expect(fence.sizes).toEqual({ fills: 0, commits: 0, tags: 0 });
    expect(fence.commit({ xid: 200, tags: ["a"] }, 1_311)).toEqual([]);
  });

  it("compares a fill with the commits before and after its end, and purges it again when it has settled", () => {
    const fence = settled();
    fence.open(fill("1"), 200);
    fence.commit({ xid: 250, tags: ["a"] }, 205);
    expect(close(fence, fill("1"), 210)).toEqual(["a"]);
    expect(fence.takeDue(219)).toEqual([]);
    expect(fence.takeDue(220)).toEqual(["a"]);
    fence.open(fill("2", "251:251:"), 300);
    expect(close(fence, fill("2", "251:251:"), 310)).toEqual([]);
    fence.commit({ xid: 252, tags: ["a"] }, 311);
    expect(fence.takeDue(320)).toEqual(["a"]);
  });

  it("purges the tags of a fill that is never closed, and none of one whose query has failed", () => {
    const fence = settled();
    fence.open(fill("1"), 200);
    fence.open(fill("2", "200:200:", ["b"]), 200);
    fence.abandon("2");
    expect(fence.takeDue(309)).toEqual([]);
    expect(fence.takeDue(310)).toEqual(["a"]);
  });

  it("purges all for an answer that reads no relation, and takes a tag that is given twice once", () => {
    const fence = settled();
    fence.open(fill("1", "200:200:", []), 200);
    fence.commit({ xid: 250, tags: [EVERYTHING] }, 205);
    expect(close(fence, fill("1", "200:200:", []), 210)).toEqual([EVERYTHING]);
    expect(fence.takeDue(220)).toEqual([EVERYTHING]);
    const twice = { ...fill("2", "251:251:", ["a", "a", EVERYTHING]), learned: snapshot("251:251:") };
    fence.open(twice, 300);
    expect(close(fence, twice, 310)).toEqual([]);
    fence.commit({ xid: 252, tags: ["a"] }, 311);
    expect(fence.takeDue(320)).toEqual(["a"]);
  });

  it("refuses a fill beyond its bound or with an id in use; tags older than a change of definitions are not true", () => {
    const fence = settled();
    expect([1, 1, 2, 3, 4].map((id) => fence.open(fill(`${id}`), 200))).toEqual([true, false, true, true, false]);
    const other = settled();
    other.commit({ xid: 205, tags: [EVERYTHING] }, 200);
    expect(other.isLearned(snapshot("200:200:"))).toBe(false);
    expect(other.isLearned(snapshot("206:206:"))).toBe(true);
  });

  it("keeps what was learned for as long as definitions do not change", () => {
    const fence = settled();
    for (const xid of [300, 310, 320]) fence.commit({ xid, tags: ["a"] }, 200);
    fence.takeDue(5_000);
    expect(fence.isLearned(snapshot("200:200:"))).toBe(true);
    for (const xid of [330, 340, 350]) fence.commit({ xid, tags: [EVERYTHING] }, 5_002);
    // Of three changes two are kept.
    expect(fence.isLearned(snapshot("330:351:330"))).toBe(false);
    expect(fence.isLearned(snapshot("351:351:"))).toBe(true);
  });

  it("counts nothing that was learned while a transaction ran that may not be told", () => {
    const fence = settled();
    const learned = (text: string) => ({ ...fill("1"), learned: snapshot(text), snapshot: snapshot(text) });
    fence.open(learned("200:200:"), 200);
    close(fence, learned("200:200:"), 201);
    fence.mayMiss();
    expect(fence.isLearned(snapshot("250:260:250"))).toBe(false);
    expect(fence.takeDue(211)).toEqual(["a"]);
    fence.tellsFrom(260);
    expect(fence.isLearned(snapshot("250:261:250"))).toBe(false);
    expect(fence.isFresh(learned("250:261:250"))).toBe(false);
    expect(fence.isLearned(snapshot("260:261:"))).toBe(true);
  });

  it("counts a snapshot that may miss a forgotten commit as one that does", () => {
    const fence = settled();
    for (const xid of [300, 310, 320]) fence.commit({ xid, tags: ["b"] }, 200);
    expect(fence.sizes.commits).toBe(2);
    const isFresh = (text: string, isStandby = false) =>
      fence.isFresh({ tags: ["a"], learned: snapshot("400:400:"), snapshot: snapshot(text, isStandby) });
    expect([isFresh("300:300:"), isFresh("250:400:300"), isFresh("301:301:"), isFresh("290:301:", true)]).toEqual([
      false,
      false,
      true,
      false,
    ]);
    // What still runs has an id that was not forgotten; nothing is known of ids from before this life.
    expect([isFresh("290:400:290"), isFresh("99:400:99")]).toEqual([true, false]);
  });

  it("confirms an answer for as long as it lacks no commit, and purges what it has confirmed", () => {
    const fence = settled();
    fence.open(fill("1", "251:251:"), 200);
    close(fence, fill("1", "251:251:"), 210);
    fence.takeDue(220);
    fence.commit({ xid: 250, tags: ["a"] }, 220); // its snapshot sees it
    fence.commit({ xid: 260, tags: ["b"] }, 220);
    const asks = (id: string, known: string, now: number) => fence.revalidate(fill(id), [known], now);
    expect([asks("2", "0", 300), fence.revalidate({ ...fill("2"), representation: "s" }, ["1"], 300)]).toEqual([
      undefined,
      undefined,
    ]);
    expect(asks("2", "1", 300)).toBe("1");
    expect(fence.commit({ xid: 261, tags: ["a"] }, 301)).toEqual(["a"]);
    expect(asks("3", "1", 302)).toBeUndefined();
    expect([fence.takeDue(409), fence.takeDue(410)]).toEqual([[], ["a"]]);
  });

  it("confirms nothing that was learned before definitions changed, or a table was published", () => {
    for (const change of [
      (fence: Fence) => fence.commit({ xid: 270, tags: [EVERYTHING] }, 220),
      (fence: Fence) => fence.mayMiss(),
    ]) {
      const fence = settled();
      fence.open(fill("1", "280:280:"), 200);
      close(fence, fill("1", "280:280:"), 210);
      expect(fence.revalidate(fill("2"), ["1"], 215)).toBe("1");
      fence.takeDue(220);
      change(fence);
      expect(fence.revalidate(fill("3"), ["1"], 300)).toBeUndefined();
      expect(fence.takeDue(325)).toEqual(["a"]);
    }
  });

  it("keeps the answers that ended last", () => {
    const fence = settled();
    for (const id of ["1", "2", "3"]) {
      fence.open(fill(id), 200);
      close(fence, fill(id), 200);
    }
    fence.takeDue(210);
    expect([1, 2, 3].map((id) => fence.revalidate(fill(`4${id}`), [`${id}`], 211))).toEqual([undefined, "2", "3"]);
  });

  it("forgets commits after their time", () => {
    const fence = settled();
    fence.commit({ xid: 300, tags: ["a"] }, 200);
    fence.takeDue(419);
    expect(fence.sizes.commits).toBe(1);
    fence.takeDue(420);
    expect(fence.sizes.commits).toBe(0);
  });

  it("purges a fill again that is closed too late, or is of another life, at once and when it has settled", () => {
    const fence = settled();
    fence.open(fill("1"), 200);
    expect(fence.takeDue(310)).toEqual(["a"]);
    expect(close(fence, fill("1"), 311)).toEqual(["a"]);
    expect(fence.takeDue(320)).toEqual([]);
    expect(fence.takeDue(321)).toEqual(["a"]);
    expect(fence.closeUnknown(["a", "b"], 400)).toEqual(["a", "b"]);
    expect(fence.sizes.fills).toBe(1);
    expect(fence.takeDue(410)).toEqual(["a", "b"]);
    expect(fence.sizes.fills).toBe(0);
  });

  it("stores nothing that was read while a transaction ran whose changes are not told", () => {
    const fence = settled();
    fence.mayMiss();
    fence.tellsFrom(310);
    const answer = { ...fill("1"), learned: snapshot("320:320:") };
    for (const [seen, stale] of [
      ["305:330:305", ["a"]],
      ["310:330:310", []],
    ] as const) {
      fence.open(answer, 200);
      expect(close(fence, { ...answer, snapshot: snapshot(seen) }, 201)).toEqual(stale);
    }
  });
});

describe("snapshots", () => {
  it("see what is below xmin, and below xmax unless it was running; on a standby only the first", () => {
    const seen = (text: string, isStandby: boolean) =>
      [741, 742, 743, 744, 748].filter((xid) => sees(snapshot(text, isStandby), xid));
    expect(seen("742:748:743,745", false)).toEqual([741, 742, 744]);
    expect(seen("742:748:", true)).toEqual([741]);
  });

  it.each(["", "1:2", "1:2:3,", "a:2:", "1:2:3;4", "9007199254740993:9007199254740993:"])(
    "are refused in another form: %s",
    (text) => expect(() => snapshot(text)).toThrow(SyntaxError),
  );

  it("give the upper half of an id that the log gives without it", () => {
    const epoch = 2 ** 32;
    expect(widened(5, 7)).toBe(5);
    expect(widened(5, epoch + 7)).toBe(epoch + 5);
    expect(widened(4_294_967_290, epoch + 7)).toBe(4_294_967_290);
    expect(widened(7, epoch - 5)).toBe(epoch + 7);
    expect(widened(4_294_967_290, 7)).toBe(4_294_967_290);
  });
});
