// CREATE TABLE, ALTER TABLE … ADD COLUMN and … REPLICA IDENTITY FULL, DROP TABLE, CREATE PUBLICATION.
//
// A table of texts in the form of the catalogue. Knows that their transaction can undo their changes.
import { noType, notice, PgError } from "../errors.ts";
import { ACCESS_EXCLUSIVE } from "../locks.ts";
import type { Doing } from "../process.ts";
import type { Session } from "../session.ts";
import { attributesOf, Table } from "../tables.ts";
import { typeNamed, type Type } from "../values.ts";
import { findTable } from "./select.ts";
import { quiet, type Statement } from "./statement.ts";
import { bare } from "./text.ts";

type Read = Omit<Statement, "text">;

const changing = (name: string, change: (session: Session) => string): Read => ({
  tables: [{ name, mode: ACCESS_EXCLUSIVE }],
  analyse: () => quiet(({ session }) => change(session)),
});

/** Returns the statement, or `undefined` if it is none of these. */
export function readSchema(text: string, whole: string): Read | undefined {
  const [, temporary, made, columns] = /^create (temp(?:orary)? )?table (\w+) \((.+)\)$/.exec(text) ?? [];
  if (made) return { tables: [], analyse: () => quiet(({ session }) => create(session, made, columns!, !!temporary)) };
  const [, altered, column, type] = /^alter table ([\w.]+) add column (\w+) (\w+)$/.exec(text) ?? [];
  if (altered)
    return changing(bare(altered), (session) => addColumn(session, bare(altered), column!, typeOf(type!), whole));
  const [, identified] = /^alter table (\w+) replica identity full$/.exec(text) ?? [];
  if (identified) return changing(identified, (session) => setIdentity(session, identified, whole));
  const [, isOptional, dropped] = /^drop table (if exists )?(\w+)$/.exec(text) ?? [];
  if (dropped) return changing(dropped, (session) => drop(session, dropped, !!isOptional));
  const [, publication, tables] = /^create publication (\w+) for table ([\w,]+)$/.exec(text) ?? [];
  if (!publication) return undefined;
  return {
    tables: [],
    analyse: () => quiet(({ session }) => publish(session, publication, tables!.split(","), whole)),
  };
}

function typeOf(name: string): Type {
  const type = typeNamed(name);
  if (!type) throw noType(name);
  return type;
}

function* create(session: Session, name: string, columns: string, isTemporary: boolean): Doing<string> {
  const { world } = session;
  session.checkWritable("CREATE TABLE");
  const isSame = (table: Table) => table.name === name && table.owner === (isTemporary ? session : undefined);
  if (world.tables.some(isSame)) throw new PgError("42P07", `relation "${name}" already exists`);
  const attributes = columns.split(",").map((column) => column.split(" ") as [string, string]);
  const table = new Table(
    { oid: world.newOid(), name, ...(isTemporary && { owner: session }) },
    attributesOf(attributes.map(([of, type]) => [of, typeOf(type)] as const)),
    world.commits,
  );
  world.addTable(table, session);
  session.write();
  yield* session.lock(`table ${table.oid}`, ACCESS_EXCLUSIVE);
  return "CREATE TABLE";
}

function addColumn(session: Session, name: string, column: string, type: Type, whole: string): string {
  const table = findTable(name, session, whole);
  session.checkWritable("ALTER TABLE", table);
  session.write();
  table.addColumn(session.transaction!, column, type);
  session.world.changed(session.transaction!);
  return "ALTER TABLE";
}

function setIdentity(session: Session, name: string, whole: string): string {
  const table = findTable(name, session, whole);
  session.write();
  table.setReplicaIdentity(session.transaction!, "f");
  return "ALTER TABLE";
}

function drop(session: Session, name: string, isOptional: boolean): string {
  const { world } = session;
  const table = world.table(name, session);
  if (table) {
    session.checkWritable("DROP TABLE", table);
    session.write();
    world.dropTable(table, session.transaction!);
  } else if (!isOptional) throw new PgError("42P01", `table "${name}" does not exist`);
  else session.notice(notice("NOTICE", "00000", `table "${name}" does not exist, skipping`));
  return "DROP TABLE";
}

function publish(session: Session, name: string, tables: readonly string[], whole: string): string {
  const { world, transaction } = session;
  const oids = tables.map((table) => findTable(table, session, whole).oid);
  session.checkWritable("CREATE PUBLICATION");
  session.write();
  const publication = world.publications.add(name, oids, world.log.end);
  transaction!.add({ undo: () => world.publications.remove(publication) });
  return "CREATE PUBLICATION";
}
