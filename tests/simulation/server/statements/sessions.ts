// What a session keeps besides settings: LISTEN, prepared statements of SQL, DISCARD; and DO, which sends a notice.
//
// Knows their syntax. Cursors are in cursors.ts.
import { noPreparedStatement, notice, notInBlocks, PgError, preparedStatementExists } from "../errors.ts";
import type { Session } from "../session.ts";
import type { TokenReader } from "../tokens.ts";
import type { Type } from "../values.ts";
import { coerced, Scope } from "./expressions.ts";
import { findType, parseExpression, parseTypeName, type Node } from "./syntax.ts";
import { ParameterTypes, quiet, type Plan, type Prepared, type Rows, type Statement } from "./statement.ts";

const plain = (text: string, plan: Parameters<typeof quiet>[0]): Statement => ({
  text,
  tables: [],
  analyse: () => quiet(plan),
});

// -- LISTEN and NOTIFY ------------------------------------------------------------------------------------------------

export function parseListen(reader: TokenReader, text: string): Statement {
  reader.expect("listen");
  const channel = reader.name();
  return plain(text, ({ session }) => {
    session.checkNotRecovering("LISTEN");
    session.listen(channel);
    return "LISTEN";
  });
}

export function parseUnlisten(reader: TokenReader, text: string): Statement {
  reader.expect("unlisten");
  const channel = reader.accept("*") ? undefined : reader.name();
  return plain(text, ({ session }) => (session.unlisten(channel), "UNLISTEN"));
}

export function parseNotify(reader: TokenReader, text: string): Statement {
  reader.expect("notify");
  const channel = reader.name();
  const payload = reader.accept(",") ? reader.string() : "";
  return plain(text, ({ session }) => {
    session.checkNotRecovering("NOTIFY");
    session.notify(channel, payload);
    return "NOTIFY";
  });
}

// -- DISCARD ----------------------------------------------------------------------------------------------------------

export function parseDiscard(reader: TokenReader, text: string): Statement {
  reader.expect("discard");
  const what = reader.accept("temporary") ? "temp" : reader.name();
  if (!["all", "temp", "plans", "sequences"].includes(what)) throw reader.wrong();
  return plain(text, ({ session }) => {
    if (what === "all") discardAll(session);
    if (what === "temp") dropTemporary(session);
    return `DISCARD ${what.toUpperCase()}`;
  });
}

function discardAll(session: Session): void {
  if (session.state !== "started") throw notInBlocks("DISCARD ALL");
  if (session.isPipelining) throw new PgError("25001", "DISCARD ALL cannot be executed within a pipeline");
  const { settings, transaction } = session;
  for (const [name, portal] of session.portals) if (portal.isCursor) session.portals.delete(name);
  settings.set(transaction, "session_authorization", session.user);
  settings.set(transaction, "role", "none");
  settings.resetAll(transaction);
  session.prepared.clear();
  session.unlisten(undefined);
  session.locks.releaseAll(session, "advisory ");
  dropTemporary(session);
}

function dropTemporary(session: Session): void {
  for (const table of session.world.temporaryOf(session)) session.world.dropTable(table, session.transaction!);
}

// -- PREPARE, EXECUTE and DEALLOCATE ----------------------------------------------------------------------------------

export function parsePrepare(reader: TokenReader, text: string, parse: (reader: TokenReader) => Statement): Statement {
  reader.expect("prepare");
  const name = reader.name();
  let typeNames: { name: string; at: number }[] = [];
  if (reader.accept("(")) {
    typeNames = reader.list(() => ({ at: reader.token.at, name: parseTypeName(reader) }));
    reader.expect(")");
  }
  reader.expect("as");
  const statement = parse(reader);
  return plain(text, ({ session }) => {
    const given = typeNames.map((it) => findType(it.name, it.at));
    const types = new ParameterTypes(given);
    const plan = statement.analyse(session, types);
    if (session.prepared.has(name)) throw preparedStatementExists(name);
    session.prepared.set(name, {
      name,
      text,
      statement,
      parameters: types.all(),
      plan,
      analysedFor: session.catalogKey,
      isFromSql: true,
      preparedAt: session.transaction!.startedAt,
      constants: types.constants,
      uses: 0,
    });
    return "PREPARE";
  });
}

