// What the isolate knows of a server (js/server/known-server.ts): who shares it, who never does, and its bounds.
import { expect, test, vi } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Options } from "../../js/config/options.ts";
import { knownServer, KnownServer } from "../../js/server/known-server.ts";
import { MOST_CATALOGS, MOST_REFUSED_TYPES, MOST_SERVERS } from "../../js/util/limits.ts";

const of = (url: string, options: Options = {}) => resolveConfig(url, {}, options);
const known = (...given: Parameters<typeof of>) => knownServer(of(...given));

/** An isolate that has seen no server. */
async function newIsolate() {
  vi.resetModules();
  return import("../../js/server/known-server.ts");
}

// -- what makes two servers the same ---------------------------------------------------------------------------------

test("everything that may decide what SQL means makes another server", () => {
  const base = "postgres://u@h:5432/d";
  const all = [
    known(base),
    known("postgres://u@h:5432/e"),
    known("postgres://u@h:5433/d"),
    known("postgres://u@i:5432/d"),
    known("postgres://v@h:5432/d"),
    known(base, { startup: { search_path: "other" } }),
    known(base, { options: "-c search_path=other" }),
    known("postgres://u@h:5432/d%22%2C%22x"),
  ];
  expect(new Set(all).size).toBe(all.length);
  expect(new Set(all.map(({ unscoped }) => unscoped.key)).size).toBe(all.length);
});

test("the same server is known once, whatever the password and the limits", () => {
  const one = known("postgres://u:one@h/d", { maxRows: 5 });
  expect(known("postgres://u:two@h/d?sslmode=disable")).toBe(one);
  expect(known("postgres://u:one@h/d", { applicationName: "other" })).not.toBe(one);
});

test("a scope whose settings do not change meanings is its server's, and others are one per meaning", () => {
  const [server, other] = [new KnownServer(), new KnownServer()];
  expect(server.scope("")).toBe(server.unscoped);
  const scopes = [server.unscoped, server.scope("one"), server.scope("two"), other.scope("one")];
  expect(new Set(scopes.map(({ key }) => key)).size).toBe(4);
  expect(server.scope("one")).toBe(scopes[1]);
  expect(scopes.map((scope) => scope.server)).toEqual([server, server, server, other]);
});

test("a pooler, Citus and changes of the schema are known for all roles and settings of a database", () => {
  const [one, other, elsewhere] = [
    known("postgres://one@same/d"),
    known("postgres://two@same/d?application_name=x"),
    known("postgres://one@same/e"),
  ];
  expect(one).not.toBe(other);
  one.database.isCitus = true;
  one.noteProcessId((1 << 22) + 1);
  one.database.epoch++;
  expect([other.database, elsewhere.database]).toEqual([
    { isPooler: true, isCitus: true, epoch: 1 },
    { isPooler: false, isCitus: false, epoch: 0 },
  ]);
});

// -- what is noted ---------------------------------------------------------------------------------------------------

test("a process id that PostgreSQL never uses is a pooler's, and stays known", () => {
  const server = new KnownServer();
  server.noteProcessId(1 << 22);
  expect(server.database.isPooler).toBe(false);
  server.noteProcessId((1 << 22) + 1);
  server.noteProcessId(7);
  expect(server.database.isPooler).toBe(true);
});

// -- bounds ----------------------------------------------------------------------------------------------------------

test("the last servers that were used are known, and one that was dropped is learned anew under another key", async () => {
  const isolate = await newIsolate();
  const find = (database: string | number) => isolate.knownServer(of(`postgres://u@h/${database}`));
  const [first, second] = [find("first"), find("second")];
  const kept = of("postgres://u@h/second");
  expect(isolate.knownServer(kept)).toBe(second);
  for (let n = 2; n < MOST_SERVERS; n++) find(n);
  // The first is used again, so the second is the oldest.
  expect(find("first")).toBe(first);
  find("one more");
  expect(find("first")).toBe(first);
  expect(find("second").unscoped.key).not.toBe(second.unscoped.key);
  // A configuration in use keeps what it has.
  expect(isolate.knownServer(kept)).toBe(second);
});

test("the number of scopes is bounded, and a dropped one returns under another key", () => {
  const server = new KnownServer();
  const first = server.scope("0");
  for (let n = 1; n < MOST_SERVERS; n++) server.scope(`${n}`);
  expect(server.scope("0")).toBe(first);
  server.scope("more");
  expect(server.scope("0").key).not.toBe(first.key);
  expect(server.scope("")).toBe(server.unscoped);
});

test("servers do not share a catalog, and a hundred of them are kept", () => {
  const servers = Array.from({ length: MOST_CATALOGS }, () => new KnownServer());
  const catalogs = servers.map(({ catalog }) => catalog);
  expect([new Set(catalogs).size, MOST_CATALOGS]).toEqual([100, 100]);
  expect(servers.map(({ catalog }) => catalog)).toEqual(catalogs);
  expect(new KnownServer().catalog).not.toBe(catalogs[0]);
  expect([servers[0]!.catalog === catalogs[0], servers[99]!.catalog === catalogs[99]]).toEqual([false, true]);
});

test("the number of types that are requested as text is bounded", () => {
  const { refusedTypes } = new KnownServer();
  for (let oid = 0; oid <= MOST_REFUSED_TYPES; oid++) refusedTypes.add(oid);
  expect([refusedTypes.size, refusedTypes.has(0), refusedTypes.has(MOST_REFUSED_TYPES)]).toEqual([1_000, false, true]);
});
