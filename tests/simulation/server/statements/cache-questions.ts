// What `pgz-edge/cache` asks a server: the moment of a query, what a statement reads, and the questions of the
// invalidator. Also the tree that the server shows of a statement, and the changes of definitions that are told: a view
// that moves to another table, and a table that joins or leaves a publication.
//
// The texts are those of js/cache, and each has its own answer here. So no fault of the SQL itself can be found:
// tests/cache runs it on real servers. Roles, settings, inheritance and a database without cache.sql are not in the
// model. Knows the answers. Must not know what is done with them.
import { ANCESTORS, BEAT, DEFINITIONS_CHANGED, HEARTBEAT, NEW_XID } from "../../../../js/cache/run.ts";
import { PUBLICATION, RELATIONS, ROUTINES, TYPES } from "../../../../js/cache/facts.ts";
import { BEGINNING, ENDING } from "../../../../js/cache/learn.ts";
import { STAMP } from "../../../../js/cache/moment.ts";
import { notice, type PgError } from "../errors.ts";
import { ACCESS_EXCLUSIVE } from "../locks.ts";
import { textOf } from "../replication/log.ts";
import type { Session } from "../session.ts";
import { SYSTEM } from "../standing.ts";
import { Table } from "../tables.ts";
import { arrayOf, bool, int4, lsn, name, text as textType, type Type, type Value } from "../values.ts";
import { findTable } from "./select.ts";
import { quiet, type Execution, type Plan, type Rows, type Statement } from "./statement.ts";

type Columns = readonly (readonly [name: string, type: Type])[];

/** A question of our own: its parameters, its columns, and its rows. */
interface Question {
  readonly takes: readonly Type[];
  readonly columns: Columns;
  readonly rows: (execution: Execution) => readonly Value[][];
}

const oids = arrayOf(int4)!;
/** `server_version_num`. */
const VERSION = 180_000;

// -- the moment -------------------------------------------------------------------------------------------------------

const MOMENT: Columns = [
  ["snapshot", textType],
  ["isStandby", bool],
  ["fingerprint", textType],
  ["timeline", textType],
  ["seesOwn", bool],
];

function momentOf(session: Session): Value[] {
  const { world, user, transaction } = session;
  const seesOwn = transaction?.xid !== undefined;
  return [world.snapshot(), world.standing.isStandby, user, timelineOf(session), seesOwn];
}

const timelineOf = ({ world, database }: Session): string => `${SYSTEM}/${world.standing.timeline}/${database}`;

// -- the catalog ------------------------------------------------------------------------------------------------------

const BOOLS = (...names: string[]): Columns => names.map((one) => [one, bool] as const);

/** Tables are ordinary ones. Each relation is a row, since each is named by the statement. */
function relations({ session: { world }, parameters: [tops, , publication] }: Execution): Value[][] {
  const { tables = new Set<number>() } = world.publications.find(publication as string) ?? {};
  return (tops as number[]).flatMap((oid) => {
    const table = world.tables.find((one) => one.oid === oid);
    if (!table) return [];
    const kind = table.of ? "v" : "r";
    return [[oid, oid, `public.${table.name}`, kind, "p", true, false, false, tables.has(oid), false]];
  });
}

/** Statements of the model call no functions and no operators. */
const QUESTIONS: Readonly<Record<string, Question>> = {
  [STAMP]: {
    takes: [],
    columns: MOMENT,
    rows: ({ session }) => [momentOf(session)],
  },
  [BEGINNING]: {
    takes: [],
    columns: [...[...MOMENT, ...BOOLS("isCitus")], ...["a", "b", "c", "d", "e"].map((one) => [one, textType] as const)],
    rows: ({ session }) => {
      session.transaction!.showsTrees = true;
      return [[...momentOf(session), false, "on", "off", "log", "off", null]];
    },
  },
  [ENDING]: {
    takes: [],
    columns: [["set_config", textType]],
    rows: ({ session }) => {
      session.transaction!.showsTrees = false;
      return [["off"]];
    },
  },
  [RELATIONS]: {
    takes: [oids, oids, name],
    columns: [
      ["top", int4],
      ["oid", int4],
      ...["name", "kind", "persistence"].map((one) => [one, textType] as const),
      ...BOOLS("isHeap", "hasPolicies", "isSystem", "isPublished", "isFiltered"),
    ],
    rows: relations,
  },
  [PUBLICATION]: {
    takes: [name],
    columns: BOOLS("insert", "update", "delete", "truncate", "viaRoot"),
    rows: ({ session, parameters: [publication] }) =>
      session.world.publications.find(publication as string) ? [[true, true, true, true, false]] : [],
  },
  [ROUTINES]: {
    takes: [oids, oids, oids],
    columns: [["oid", int4], ["name", textType], ["volatility", textType], ...BOOLS("isBuiltIn", "isWire")],
    rows: () => [],
  },
  [TYPES]: {
    takes: [oids, oids],
    columns: [
      ["oid", int4],
      ["name", textType],
      ["parts", oids],
      ["checks", arrayOf(textType)!],
      ...BOOLS("isTemporary"),
    ],
    rows: ({ parameters: [types] }) => (types as number[]).map((oid) => [oid, String(oid), [oid], [], false]),
  },

  // -- the invalidator ------------------------------------------------------------------------------------------------

  [NEW_XID]: {
    takes: [],
    columns: [
      ["xid", textType],
      ["timeline", textType],
      ["version", int4],
    ],
    rows: ({ session }) => {
      session.write();
      return [[String(session.transaction!.xid), timelineOf(session), VERSION]];
    },
  },
  [BEAT]: {
    takes: [textType],
    columns: [
      ["pg_logical_emit_message", lsn],
      ["armed", bool],
    ],
    rows: ({ session, parameters: [beat] }) => {
      emit(session, HEARTBEAT, `${beat as string} ${timelineOf(session)}`);
      return [[textOf(session.world.log.end), true]];
    },
  },
  [ANCESTORS]: {
    takes: [int4],
    columns: [
      ["ancestors", oids],
      ["snapshot", textType],
    ],
    rows: ({ session }) => [[[], session.world.snapshot()]],
  },
};

