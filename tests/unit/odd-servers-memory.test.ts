// What an isolate remembers about servers that answered a first run unlike PostgreSQL (js/session/odd-servers.ts):
// which errors count against a server, for which calls, and that the memory is bounded.
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
  // Loads the module as an isolate that has seen no server.
  vi.resetModules();
  memory = await import("../../js/session/odd-servers.ts");
});

const postgres = (code: string) => new PostgresError({ severity: "FATAL", code, message: "no" });
const failedConnect = new ConnectionError("CONNECT_FAILED", "no", { stage: "tcp" });
const lost = connectionLost("the server closed it");
const unexpected = new ProtocolError("UNEXPECTED_MESSAGE", "no");
const violation = new ProtocolError("PROTOCOL_VIOLATION", "no");

test("an unknown server is treated like PostgreSQL", () => {
  expect([memory.isOdd(one, "statement"), memory.isOdd(one, "batch"), memory.asksForText(one)]).toEqual([
    false,
    false,
    false,
  ]);
});

test("odd answers count per host, port, database and kind of call, and rows are then requested as text", () => {
  memory.noteOddResponse(one, "statement");
  expect([memory.isOdd(one, "statement"), memory.asksForText(one)]).toEqual([true, true]);
  expect(memory.isOdd(one, "batch")).toBe(false);
  const others = [server("two"), server("one", "i"), server("one", "h", 5433)];
  expect(others.map((other) => [memory.isOdd(other, "statement"), memory.asksForText(other)])).toEqual(
    others.map(() => [false, false]),
  );
});

test("a server that once answered a first run correctly is described first, but not asked for text", () => {
  memory.noteSuccess(one, "statement");
  memory.noteOddResponse(one, "statement");
  expect([memory.isOdd(one, "statement"), memory.asksForText(one)]).toEqual([true, false]);
});

test("after odd answers to a batch, single statements are not asked for as text", () => {
  memory.noteOddResponse(one, "batch");
  expect([memory.isOdd(one, "batch"), memory.isOdd(one, "statement"), memory.asksForText(one)]).toEqual([
    true,
    false,
    false,
  ]);
});

test("a later first run that succeeds does not clear the mark", () => {
  memory.noteOddResponse(one, "statement");
  memory.noteSuccess(one, "statement");
  expect([memory.isOdd(one, "statement"), memory.asksForText(one)]).toEqual([true, true]);
  memory.noteLoss(server("two"), "statement", lost, false);
  memory.noteSuccess(server("two"), "statement");
  expect(memory.isOdd(server("two"), "statement")).toBe(true);
});

/** How a first run ends. Is the server then suspect if no first run has succeeded there, and if one has? */
const ends: [what: string, error: unknown, isDescribed: boolean, isSuspect: boolean, isSuspectThough: boolean][] = [
  ["a lost connection before the description", lost, false, true, false],
  ["a lost connection after it", lost, true, false, false],
  ["a FATAL error before it", postgres("08P01"), false, true, false],
  ["a FATAL error whose code has 53 within", postgres("08P53"), false, true, false],
  ["a FATAL error after it", postgres("08P01"), true, false, false],
  ["a server that is full", postgres("53300"), false, false, false],
  ["a server that is going", postgres("57P01"), false, false, false],
  ["another failure of the connection", failedConnect, false, false, false],
  ["an error of the driver", new TimeoutError("QUERY_TIMEOUT", "late"), false, false, false],
  ["an error of the driver with the code of a loss", new ProtocolError("CONNECTION_LOST", "no"), true, false, false],
  ["a message out of its order", unexpected, false, true, true],
  ["a message out of its order after the description", unexpected, true, true, true],
  ["a message that cannot be read before it", violation, false, true, true],
  ["a message that cannot be read after it", violation, true, false, false],
  ["an error that is no protocol's, though it says so", { code: "UNEXPECTED_MESSAGE" }, true, false, false],
  ["an error that is no connection's, though it says so", { code: "CONNECTION_LOST" }, false, false, false],
];

test.each(ends)("after %s the server may be described first", (_, error, isDescribed, ...expected) => {
  const [fresh, proven] = [server("fresh"), server("proven")];
  memory.noteSuccess(proven, "statement");
  for (const each of [fresh, proven]) memory.noteLoss(each, "statement", error, isDescribed);
  expect([fresh, proven].map((each) => memory.isOdd(each, "statement"))).toEqual(expected);
  // The format of its rows stays, because only the server's own answers show that it is not PostgreSQL.
  expect([fresh, proven].map(memory.asksForText)).toEqual([false, false]);
  expect([fresh, proven].map((each) => memory.isOdd(each, "batch"))).toEqual([false, false]);
});

test("an odd server stays odd after a lost connection", () => {
  memory.noteOddResponse(one, "statement");
  memory.noteLoss(one, "statement", unexpected, false);
  expect(memory.asksForText(one)).toBe(true);
});

test("the number of remembered servers is bounded, and a known server displaces no other", () => {
  const all = Array.from({ length: MOST_SERVERS }, (_, at) => server(`${at}`));
  for (const each of all) memory.noteOddResponse(each, "statement");
  memory.noteOddResponse(all[7]!, "statement");
  expect(all.filter((each) => memory.isOdd(each, "statement"))).toHaveLength(MOST_SERVERS);
  memory.noteOddResponse(one, "statement");
  expect(all.filter((each) => !memory.isOdd(each, "statement"))).toEqual([all[0]]);
  expect(memory.isOdd(one, "statement")).toBe(true);
});
