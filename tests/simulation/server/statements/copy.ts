// COPY … FROM STDIN and COPY … TO STDOUT.
//
// Knows COPY's conversation: CopyInResponse, data, CopyDone or CopyFail; CopyOutResponse, data, CopyDone.
// copy-formats.ts knows the formats of the data.
import { noTable, PgError } from "../errors.ts";
import { ACCESS_SHARE, ROW_EXCLUSIVE } from "../locks.ts";
import { copyData, copyDone, copyResponse, textOf } from "../messages.ts";
import { sleep, type Doing } from "../process.ts";
import type { Session } from "../session.ts";
import type { Attribute, Table } from "../tables.ts";
import { encode, type Value } from "../values.ts";
import {
  NO_SIGNATURE,
  binaryHeader,
  binaryTrailer,
  binaryTuple,
  rowReader,
  textLine,
  type CopyFormat,
  type Row,
} from "./copy-formats.ts";
import { columnsOf, planOf, readSelect, type Query } from "./select.ts";
import { ParameterTypes, quiet, type Column, type Plan, type Rows, type Statement } from "./statement.ts";
import { bare, Unknown } from "./text.ts";

interface Copied {
  readonly name: string;
  readonly columns: readonly string[] | undefined;
}

/** `copy t (a,b) from stdin (format binary)`, `copy t to stdout`, `copy (select …) to stdout`. */
export function readCopy(text: string, whole: string): Omit<Statement, "text"> {
  const [, queried, format] = /^copy \((.+)\) to stdout(?: \(format (\w+)\))?$/s.exec(text) ?? [];
  if (queried) {
    const query = readSelect(queried, whole);
    const known = formatOf(format);
    return { tables: query.tables, analyse: (session) => copyQuery(query, known, session) };
  }
  const found = /^copy ([\w.]+)(?: \(([\w,]+)\))? (from stdin|to stdout)(?: \(format (\w+)\))?$/.exec(text);
  if (!found) throw new Unknown();
  const [, name, columns, way, given] = found;
  const copied: Copied = { name: bare(name!), columns: columns?.split(",") };
  const copy = way === "from stdin" ? copyIn : copyTable;
  const known = formatOf(given);
  return { tables: [], analyse: () => quiet(({ session }) => copy(session, copied, known)) };
}

function formatOf(name = "text"): CopyFormat {
  if (name !== "text" && name !== "binary") throw new Unknown();
  return name;
}

function* openTable(session: Session, { name, columns }: Copied, mode: number) {
  const first = session.world.table(name, session);
  if (first) yield* session.lock(`table ${first.oid}`, mode);
  const table = session.world.table(name, session);
  if (!table) throw noTable(name);
  const attributes = columns?.map((column) => attributeOf(table, column)) ?? table.attributes;
  return { table, attributes };
}

function attributeOf(table: Table, column: string): Attribute {
  const found = table.attributes.find(({ name }) => name === column);
  if (!found) throw new PgError("42703", `column "${column}" of relation "${table.name}" does not exist`);
  return found;
}

// -- in ---------------------------------------------------------------------------------------------------------------

function* copyIn(session: Session, copied: Copied, format: CopyFormat): Doing<string> {
  const { table, attributes } = yield* openTable(session, copied, ROW_EXCLUSIVE);
  session.checkWritable("COPY FROM", table);
  session.see();
  session.write();
  const { client } = session;
  client.send(copyResponse("G", format === "binary" ? 1 : 0, attributes.length));
  client.flush();
  const reader = rowReader(format);
  let count = 0;
  let place = `COPY ${table.name}, line 1`;
  const store = (rows: readonly Row[]) => {
    for (const row of rows) {
      table.insert(session.transaction!, valuesOf(row, table, attributes, format, session));
      count++;
      place = `COPY ${table.name}, line ${row.line}${format === "binary" ? "" : `: "${row.text}"`}`;
      client.checkInterrupts();
      place = `COPY ${table.name}, line ${row.line + 1}`;
    }
  };
  try {
    for (;;) {
      const { letter, body } = yield* client.copyMessage();
      if (letter === "d") store(reader.push(body));
      else if (letter === "c") break;
      else throw new PgError("57014", `COPY from stdin failed: ${textOf(body.subarray(0, body.indexOf(0)))}`);
    }
    store(reader.end());
    client.checkInterrupts();
  } catch (error) {
    // Every error reports its place in the data.
    if (error instanceof PgError && error.fields.message !== NO_SIGNATURE) error.fields.where ??= place;
    throw error;
  }
  return `COPY ${count}`;
}

function valuesOf(
  { fields, line, text }: Row,
  table: Table,
  attributes: readonly Attribute[],
  format: CopyFormat,
  session: Session,
): Value[] {
  const place = `COPY ${table.name}, line ${line}`;
  const lineOf = format === "binary" ? place : `${place}: "${text}"`;
  if (format === "binary" && fields.length !== attributes.length)
    throw new PgError("22P04", `row field count is ${fields.length}, expected ${attributes.length}`, { where: place });
  if (fields.length > attributes.length)
    throw new PgError("22P04", "extra data after last expected column", { where: lineOf });
  const values: Value[] = table.attributes.map(() => null);
  attributes.forEach(({ name, type, number }, at) => {
    const field = fields[at];
    if (field === undefined) throw new PgError("22P04", `missing data for column "${name}"`, { where: lineOf });
    try {
      const parsed =
        field === null ? null : typeof field === "string" ? type.parse(field, session.forms) : type.receive(field);
      values[number - 1] = parsed;
    } catch (error) {
      if (error instanceof PgError)
        error.fields.where = `${place}, column ${name}${typeof field === "string" ? `: "${field}"` : ""}`;
      throw error;
    }
  });
  return values;
}

// -- out --------------------------------------------------------------------------------------------------------------

function copyQuery(query: Query, format: CopyFormat, session: Session): Plan {
  const plan = planOf(query, session, new ParameterTypes());
  return quiet(({ session: runner }) =>
    copyOut(runner, plan.columns!, format, () => plan.run({ session: runner, parameters: [] })),
  );
}

function* copyTable(session: Session, copied: Copied, format: CopyFormat): Doing<string> {
  const { table } = yield* openTable(session, copied, ACCESS_SHARE);
  session.see();
  return yield* copyOut(session, columnsOf(table), format, function* () {
    for (const { values } of table.visible(session.transaction)) yield values;
    return "";
  });
}

function* copyOut(session: Session, columns: readonly Column[], format: CopyFormat, open: () => Rows): Doing<string> {
  const { client, forms } = session;
  const isBinary = format === "binary";
  client.send(copyResponse("H", isBinary ? 1 : 0, columns.length));
  // The header leaves with the first row, or with the trailer.
  let header = isBinary ? binaryHeader() : new Uint8Array();
  let count = 0;
  const send = (data: Uint8Array) => {
    client.send(copyData(header.length ? Uint8Array.from([...header, ...data]) : data));
    header = new Uint8Array();
  };
  for (const row of open()) {
    if (!Array.isArray(row)) {
      yield row;
      continue;
    }
    count++;
    if (isBinary) send(binaryTuple(row.map((value, at) => encode(columns[at]!.type, value, 1, forms))));
    else send(textLine(row.map((value, at) => (value === null ? null : columns[at]!.type.print(value, forms)))));
    if (count % 64 === 0) yield* sleep(session.clock, 0.1);
  }
  if (isBinary) send(binaryTrailer());
  client.send(copyDone());
  return `COPY ${count}`;
}
