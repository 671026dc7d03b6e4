// Many calls that share one signal (js/util/abort.ts): the signal has one listener, and in the end none.
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { onAbort } from "../../js/util/abort.ts";

const listenersOf = ({ signal }: AbortController) => getEventListeners(signal, "abort").length;

test("fifty listeners are one of the signal's, and are called once, in order", () => {
  const abort = new AbortController();
  const called: number[] = [];
  for (let n = 0; n < 50; n++) onAbort(abort.signal, () => void called.push(n));
  expect(listenersOf(abort)).toBe(1);
  abort.abort();
  abort.abort();
  expect(called).toEqual(Array.from({ length: 50 }, (_, n) => n));
  expect(listenersOf(abort)).toBe(0);
});

test("no listener is left when all have stopped, and a later one is heard", () => {
  const abort = new AbortController();
  const called: string[] = [];
  const stops = ["a", "b"].map((name) => onAbort(abort.signal, () => void called.push(name)));
  for (const stop of [...stops, ...stops]) stop();
  expect(listenersOf(abort)).toBe(0);
  onAbort(abort.signal, () => void called.push("later"));
  abort.abort();
  expect(called).toEqual(["later"]);
});

test("one that is stopped by another is not called, and one that comes meanwhile is called at once", () => {
  const abort = new AbortController();
  const called: string[] = [];
  onAbort(abort.signal, () => {
    stop();
    onAbort(abort.signal, () => void called.push("meanwhile"));
    called.push("first");
  });
  const stop = onAbort(abort.signal, () => void called.push("stopped"));
  onAbort(abort.signal, () => void called.push("last"));
  abort.abort();
  expect(called).toEqual(["meanwhile", "first", "last"]);
});

test("without a signal nothing happens, and one that has aborted calls at once", () => {
  let calls = 0;
  onAbort(undefined, () => calls++)();
  onAbort(AbortSignal.abort(), () => calls++)();
  expect(calls).toBe(1);
});
