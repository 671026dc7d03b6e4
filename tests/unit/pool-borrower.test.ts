// A borrower: a promise of a connection, which settles once, with whatever happens first.
import { expect, test, vi } from "vitest";
import { Borrower } from "../../js/pool/borrower.ts";
import type { Member } from "../../js/pool/member.ts";
import type { Slots } from "../../js/pool/slots.ts";
import { AbortError, ConnectionError } from "../../js/util/errors.ts";

const member = {} as Member;

function slotsOf() {
  const slots = { wait: vi.fn(), leave: vi.fn() };
  return { slots, borrower: new Borrower(slots as unknown as Slots, { isAlone: true, since: 5, isStream: false }) };
}

test("a borrower states what it wants, and waits in the queue once", async () => {
  const { slots, borrower } = slotsOf();
  expect(borrower).toMatchObject({ isAlone: true, since: 5, isStream: false });
  expect(new Borrower(slots as unknown as Slots, { isAlone: false, since: 6, isStream: true })).toMatchObject({
    isAlone: false,
    isStream: true,
  });
  const waiting = borrower.wait();
  expect(slots.wait.mock.calls).toEqual([[borrower]]);
  borrower.take(member);
  expect(await waiting).toBe(member);
});

test("an error of the driver is copied for each borrower, and a hook's error is passed on unchanged", async () => {
  const shared = new ConnectionError("CONNECTION_LOST", "gone", { stage: "session" });
  const [first, second] = [slotsOf().borrower, slotsOf().borrower];
  const both = [first.wait(), second.wait()].map((waiting) => waiting.catch((error: unknown) => error));
  first.fail(shared);
  second.fail(shared);
  const [one, other] = (await Promise.all(both)) as [Error, Error];
  expect(one).not.toBe(other);
  expect(one).toMatchObject({ code: "CONNECTION_LOST", message: "gone" });
  const third = slotsOf().borrower;
  const waiting = third.wait();
  third.fail("thrown by a hook");
  await expect(waiting).rejects.toBe("thrown by a hook");
});

test("a borrower that gave up before it waits never enters the queue", async () => {
  const { slots, borrower } = slotsOf();
  borrower.giveUp("enough");
  await expect(borrower.wait()).rejects.toBeInstanceOf(AbortError);
  expect(slots.wait).not.toHaveBeenCalled();
});

test("a borrower that has a connection keeps it, even if it gives up afterwards", async () => {
  const { borrower } = slotsOf();
  const waiting = borrower.wait();
  borrower.take(member);
  borrower.giveUp("too late");
  expect(await waiting).toBe(member);
});