function emit(session: Session, prefix: string, content: string): void {
  session.write();
  const logged = session.world.log.message(prefix, content);
  session.transaction!.add({ ...(logged && { logged }) });
}

/** Returns the statement, or `undefined` if it is none of these. */
export function cacheQuestion(text: string, form: string): Statement | undefined {
  const question = Object.hasOwn(QUESTIONS, text) ? QUESTIONS[text] : undefined;
  return question ? asked(text, question) : (movedView(text, form) ?? alteredPublication(text, form));
}

function asked(text: string, { takes, columns, rows }: Question): Statement {
  return {
    text,
    tables: [],
    analyse: (_, parameters) => {
      takes.forEach((type, at) => parameters.use(at + 1, type));
      return {
        kind: "select",
        columns: columns.map(([column, type]) => ({ name: column, type })),
        *run(execution): Rows {
          execution.session.see();
          for (const row of rows(execution)) yield row;
          return "SELECT";
        },
      };
    },
  };
}

// -- changes of definitions ------------------------------------------------------------------------------------------

/** The event triggers of cache.sql tell of it. The view must be there already, from `addView`. */
function movedView(text: string, form: string): Statement | undefined {
  const [, view, target] = /^create or replace view (\w+) as select \* from (\w+)$/.exec(form) ?? [];
  if (!view) return undefined;
  return {
    text,
    tables: [{ name: view, mode: ACCESS_EXCLUSIVE }],
    analyse: () =>
      quiet(({ session }) => {
        const [moved, to] = [findTable(view, session, text), findTable(target!, session, text)];
        session.write();
        const before = moved.of;
        const moveTo = (table: Table | undefined) => {
          moved.of = table;
          session.world.catalogVersion++;
        };
        session.transaction!.add({ keep: () => moveTo(to), lose: () => moveTo(before) });
        emit(session, DEFINITIONS_CHANGED, "CREATE VIEW");
        return "CREATE VIEW";
      }),
  };
}

/** The table is not locked against writers. Decoders see the change from the commit's position on. */
function alteredPublication(text: string, form: string): Statement | undefined {
  const [, publication, change, name] = /^alter publication (\w+) (add|drop) table (\w+)$/.exec(form) ?? [];
  if (!publication) return undefined;
  return {
    text,
    tables: [],
    analyse: () =>
      quiet(({ session }) => {
        const { oid } = findTable(name!, session, text);
        const { publications } = session.world;
        session.write();
        let position: number | undefined;
        const put = (isMember: boolean, at: number) => publications.change(publication, oid, isMember, (position = at));
        const putBack = () => void (position !== undefined && put(change !== "add", position));
        session.transaction!.add({
          commitLogged: (at) => put(change === "add", at),
          undo: putBack,
          lose: putBack,
        });
        emit(session, DEFINITIONS_CHANGED, "ALTER PUBLICATION");
        return "ALTER PUBLICATION";
      }),
  };
}

/** Adds a view of all of a table to a server that nothing has asked yet. */
export function addView(world: Session["world"], view: string, of: Table): void {
  world.tables.push(new Table({ oid: world.newOid(), name: view, of }, of.attributes, world.commits));
}

// -- trees ------------------------------------------------------------------------------------------------------------

/** What the server says of a statement that it parses, where `debug_print_rewritten` is on. */
export function treeShown({ tables }: Statement, { columns = [] }: Plan, session: Session): PgError {
  const named = tables.map((one) => session.world.table(one.name, session)!);
  const read = named.flatMap((table) => [table, ...(table.of ? [table.of] : [])]);
  const entries = read.map(({ oid }) => `{RANGETBLENTRY :rtekind 0 :relid ${oid} :inh true}`);
  const targets = columns.map(({ name: column, type, tableOid = 0, attribute = 0 }, at) => {
    const of = `:resname ${column} :resorigtbl ${tableOid} :resorigcol ${attribute}`;
    const variable = `{VAR :varno 1 :varattno ${attribute} :vartype ${type.oid}}`;
    return `{TARGETENTRY :expr ${variable} :resno ${at + 1} ${of} :resjunk false}`;
  });
  const lists = `:rtable (${entries.join(" ")}) :targetList (${targets.join(" ")})`;
  const detail = `({QUERY :commandType 1 :hasRowSecurity false ${lists} :rowMarks <>})`;
  return notice("LOG", "00000", "rewritten parse tree:", { detail });
}