export function parseExecute(reader: TokenReader, text: string): Statement {
  reader.expect("execute");
  const name = reader.name();
  let args: Node[] = [];
  if (reader.accept("(")) {
    args = reader.is(")") ? [] : reader.list(() => parseExpression(reader));
    reader.expect(")");
  }
  return { text, tables: [], analyse: (session) => executePlan(name, args, session) };
}

function executePlan(name: string, args: readonly Node[], session: Session): Plan {
  const prepared = session.prepared.get(name);
  if (!prepared?.plan) throw noPreparedStatement(name);
  session.refresh(prepared);
  const { plan, parameters } = prepared;
  if (args.length !== parameters.length) return { kind: "none", columns: undefined, run: wrongCount };
  // eslint-disable-next-line require-yield
  function* wrongCount(): Rows {
    return checkCount(name, args.length, parameters.length);
  }
  return {
    kind: plan.kind === "none" ? "none" : plan.kind === "select" ? "select" : "utility",
    columns: plan.columns,
    *run(execution): Rows {
      const scope = new Scope(execution.session, new ParameterTypes(), []);
      const context = { ...execution, rows: [], waited: new Map<object, never>() };
      const values = args.map((arg, at) => coerced(arg, scope, parameters[at] as Type).evaluate(context));
      return yield* plan.run({ session: execution.session, parameters: values });
    },
  };
}

function checkCount(name: string, given: number, expected: number): never {
  throw new PgError("42601", `wrong number of parameters for prepared statement "${name}"`, {
    detail: `Expected ${expected} parameters but got ${given}.`,
  });
}

export function parseDeallocate(reader: TokenReader, text: string): Statement {
  reader.expect("deallocate");
  reader.accept("prepare");
  if (reader.accept("all"))
    return plain(text, ({ session }) => {
      for (const [name] of session.prepared) if (name !== "") session.prepared.delete(name);
      return "DEALLOCATE ALL";
    });
  const name = reader.name();
  return plain(text, ({ session }) => {
    if (!session.prepared.delete(name)) throw noPreparedStatement(name);
    return "DEALLOCATE";
  });
}

export type { Prepared };

// -- DO ---------------------------------------------------------------------------------------------------------------

/** `do $$ begin raise notice 'x'; end $$`. The model knows only RAISE. */
export function parseDo(reader: TokenReader, text: string): Statement {
  reader.expect("do");
  const at = reader.token.at;
  const body = reader.string();
  const raises = [...body.matchAll(RAISE)];
  if (!raises.length) throw reader.wrong({ kind: "string", text: body, raw: body, at });
  return plain(text, ({ session }) => {
    raises.forEach((found) => raise(session, found, body));
    return "DO";
  });
}

const RAISE = /raise\s+(debug|log|info|notice|warning|exception)\s+'((?:[^']|'')*)'(?:\s+using\s+([^;]*))?\s*;/gi;
const OPTION = /(\w+)\s*=\s*'((?:[^']|'')*)'/g;

function raise(session: Session, [, level, message, options = ""]: RegExpMatchArray, body: string): void {
  const severity = level!.toLowerCase() === "exception" ? "ERROR" : level!.toUpperCase();
  const code = { ERROR: "P0001", WARNING: "01000" }[severity] ?? "00000";
  const given = Object.fromEntries(
    [...options.matchAll(OPTION)].map(([, key, value]) => [key!.toLowerCase(), unquoted(value!)]),
  );
  const line = 1 + body.slice(0, body.search(/raise/i)).split("\n").length - 1;
  const more = {
    ...(given.detail !== undefined && { detail: given.detail }),
    ...(given.hint !== undefined && { hint: given.hint }),
    where: `PL/pgSQL function inline_code_block line ${line} at RAISE`,
    ...(given.column !== undefined && { column: given.column }),
    ...(given.constraint !== undefined && { constraint: given.constraint }),
    ...(given.datatype !== undefined && { dataType: given.datatype }),
    ...(given.table !== undefined && { table: given.table }),
    ...(given.schema !== undefined && { schema: given.schema }),
  };
  if (severity === "ERROR") throw new PgError(given.errcode ?? code, unquoted(message!), more);
  session.notice(notice(severity as "NOTICE", given.errcode ?? code, unquoted(message!), more));
}

function unquoted(text: string): string {
  return text.replaceAll("''", "'");
}
