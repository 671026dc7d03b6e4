// CREATE TABLE, ALTER TABLE … ADD COLUMN, … REPLICA IDENTITY, DROP TABLE, LOCK TABLE. CREATE and DROP PUBLICATION are
// in publications.ts.
//
// Knows their syntax, and that their transaction can undo their changes.
import { noTable, notice, onlyInBlocks, PgError } from "../errors.ts";
import {
  ACCESS_EXCLUSIVE,
  ACCESS_SHARE,
  EXCLUSIVE,
  ROW_EXCLUSIVE,
  ROW_SHARE,
  SHARE,
  SHARE_ROW_EXCLUSIVE,
  SHARE_UPDATE_EXCLUSIVE,
} from "../locks.ts";
import { attributesOf, Table, type ReplicaIdentity } from "../tables.ts";
import type { Session } from "../session.ts";
import type { TokenReader } from "../tokens.ts";
import type { Type } from "../values.ts";
import { parseCreatePublication, parseDropPublication } from "./publications.ts";
import { findType, parseTypeName } from "./syntax.ts";
import { planOf, parseQuery, lockedTables, type Query } from "./select.ts";
import { ParameterTypes, quiet, type Rows, type Statement } from "./statement.ts";

interface Definition {
  readonly name: string;
  readonly isTemporary: boolean;
  readonly isOptional: boolean;
  columns: { name: string; type: string; at: number }[];
  endsWithTransaction: boolean;
  query: Query | undefined;
}

export function parseCreate(reader: TokenReader, text: string): Statement {
  reader.expect("create");
  if (reader.is("publication")) return parseCreatePublication(reader, text);
  const isTemporary = reader.accept("temp") || reader.accept("temporary");
  if (!isTemporary) reader.accept("unlogged");
  reader.expect("table");
  const isOptional = reader.accept("if", "not", "exists");
  const made: Definition = {
    name: reader.name(),
    isTemporary,
    isOptional,
    columns: [],
    endsWithTransaction: false,
    query: undefined,
  };
  if (reader.accept("(")) {
    if (!reader.is(")"))
      made.columns = reader.list(() => ({ name: reader.name(), at: reader.token.at, type: parseTypeName(reader) }));
    reader.expect(")");
  }
  if (reader.accept("on", "commit")) {
    made.endsWithTransaction = reader.accept("drop");
    if (!made.endsWithTransaction) reader.expect("preserve", "rows");
  }
  if (reader.accept("as")) made.query = parseQuery(reader);
  return {
    text,
    tables: made.query ? lockedTables(made.query) : [],
    analyse: () =>
      quiet(function* ({ session }) {
        return yield* create(session, made);
      }),
  };
}

function* create(session: Session, made: Definition): Generator<import("../process.ts").Wait, string, void> {
  const { world } = session;
  session.checkWritable("CREATE TABLE");
  const same = world.tables.find(
    ({ name, owner }) => name === made.name && (made.isTemporary ? owner === session : owner === undefined),
  );
  if (same) {
    if (!made.isOptional) throw new PgError("42P07", `relation "${made.name}" already exists`);
    session.notice(notice("NOTICE", "42P07", `relation "${made.name}" already exists, skipping`));
    return "CREATE TABLE";
  }
  const plan = made.query && planOf(made.query, session, new ParameterTypes());
  const columns = plan
    ? plan.columns!.map(({ name, type }) => [name, type] as const)
    : made.columns.map(({ name, type, at }) => [name, findType(type, at)] as const);
  const options = { oid: world.newOid(), name: made.name, endsWithTransaction: made.endsWithTransaction };
  const table = new Table(
    { ...options, ...(made.isTemporary && { owner: session }) },
    attributesOf(columns),
    world.commits,
  );
  world.addTable(table, session);
  session.write();
  yield* session.lock(`table ${table.oid}`, ACCESS_EXCLUSIVE);
  if (!plan) return "CREATE TABLE";
  let count = 0;
  for (const row of plan.run({ session, parameters: [] })) {
    if (Array.isArray(row)) {
      table.insert(session.transaction!, row);
      count++;
    } else yield row;
  }
  return `SELECT ${count}`;
}

