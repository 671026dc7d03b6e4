// COPY … FROM STDIN and COPY … TO STDOUT.
//
// Knows COPY's conversation: CopyInResponse, data, CopyDone or CopyFail; CopyOutResponse, data, CopyDone.
// copy-formats.ts knows the formats of the data.
import { noTable, PgError } from "../errors.ts";
import { ACCESS_SHARE, ROW_EXCLUSIVE } from "../locks.ts";
import { copyData, copyDone, copyResponse, textOf } from "../messages.ts";
import type { Wait } from "../process.ts";
import type { Session } from "../session.ts";
import type { Attribute, Table } from "../tables.ts";
import type { TokenReader } from "../tokens.ts";
import { encode, type Value } from "../values.ts";
import {
  NO_SIGNATURE,
  binaryHeader,
  binaryTrailer,
  binaryTuple,
  rowReader,
  textLine,
  type CopyOptions,
  type Row,
} from "./copy-formats.ts";
import { columnsOf, lockedTables, parseQuery, planOf, type Query } from "./select.ts";
import { ParameterTypes, quiet, type Column, type Plan, type Statement } from "./statement.ts";

interface Copied {
  readonly name: string;
  readonly at: number;
  readonly columns: readonly string[] | undefined;
}

export function parseCopy(reader: TokenReader, text: string): Statement {
  reader.expect("copy");
  if (reader.accept("(")) {
    const query = parseQuery(reader);
    reader.expect(")", "to", "stdout");
    const options = parseOptions(reader);
    return { text, tables: lockedTables(query), analyse: (session) => copyQuery(query, options, session) };
  }
  const { at } = reader.token;
  let name = reader.name();
  if (reader.accept(".")) name = reader.name();
  let columns: string[] | undefined;
  if (reader.accept("(")) {
    columns = reader.list(() => reader.name());
    reader.expect(")");
  }
  const copied: Copied = { name, at, columns };
  const isIn = reader.accept("from");
  if (!isIn) reader.expect("to");
  reader.expect(isIn ? "stdin" : "stdout");
  const options = parseOptions(reader);
  return {
    text,
    tables: [],
    analyse: () =>
      quiet(({ session }) => (isIn ? copyIn(session, copied, options) : copyTable(session, copied, options))),
  };
}

function parseOptions(reader: TokenReader): CopyOptions {
  const given: Record<string, string> = {};
  reader.accept("with");
  if (reader.accept("(")) {
    reader.list(() => {
      const name = reader.name();
      const isAlone = reader.is(",") || reader.is(")");
      given[name] = isAlone ? "true" : reader.token.kind === "string" ? reader.string() : reader.name();
    });
    reader.expect(")");
  } else
    for (;;) {
      if (reader.isOneOf("csv", "binary", "text")) given.format = reader.name();
      else if (reader.accept("header")) given.header = "true";
      else if (reader.isOneOf("null", "delimiter")) {
        const name = reader.name();
        reader.accept("as");
        given[name] = reader.string();
      } else break;
    }
  const format = (given.format ?? "text") as CopyOptions["format"];
  if (!["text", "csv", "binary"].includes(format)) throw new PgError("22023", `COPY format "${format}" not recognized`);
  return {
    format,
    delimiter: given.delimiter ?? (format === "csv" ? "," : "\t"),
    nullText: given.null ?? (format === "csv" ? "" : "\\N"),
    hasHeader: given.header !== undefined && /^(true|on|1|match)$/.test(given.header),
  };
}

function* openTable(session: Session, { name, at, columns }: Copied, mode: number) {
  const first = session.world.table(name, session);
  if (first) yield* session.lock(`table ${first.oid}`, mode);
  const table = session.world.table(name, session);
  if (!table) throw noTable(name, at === undefined ? undefined : undefined);
  const attributes = columns?.map((column) => attributeOf(table, column)) ?? table.attributes;
  return { table, attributes };
}

function attributeOf(table: Table, column: string): Attribute {
  const found = table.attributes.find(({ name }) => name === column);
  if (!found) throw new PgError("42703", `column "${column}" of relation "${table.name}" does not exist`);
  return found;
}

// -- in ---------------------------------------------------------------------------------------------------------------

function* copyIn(session: Session, copied: Copied, options: CopyOptions): Generator<Wait, string, void> {
  const { table, attributes } = yield* openTable(session, copied, ROW_EXCLUSIVE);
  session.checkWritable("COPY FROM", table);
  session.see();
  session.write();
  const { client } = session;
  client.send(copyResponse("G", options.format === "binary" ? 1 : 0, attributes.length));
  client.flush();
  const reader = rowReader(options);
  let count = 0;
  let place = `COPY ${table.name}, line 1`;
  const store = (rows: readonly Row[]) => {
    for (const row of rows) {
      table.insert(session.transaction!, valuesOf(row, table, attributes, options, session));
      count++;
      place = `COPY ${table.name}, line ${row.line}${options.format === "binary" ? "" : `: "${row.text}"`}`;
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
  { format }: CopyOptions,
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

function copyQuery(query: Query, options: CopyOptions, session: Session): Plan {
  const plan = planOf(query, session, new ParameterTypes());
  return quiet(({ session: runner }) =>
    copyOut(runner, plan.columns!, options, () => plan.run({ session: runner, parameters: [] })),
  );
}

function* copyTable(session: Session, copied: Copied, options: CopyOptions): Generator<Wait, string, void> {
  const { table, attributes } = yield* openTable(session, copied, ACCESS_SHARE);
  session.see();
  const columns = columnsOf(table).filter(({ attribute }) => attributes.some(({ number }) => number === attribute));
  const numbers = attributes.map(({ number }) => number - 1);
  return yield* copyOut(session, columns, options, function* () {
    for (const { values } of table.visible(session.transaction)) yield numbers.map((at) => values[at] ?? null);
    return "";
  });
}

function* copyOut(
  session: Session,
  columns: readonly Column[],
  options: CopyOptions,
  open: () => Generator<Wait | Value[], string, void>,
): Generator<Wait, string, void> {
  const { client, forms } = session;
  const isBinary = options.format === "binary";
  client.send(copyResponse("H", isBinary ? 1 : 0, columns.length));
  if (options.hasHeader)
    client.send(
      copyData(
        textLine(
          columns.map(({ name }) => name),
          options,
        ),
      ),
    );
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
    else
      send(
        textLine(
          row.map((value, at) => (value === null ? null : columns[at]!.type.print(value, forms))),
          options,
        ),
      );
    if (count % 64 === 0) yield* pause(session);
  }
  if (isBinary) send(binaryTrailer());
  client.send(copyDone());
  return `COPY ${count}`;
}

function* pause({ clock }: Session): Generator<Wait, void, void> {
  yield {
    kind: "running",
    begin: (wake) => {
      const timer = clock.after(0.1, wake);
      return () => timer.cancel();
    },
  };
}
