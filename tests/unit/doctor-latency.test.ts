// What doctor says about the time that a statement takes.
import { expect, test } from "vitest";
import { findingOf } from "../../js/cli/doctor/latency.ts";

const way = (ms: number) => ({ flights: 1, ms });

test("a slow server is far away, unless it is on this machine", () => {
  const of = (ms: number, host: string) => findingOf(way(ms), way(ms), way(ms), host);
  expect(of(5, "db.example.com").level).toBe("good");
  expect(of(50, "db.example.com")).toMatchObject({
    level: "change",
    advice: [expect.stringContaining("far away"), expect.any(String)],
  });
  for (const host of ["localhost", "127.0.0.1", "::1", "/tmp"]) {
    expect(of(5, host).level).toBe("good");
    expect(of(50, host)).toMatchObject({ level: "note", advice: [expect.stringContaining("a tunnel or a proxy")] });
  }
});
