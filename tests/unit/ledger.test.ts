// The ledger: which calls are open, and the counters of all calls so far.
import { expect, test, vi } from "vitest";
import { Ledger } from "../../js/api/ledger.ts";
import type { Outcome } from "../../js/session/call.ts";
import { PostgresError } from "../../js/util/errors.ts";

type Entry = Parameters<Ledger["add"]>[0];

function opened(count: number) {
  const counters = { queries: 0, errors: 0, rows: 0, bytes: 0, running: 0 };
  const ledger = new Ledger(counters);
  const calls = Array.from({ length: count }, () => ({ index: -1 }) as Entry);
  for (const call of calls) ledger.add(call);
  return { counters, ledger, calls };
}

const outcome = (more: Partial<Outcome> = {}): Outcome => ({ rows: null, bytes: 0, command: "", ...more });

test("calls that have ended are no longer open, in whatever order they end", () => {
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 0, 2],
    [1, 2, 0],
  ]) {
    const { ledger, calls } = opened(3);
    const left = new Set(calls);
    for (const at of order) {
      ledger.ended(calls[at]!, outcome());
      left.delete(calls[at]!);
      expect(new Set(ledger.open)).toEqual(left);
      expect(ledger.open.length).toBe(left.size);
    }
  }
});

test("the ledger counts the calls' errors, rows and bytes", () => {
  const { counters, ledger, calls } = opened(3);
  expect(counters).toEqual({ queries: 3, errors: 0, rows: 0, bytes: 0, running: 3 });
  ledger.ended(calls[0]!, outcome({ rows: 7, bytes: 90 }));
  ledger.ended(calls[1]!, outcome({ rows: 2, bytes: 10 }));
  ledger.ended(calls[2]!, outcome({ error: new PostgresError({ code: "42601", message: "no" }) }));
  expect(counters).toEqual({ queries: 3, errors: 1, rows: 9, bytes: 100, running: 0 });
});

test("the observer of a call is told its outcome", () => {
  const { ledger } = opened(0);
  const end = vi.fn();
  const call = { place: -1, observation: { end } } as unknown as Entry;
  ledger.add(call);
  const result = outcome({ rows: 1 });
  ledger.ended(call, result);
  expect(end.mock.calls).toEqual([[result]]);
});

test("hasOther is true if a call other than the given one is open", () => {
  const { ledger, calls } = opened(1);
  expect([ledger.hasOther(calls[0]), ledger.hasOther(undefined)]).toEqual([false, true]);
  ledger.ended(calls[0]!, outcome());
  expect(ledger.hasOther(undefined)).toBe(false);
});