export function parseAlter(reader: TokenReader, text: string): Statement {
  reader.expect("alter", "table");
  const isOptional = reader.accept("if", "exists");
  const name = reader.name();
  if (reader.accept("replica", "identity")) return alterIdentity(reader, text, name);
  reader.expect("add");
  reader.accept("column");
  const column = reader.name();
  const typeAt = reader.token.at;
  const typeName = parseTypeName(reader);
  return {
    text,
    tables: [{ name, mode: ACCESS_EXCLUSIVE }],
    analyse: () =>
      quiet(({ session }) => {
        const table = session.world.table(name, session);
        if (!table && isOptional) return "ALTER TABLE";
        if (!table) throw noTable(name);
        session.checkWritable("ALTER TABLE", table);
        addColumn(session, table, column, findType(typeName, typeAt));
        return "ALTER TABLE";
      }),
  };
}

const IDENTITIES: Readonly<Record<string, ReplicaIdentity>> = { full: "f", default: "d", nothing: "n" };

function alterIdentity(reader: TokenReader, text: string, name: string): Statement {
  const identity = IDENTITIES[reader.name()];
  if (!identity) throw reader.wrong();
  return {
    text,
    tables: [{ name, mode: ACCESS_EXCLUSIVE }],
    analyse: () =>
      quiet(({ session }) => {
        const table = session.world.table(name, session);
        if (!table) throw noTable(name);
        session.write();
        table.setReplicaIdentity(session.transaction!, identity);
        return "ALTER TABLE";
      }),
  };
}

function addColumn(session: Session, table: Table, column: string, type: Type): void {
  if (table.attributes.some(({ name }) => name === column))
    throw new PgError("42701", `column "${column}" of relation "${table.name}" already exists`);
  session.write();
  table.addColumn(session.transaction!, column, type);
  session.world.changed(session.transaction!);
}

export function parseDrop(reader: TokenReader, text: string): Statement {
  reader.expect("drop");
  if (reader.is("publication")) return parseDropPublication(reader, text);
  reader.expect("table");
  const isOptional = reader.accept("if", "exists");
  const names = reader.list(() => reader.name());
  if (!reader.accept("cascade")) reader.accept("restrict");
  return {
    text,
    tables: names.map((name) => ({ name, mode: ACCESS_EXCLUSIVE })),
    analyse: () =>
      quiet(({ session }) => {
        for (const name of names) drop(session, name, isOptional);
        return "DROP TABLE";
      }),
  };
}

function drop(session: Session, name: string, isOptional: boolean): void {
  const table = session.world.table(name, session);
  if (!table) {
    if (!isOptional) throw new PgError("42P01", `table "${name}" does not exist`);
    return session.notice(notice("NOTICE", "00000", `table "${name}" does not exist, skipping`));
  }
  session.checkWritable("DROP TABLE", table);
  session.write();
  session.world.dropTable(table, session.transaction!);
}

const MODES: Readonly<Record<string, number>> = {
  "access share": ACCESS_SHARE,
  "row share": ROW_SHARE,
  "row exclusive": ROW_EXCLUSIVE,
  "share update exclusive": SHARE_UPDATE_EXCLUSIVE,
  share: SHARE,
  "share row exclusive": SHARE_ROW_EXCLUSIVE,
  exclusive: EXCLUSIVE,
  "access exclusive": ACCESS_EXCLUSIVE,
};

export function parseLock(reader: TokenReader, text: string): Statement {
  reader.expect("lock");
  reader.accept("table");
  const targets = reader.list(() => ({ at: reader.token.at, name: reader.name() }));
  let mode = ACCESS_EXCLUSIVE;
  if (reader.accept("in")) {
    const words: string[] = [];
    while (!reader.is("mode")) words.push(reader.name());
    reader.expect("mode");
    const found = MODES[words.join(" ")];
    if (found === undefined) throw reader.wrong();
    mode = found;
  }
  const isNowait = reader.accept("nowait");
  return {
    text,
    tables: [],
    analyse: () => ({
      kind: "none",
      columns: undefined,
      *run({ session }): Rows {
        if (session.state === "started") throw onlyInBlocks("LOCK TABLE");
        for (const { name, at } of targets) {
          const table = session.world.table(name, session);
          if (!table) throw noTable(name, at);
          const key = `table ${table.oid}`;
          if (!isNowait) yield* session.lock(key, mode);
          else if (!session.tryLock(key, mode))
            throw new PgError("55P03", `could not obtain lock on relation "${name}"`);
        }
        return "LOCK TABLE";
      },
    }),
  };
}
