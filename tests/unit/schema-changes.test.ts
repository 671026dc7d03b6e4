// How commands of a session affect cached statements (js/session/schema-changes.ts): by which key statements are looked
// up after DDL, inside and outside of a transaction, and which commands drop names.
import { beforeEach, expect, test } from "vitest";
import type { Connection } from "../../js/connection/connection.ts";
import { KnownServer } from "../../js/server/known-server.ts";
import { SchemaChanges } from "../../js/session/schema-changes.ts";
import type { Shape } from "../../js/server/shapes.ts";
import { Learned } from "../../js/session/learned.ts";
import type { CoreConnection } from "../../js/wasm/boundary.ts";

let server: KnownServer;
beforeEach(() => {
  server = new KnownServer();
});

/** A connection that only completes commands, and a record of what its core was told to forget. */
function connect(to = server) {
  const forgotten: number[] = [];
  const handle = { forget: (id: number) => void forgotten.push(id) } as unknown as CoreConnection;
  const connection = {
    transactionStatus: "I",
    onCommand: undefined as Connection["onCommand"],
    callCore: (command: (handle: CoreConnection) => void) => command(handle),
  };
  const told = new Learned();
  const changes = new SchemaChanges(connection as unknown as Connection, to.database, told);
  /** Runs these commands in one flight. `status` is the transaction status afterwards. */
  const run = (commands: string | readonly string[], status = connection.transactionStatus) => {
    for (const command of [commands].flat()) connection.onCommand!(command);
    connection.transactionStatus = status;
  };
  return { run, key: () => changes.key, told, forgotten };
}

const CHANGES = ["ALTER TABLE", "ALTER TYPE", "DROP TABLE", "DROP VIEW", "CREATE VIEW", "DO", "IMPORT FOREIGN SCHEMA"];
const KEEPS = [
  "SELECT 1",
  "INSERT 0 1",
  "CREATE TABLE",
  "CREATE INDEX",
  "ALTER INDEX",
  "DROP INDEX",
  "BEGIN",
  "COMMIT",
  "ROLLBACK",
  "SET",
  "DISCARD TEMP",
];

test.each(CHANGES)(
  "after %s every connection to that server looks statements up anew, and no other server's does",
  (command) => {
    const [first, second, elsewhere] = [connect(), connect(), connect(new KnownServer())];
    expect([first, second, elsewhere].map(({ key }) => key())).toEqual(["", "", ""]);
    first.run(command);
    const key = first.key();
    expect(key).not.toBe("");
    expect([first, second, connect()].map(({ key }) => key())).toEqual([key, key, key]);
    expect(elsewhere.key()).toBe("");
    first.run(command);
    expect(first.key()).not.toBe(key);
  },
);

test.each(KEEPS)("after %s cached statements are used, in a transaction too", (command) => {
  const { run, key } = connect();
  run(command);
  expect(key()).toBe("");
  run(command, "T");
  expect(key()).toBe("");
});

test("what a connection learns after DDL in a transaction is its own until COMMIT, and then learned anew", () => {
  const [own, other] = [connect(), connect()];
  own.run(["BEGIN", "ALTER TABLE"], "T");
  const inside = own.key();
  expect(own.key()).toBe(inside);
  expect(other.key()).not.toBe(inside);
  const before = other.key();
  // Other commands change nothing more, and further DDL does.
  own.run("INSERT 0 1");
  expect(own.key()).toBe(inside);
  own.run("DROP TABLE");
  const later = own.key();
  expect([inside, before, other.key()]).not.toContain(later);
  const meanwhile = other.key();
  own.run("COMMIT", "I");
  const after = own.key();
  expect(other.key()).toBe(after);
  expect([inside, later, before, meanwhile]).not.toContain(after);
  // No trace remains: the next transaction uses the shared cache.
  own.run("BEGIN", "T");
  expect(own.key()).toBe(after);
});

test("two transactions that change the schema never use each other's descriptions", () => {
  const all = Array.from({ length: 3 }, () => connect());
  for (const { run } of all) run(["BEGIN", "ALTER TABLE"], "T");
  expect(new Set(all.map(({ key }) => key())).size).toBe(all.length);
});

test("a transaction that begins, changes and commits in one flight is like DDL outside of one", () => {
  const [own, other] = [connect(), connect()];
  own.run(["BEGIN", "ALTER TABLE"]);
  const between = other.key();
  own.run("COMMIT");
  expect(own.key()).toBe(other.key());
  expect(own.key()).not.toBe(between);
});

test("after COMMIT AND CHAIN the change applies to all, even though the next transaction is open", () => {
  const [own, other] = [connect(), connect()];
  own.run(["BEGIN", "ALTER TABLE"], "T");
  const inside = own.key();
  const during = other.key();
  own.run("COMMIT");
  const after = own.key();
  expect(other.key()).toBe(after);
  expect([inside, during]).not.toContain(after);
  // The same if no look-up happened before.
  own.run(["DROP TABLE", "COMMIT"]);
  expect(own.key()).toBe(other.key());
  expect(own.key()).not.toBe(after);
});

test("a transaction that ends unnoticed has changed the schema for all who looked up during it", () => {
  const [own, other] = [connect(), connect()];
  own.run(["BEGIN", "ALTER TABLE"], "T");
  const inside = own.key();
  const during = other.key();
  // For example by a procedure that commits by itself.
  own.run("CALL", "I");
  const after = own.key();
  expect([inside, during]).not.toContain(after);
  expect([own.key(), other.key()]).toEqual([after, after]);
});

test("after ROLLBACK TO SAVEPOINT, descriptions from the transaction are not used any more", () => {
  const { run, key } = connect();
  run(["BEGIN", "ALTER TABLE"], "T");
  const inside = key();
  run("ROLLBACK");
  const behind = key();
  expect(behind).not.toBe(inside);
  expect(key()).toBe(behind);
  // The transaction continues, and its COMMIT applies to all.
  run("COMMIT", "I");
  expect([inside, behind]).not.toContain(key());
});

test("after ROLLBACK of a transaction without DDL nothing is learned anew", () => {
  const { run, key } = connect();
  run(["BEGIN", "SAVEPOINT"], "T");
  run("ROLLBACK");
  expect(key()).toBe("");
  run("ROLLBACK", "I");
  expect(key()).toBe("");
});

test("a failed transaction that changed the schema still has its own key", () => {
  const { run, key } = connect();
  run(["BEGIN", "ALTER TABLE"], "E");
  const inside = key();
  expect(inside).not.toBe(connect().key());
  run("ROLLBACK", "I");
  expect(key()).toBe(connect().key());
});

test.each(["DISCARD ALL", "DISCARD PLANS", "DEALLOCATE", "DEALLOCATE ALL"])(
  "%s drops the names of all statements once, and the core forgets them",
  (command) => {
    const { run, told, forgotten, key } = connect();
    for (const id of [3, 5]) told.remember({ id });
    run(command);
    expect(forgotten).toEqual([3, 5]);
    expect(told.hasRun({ id: 3 } as Shape)).toBe(false);
    run(command);
    expect(forgotten).toEqual([3, 5]);
    expect(key()).toBe("");
  },
);

test.each([...CHANGES, ...KEEPS.filter((command) => !command.startsWith("DISCARD"))])("%s drops no name", (command) => {
  const { run, told, forgotten } = connect();
  told.remember({ id: 3 });
  run(command);
  expect([told.hasRun({ id: 3 } as Shape), forgotten]).toEqual([true, []]);
});
