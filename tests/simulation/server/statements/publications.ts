// CREATE PUBLICATION … FOR TABLE, DROP PUBLICATION.
//
// Knows their syntax. replication/ knows the purpose of a publication.
import { noTable, notice, PgError } from "../errors.ts";
import type { Session } from "../session.ts";
import type { TokenReader } from "../tokens.ts";
import { quiet, type Statement } from "./statement.ts";

export function parseCreatePublication(reader: TokenReader, text: string): Statement {
  reader.expect("publication");
  const name = reader.name();
  const tables = reader.accept("for", "table") ? reader.list(() => parseTable(reader)) : [];
  return { text, tables: [], analyse: () => quiet(({ session }) => create(name, tables, session)) };
}

interface Named {
  readonly name: string;
  readonly at: number;
}

function parseTable(reader: TokenReader): Named {
  reader.accept("table");
  reader.accept("only");
  const { at } = reader.token;
  const name = reader.name();
  return { name: reader.accept(".") ? reader.name() : name, at };
}

function create(name: string, named: readonly Named[], session: Session): string {
  const { world, transaction } = session;
  if (world.publications.find(name)) throw new PgError("42710", `publication "${name}" already exists`);
  const tables = named.map((one) => {
    const table = world.table(one.name, session);
    if (!table) throw noTable(one.name);
    return table.oid;
  });
  session.checkWritable("CREATE PUBLICATION");
  session.write();
  const publication = world.publications.add(name, tables, world.log.end);
  transaction!.add({ undo: () => world.publications.remove(publication) });
  return "CREATE PUBLICATION";
}

export function parseDropPublication(reader: TokenReader, text: string): Statement {
  reader.expect("publication");
  const isOptional = reader.accept("if", "exists");
  const names = reader.list(() => reader.name());
  return {
    text,
    tables: [],
    analyse: () =>
      quiet(({ session }) => {
        for (const name of names) drop(name, isOptional, session);
        return "DROP PUBLICATION";
      }),
  };
}

function drop(name: string, isOptional: boolean, session: Session): void {
  const { world, transaction } = session;
  const publication = world.publications.find(name);
  if (!publication) {
    if (!isOptional) throw new PgError("42704", `publication "${name}" does not exist`);
    return session.notice(notice("NOTICE", "00000", `publication "${name}" does not exist, skipping`));
  }
  session.write();
  publication.until = world.log.end;
  transaction!.add({ undo: () => void (publication.until = Infinity) });
}
