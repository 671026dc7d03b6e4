// What an isolate remembers of servers whose answers to a first run were not PostgreSQL's (js/session/odd-servers.ts):
// which errors count against a server, for whom, and that the memory is bounded.
import { beforeEach, expect, test, vi } from "vitest";
import type { Config } from "../../js/config/options.ts";
import type * as OddServers from "../../js/session/odd-servers.ts";
import { connectionLost } from "../../js/sockets/contract.ts";
import { ConnectionError, PostgresError, ProtocolError, TimeoutError } from "../../js/util/errors.ts";
import { MOST_SERVERS } from "../../js/util/limits.ts";

const server = (database: string, host = "h", port = 5432) => ({ host, port, database }) as Config;
const one = server("one");

let memory: typeof OddServers;
beforeEach(async () => {
  // An isolate that has seen no server.
  vi.resetModules();
  memory = await import("../../js/session/odd-servers.ts");
});

const postgres = (code: string) => new PostgresError({ severity: "FATAL", code, message: "no" });
const failedConnect = new ConnectionError("CONNECT_FAILED", "no", { stage: "tcp" });
const lost = connectionLost("the server closed it");
const unexpected = new ProtocolError("UNEXPECTED_MESSAGE", "no");
const violation = new ProtocolError("PROTOCOL_VIOLATION", "no");

test("a server that nothing is known of is like PostgreSQL", () => {
  expect([memory.isOdd(one, "statement"), memory.isOdd(one, "batch"), memory.asksForText(one)]).toEqual([
    false,
    false,
    false,
  ]);
});

test("another server's answers count by host, port, database and way, and its rows are asked for as text", () => {
  memory.heedOddness(one, "statement");
  expect([memory.isOdd(one, "statement"), memory.asksForText(one)]).toEqual([true, true]);
  expect(memory.isOdd(one, "batch")).toBe(false);
  const others = [server("two"), server("one", "i"), server("one", "h", 5433)];
  expect(others.map((other) => [memory.isOdd(other, "statement"), memory.asksForText(other)])).toEqual(
    others.map(() => [false, false]),
  );
});

test("a server that has answered a first run as PostgreSQL does is described first, and never asked for text", () => {
  memory.heedSuccess(one, "statement");
  memory.heedOddness(one, "statement");
  expect([memory.isOdd(one, "statement"), memory.asksForText(one)]).toEqual([true, false]);
});

test("a server that answers batches oddly is asked for text by none of its statements", () => {
  memory.heedOddness(one, "batch");
  expect([memory.isOdd(one, "batch"), memory.isOdd(one, "statement"), memory.asksForText(one)]).toEqual([
    true,
    false,
    false,
  ]);
});

test("a first run that goes well takes nothing back", () => {
  memory.heedOddness(one, "statement");
  memory.heedSuccess(one, "statement");
  expect([memory.isOdd(one, "statement"), memory.asksForText(one)]).toEqual([true, true]);
  memory.heedLoss(server("two"), "statement", lost, false);
  memory.heedSuccess(server("two"), "statement");
  expect(memory.isOdd(server("two"), "statement")).toBe(true);
});

/** An end under a first run: is the server suspected where no first run has gone well there, and where one has? */
const ends: [what: string, error: unknown, isDescribed: boolean, isSuspect: boolean, isSuspectThough: boolean][] = [
  ["a lost connection before the description", lost, false, true, false],
  ["a lost connection behind it", lost, true, false, false],
  ["a FATAL error before it", postgres("08P01"), false, true, false],
  ["a FATAL error whose code has 53 within", postgres("08P53"), false, true, false],
  ["a FATAL error behind it", postgres("08P01"), true, false, false],
  ["a server that is full", postgres("53300"), false, false, false],
  ["a server that is going", postgres("57P01"), false, false, false],
  ["another failure of the connection", failedConnect, false, false, false],
  ["an error of our own", new TimeoutError("QUERY_TIMEOUT", "late"), false, false, false],
  ["an error of our own with the code of a loss", new ProtocolError("CONNECTION_LOST", "no"), true, false, false],
  ["a message out of its order", unexpected, false, true, true],
  ["a message out of its order behind the description", unexpected, true, true, true],
  ["a message that cannot be read before it", violation, false, true, true],
  ["a message that cannot be read behind it", violation, true, false, false],
  ["an error that is no protocol's, though it says so", { code: "UNEXPECTED_MESSAGE" }, true, false, false],
  ["an error that is no connection's, though it says so", { code: "CONNECTION_LOST" }, false, false, false],
];

test.each(ends)("%s: whether the server is described first from then on", (_, error, isDescribed, ...expected) => {
  const [fresh, proven] = [server("fresh"), server("proven")];
  memory.heedSuccess(proven, "statement");
  for (const each of [fresh, proven]) memory.heedLoss(each, "statement", error, isDescribed);
  expect([fresh, proven].map((each) => memory.isOdd(each, "statement"))).toEqual(expected);
  // How its rows are asked for stays: only its own answers say that it is another server.
  expect([fresh, proven].map(memory.asksForText)).toEqual([false, false]);
  expect([fresh, proven].map((each) => memory.isOdd(each, "batch"))).toEqual([false, false]);
});

test("a server that is odd stays odd behind a loss", () => {
  memory.heedOddness(one, "statement");
  memory.heedLoss(one, "statement", unexpected, false);
  expect(memory.asksForText(one)).toBe(true);
});

test("so many servers are remembered, and a known one takes no other's place", () => {
  const all = Array.from({ length: MOST_SERVERS }, (_, at) => server(`${at}`));
  for (const each of all) memory.heedOddness(each, "statement");
  memory.heedOddness(all[7]!, "statement");
  expect(all.filter((each) => memory.isOdd(each, "statement"))).toHaveLength(MOST_SERVERS);
  memory.heedOddness(one, "statement");
  expect(all.filter((each) => !memory.isOdd(each, "statement"))).toEqual([all[0]]);
  expect(memory.isOdd(one, "statement")).toBe(true);
});
