// The checker of histories (tests/cluster/history.ts) finds the faults of wrong histories.
import { expect, test } from "vitest";
import { positionText } from "../../js/cluster/position.ts";
import { check, type Read, type Write } from "../cluster/history.ts";

const at = (lsn: number, timeline = 1) => positionText({ system: 7n, timeline, lsn: BigInt(lsn) });
const write = (object: string, value: number, position?: string, acknowledged = 1): Write => ({
  object,
  value,
  position,
  acknowledged,
});
const read = (object: string, after: string, ...values: number[]): Read => ({ object, after, values, began: 2 });

const writes = [
  write("register", 1, at(10)),
  write("register", 2, at(20)),
  write("register", 3),
  write("list", 1, at(15)),
  write("list", 2, at(25)),
];
const last = [read("register", at(90, 2), 2), read("list", at(90, 2), 1, 2)];
const ends = new Map([[1, 30n]]);
const clean = { stale: [], invented: [], lost: [], lostByServer: 0 };

test("a correct history has no faults", () => {
  const reads = [
    read("register", at(5)),
    read("register", at(10), 1),
    read("register", at(10), 2), // newer than asked for
    read("register", at(20), 3), // the call whose outcome was not known
    read("list", at(15), 1),
    read("list", at(24), 1),
    read("list", at(50, 2), 1, 2),
  ];
  expect(check(writes, reads, last, ends)).toEqual(clean);
});

test("a read of values from before its position is stale", () => {
  const reads = [read("register", at(20), 1), read("register", at(12)), read("list", at(25), 2), read("list", at(16))];
  expect(check(writes, reads, last, ends).stale).toHaveLength(4);
});

test("a write of the same position must be shown if it was acknowledged before the read began", () => {
  const late = [
    write("register", 1, at(10)),
    write("register", 2, at(20), 3),
    write("list", 1, at(20), 1),
    write("list", 2, at(20), 3),
  ];
  const shown = [read("register", at(20), 1), read("list", at(20), 1)];
  expect(check(late, shown, [], ends).stale).toEqual([]);
  const without = [
    read("register", at(20)),
    read("list", at(20)),
    read("register", at(21), 1),
    read("list", at(21), 1),
  ];
  expect(check(late, without, [], ends).stale.map((fault) => fault.split(" after")[0])).toEqual([
    "register: 1",
    "list: 1",
    "register: 2",
    "list: 2",
  ]);
});

test("a value that was never written, or occurs twice, is invented", () => {
  const reads = [read("register", at(5), 9), read("list", at(15), 1, 1)];
  expect(check(writes, reads, last, ends).invented).toHaveLength(2);
});

test("a write is lost unless its timeline had ended before it", () => {
  const without = [read("register", at(90, 2), 1), read("list", at(90, 2), 1)];
  expect(check(writes, [], without, ends)).toMatchObject({
    lost: [expect.stringMatching(/register: 2/), expect.stringMatching(/list: 2/)],
  });
  const earlier = new Map([[1, 18n]]);
  expect(check(writes, [], without, earlier)).toEqual({ ...clean, lostByServer: 2 });
  // Reads after the lost write are not stale without it.
  expect(check(writes, [read("register", at(40, 2), 1)], without, earlier).stale).toEqual([]);
  const later = [...writes, write("register", 4, at(19, 2))];
  expect(check(later, [read("register", at(20), 2)], [], earlier).stale).toEqual([]);
});

test("a write with an unknown position is missed at the end, not by reads", () => {
  const unknown = [...writes, write("list", 3, positionText({ system: 0n, timeline: 0, lsn: 0n }))];
  expect(check(unknown, [read("list", at(15), 1)], last, ends)).toEqual({ ...clean, lostByServer: 1 });
});
