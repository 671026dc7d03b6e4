// A session and the sessions of scopes on the same connection (js/session/session.ts): what they share, and what
// belongs to a scope alone.
import { expect, test } from "vitest";
import type { Connection } from "../../js/connection/connection.ts";
import { Operation } from "../../js/connection/operation.ts";
import { resolveConfig } from "../../js/config/config.ts";
import { knownServer } from "../../js/server/known-server.ts";
import { shapes } from "../../js/server/shapes.ts";
import { scopeSettings } from "../../js/session/scope-settings.ts";
import { Session } from "../../js/session/session.ts";
import { shapeOf } from "../support/noted-statements.ts";

let databases = 0;

/** An idle connection to its own database. */
function connect() {
  const config = resolveConfig(`postgres://u@h/session_${++databases}`);
  const forgotten: number[] = [];
  const connection = {
    config,
    transactionStatus: "I",
    integerDatetimes: true,
    parameters: new Map<string, string>(),
    onCommand: undefined as Connection["onCommand"],
    callCore: (command: (handle: { forget: (id: number) => void }) => void) =>
      command({ forget: (id) => void forgotten.push(id) }),
  };
  return { connection, session: new Session(connection as unknown as Connection), forgotten };
}

const role = scopeSettings({ role: "r" });
const tenant = scopeSettings({ settings: { "app.tenant": 7 } });

/** The statements before a flight of this session. */
function inFront({ transaction }: Session): readonly string[] {
  const { preludes } = transaction;
  transaction.carried(new Operation({}));
  return preludes;
}

test("a session has its connection's configuration and its server's catalog, and no settings", () => {
  const { connection, session } = connect();
  expect(session.connection).toBe(connection);
  expect(session.config).toBe(connection.config);
  expect(session.catalog).toBe(knownServer(connection.config).catalog);
  expect([session.isScoped, inFront(session), session.sessionChanges]).toEqual([false, [], undefined]);
});

test("a scope's session sets its settings before each flight, and the client's own session does not", () => {
  const { session } = connect();
  const scoped = session.scoped(tenant);
  expect([scoped.isScoped, inFront(scoped)]).toEqual([true, [tenant.statement]]);
  expect([session.isScoped, inFront(session)]).toEqual([false, []]);
});

test("descriptions are shared with a scope unless its settings change the meaning of SQL", () => {
  const { session, connection } = connect();
  const learned = shapes.put(knownServer(connection.config).unscoped.key, "select n", shapeOf([23]));
  const known = ({ statements }: Session) => statements.known("select n");
  expect([session, session.scoped(tenant), session.scoped(role)].map(known)).toEqual([learned, learned, undefined]);
});

test("sessions of one connection share the record of what has run there, and are told of its changes", () => {
  const { session, connection, forgotten } = connect();
  const shape = shapes.put(knownServer(connection.config).unscoped.key, "select n", shapeOf([23]));
  const scoped = session.scoped(tenant);
  scoped.statements.checkIdFor(shape as never, false);
  expect(session.statements.hasRun(shape)).toBe(true);
  connection.onCommand!("DISCARD ALL");
  expect([session, scoped].map(({ statements }) => statements.hasRun(shape))).toEqual([false, false]);
  expect(forgotten).toEqual([shape.id]);
  // Inside its transaction, whichever session looks first.
  connection.transactionStatus = "T";
  connection.onCommand!("ALTER TABLE");
  expect([session, scoped].map(({ statements }) => statements.known("select n"))).toEqual([undefined, undefined]);
  const inside = shapes.size;
  const [first, second] = [session, scoped].map(({ statements }) =>
    statements.learnedNow("select n", shapeOf([23]), shape.id),
  );
  expect([second, shapes.size]).toEqual([first, inside + 1]);
});

test("a scope's session has its own transactions, and notes its changes where the client's does", () => {
  const { session } = connect();
  session.sessionChanges = { note: () => {}, add: () => {} };
  const scoped = session.scoped(tenant);
  expect(scoped.sessionChanges).toBe(session.sessionChanges);
  scoped.transaction.begin("begin");
  expect([scoped.transaction.isWaiting, session.transaction.isWaiting]).toEqual([true, false]);
});
