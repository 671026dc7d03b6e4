// A borrower: one promise of a connection, which is settled once, by whoever is first.
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

test("it says what it wants, and waits once", async () => {
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

test("a failure of the driver's is copied for each borrower, and a hook's is given as it is", async () => {
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

test("who gives up while it waits leaves the queue, and its promise rejects with the reason", async () => {
  const { slots, borrower } = slotsOf();
  const waiting = borrower.wait();
  borrower.giveUp("enough");
  expect(slots.leave.mock.calls).toEqual([[borrower]]);
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED", cause: "enough", retryable: true });
});

test("who has given up before it waits is never in the queue", async () => {
  const { slots, borrower } = slotsOf();
  borrower.giveUp("enough");
  await expect(borrower.wait()).rejects.toBeInstanceOf(AbortError);
  expect(slots.wait).not.toHaveBeenCalled();
});

test("a connection that it has been lent stays its own", async () => {
  const { borrower } = slotsOf();
  const waiting = borrower.wait();
  borrower.take(member);
  borrower.giveUp("too late");
  expect(await waiting).toBe(member);
});
