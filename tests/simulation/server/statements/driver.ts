// The driver's own queries that are no statements of a catalogue: the guard before a first run, the composition of
// types, the settings of a scope, and the questions about a log, a process, a cluster (cluster-questions.ts) and what a
// cache needs (cache-questions.ts). The model recognises them by their text.
//
// Knows what these texts ask. Must be kept in step with js/session/first-run.ts, js/server/catalog.ts,
// js/session/citus.ts and js/changes/log-question.ts: if their texts change, the server counts an unknown
// statement, and a test reports it.
import { noColumn, noSetting } from "../errors.ts";
import type { Session } from "../session.ts";
import { textOf } from "../replication/log.ts";
import {
  bool,
  byOid,
  int4,
  json,
  lsn,
  name as nameType,
  RECORD,
  text as textType,
  typeNamed,
  type Type,
  type Value,
} from "../values.ts";
import { cacheQuestion } from "./cache-questions.ts";
import { clusterQuestion } from "./cluster-questions.ts";
import { setConfig } from "./functions.ts";
import { begin } from "./select.ts";
import type { Column, Plan, Prepared, Rows, Statement } from "./statement.ts";
import { unquoted } from "./text.ts";

const statement = (text: string, analyse: Statement["analyse"]): Statement => ({ text, tables: [], analyse });

/** Returns the statement, or `undefined` if the text is not the driver's. `form`: as the catalogue writes it. */
export function driversOwn(text: string, form: string): Statement | undefined {
  if (text.startsWith("select pg_catalog.current_setting(pg_catalog.concat('pgz-edge: ',why))from("))
    return check(text);
  if (text.startsWith("select pg_catalog.pg_is_in_recovery(), pg_catalog.to_char(")) return log(text);
  if (text.startsWith("select pg_catalog.pg_is_in_recovery() as") && text.includes(' as "isAtWork"')) return work(text);
  if (text.startsWith("with recursive ranges as (")) return catalog(text);
  if (text.startsWith("select pg_catalog.json_object_agg(name, pg_catalog.to_regtype(name)")) return names(text);
  const settings = SCOPE.exec(form)?.[1];
  if (settings) return scope(text, settings);
  return clusterQuestion(text, form) ?? cacheQuestion(text, form);
}

// -- the settings of a scope ------------------------------------------------------------------------------------------

/** Nothing of this is true on PostgreSQL, so it returns no row. Citus fails at its version. */
const SCOPE =
  /^select where ((?:set_config\(e'(?:[^'\\]|''|\\[^])*',e'(?:[^'\\]|''|\\[^])*',true\) is null or )+)textcat\('pgz_citus ',current_setting\('citus\.version',true\)\)::int is not null$/;

function scope(text: string, settings: string): Statement {
  const all = [...settings.matchAll(/set_config\((e'(?:[^'\\]|''|\\[^])*'),(e'(?:[^'\\]|''|\\[^])*'),true\)/g)];
  return statement(text, () => ({
    kind: "select",
    columns: [],
    *run({ session }): Rows {
      yield* begin(session);
      for (const [, name, value] of all) setConfig(session, unquoted(name!), unquoted(value!), true);
      return "SELECT";
    },
  }));
}

// -- the guard --------------------------------------------------------------------------------------------------------

const SETTINGS = /current_setting\('(\w+)'\)/g;
const GOOD = /where why operator\(pg_catalog\.!~\)'((?:[^'])*)'$/;
const KNOWN = / and b operator\(pg_catalog\.<>\)all\('\{([\d,]+)\}'/;
const RULES = /array\[((?:p\[\d+\],?)+)\]operator\(pg_catalog\.(&&|<@)\)'\{([\d,]*)\}'/g;

function check(text: string): Statement {
  const settings = [...text.matchAll(SETTINGS)].map(([, name]) => name!);
  const good = new RegExp(GOOD.exec(text)?.[1] ?? "$^");
  const rules = [...text.matchAll(RULES)].map(([, parameters, operator, list]) => ({
    isNot: operator === "&&",
    types: list!.split(",").map(Number),
    parameters: parameters!.match(/\d+/g)!.map(Number),
  }));
  const asksTypes = text.includes("select 'types'from");
  const asksColumns = text.includes(",result_types r from");
  const known = new Set((KNOWN.exec(text)?.[1] ?? "").split(",").map(Number));
  const anySize = !text.includes("and typlen operator(pg_catalog.<)0");
  return statement(text, ({ world }: Session): Plan => {
    if (asksColumns && world.around.version < 16) throw noColumn("result_types", text.indexOf("result_types"));
    return {
      kind: "select",
      columns: [{ name: "current_setting", type: textType }],
      // eslint-disable-next-line require-yield
      *run({ session }): Rows {
        session.see();
        const reasons = [`settings ${settings.map((name) => session.settings.get(name)).join("")}`];
        const isReadable = (one: Prepared) => !asksColumns || (one.plan?.columns ?? []).every(isKnown);
        const isKnown = ({ type: { oid, size } }: Column) =>
          !((oid >= 16_384 || oid === RECORD) && !known.has(oid) && (anySize || size < 0));
        const found = preparedNow(session);
        const isGood = found.length > 0 && found.every((one) => isReadable(one) && fits(one, rules));
        if (asksTypes && !isGood) reasons.push("types");
        for (const why of reasons) if (!good.test(why)) throw noSetting(`pgz-edge: ${why}`);
        return "SELECT";
      },
    };
  });
}

interface TypeRule {
  readonly isNot: boolean;
  readonly types: readonly number[];
  readonly parameters: readonly number[];
}

/** What this transaction has prepared: the statement, and the check itself if it has a name. */
function preparedNow({ prepared, transaction }: Session): Prepared[] {
  return [...prepared.values()].filter(({ name, preparedAt }) => name !== "" && preparedAt >= transaction!.startedAt);
}

function fits({ parameters }: Prepared, rules: readonly TypeRule[]): boolean {
  const isIn = (types: readonly number[], number: number) => types.includes(parameters[number - 1]?.oid ?? 0);
  return rules.every(({ isNot, types, parameters: numbers }) =>
    isNot ? !numbers.some((one) => isIn(types, one)) : !parameters.length || numbers.every((one) => isIn(types, one)),
  );
}

// -- the question before changes --------------------------------------------------------------------------------------

function log(text: string): Statement {
  const [, slotName] = /operator\(pg_catalog\.=\) '([^']*)'::pg_catalog\.name$/.exec(text) ?? [];
  const publications = [...text.matchAll(/\('([^']*)'::pg_catalog\.name\)/g)].map(([, name]) => name!);
  const columns = [
    { name: "pg_is_in_recovery", type: bool },
    { name: "date_part", type: textType },
    { name: "confirmed_flush_lsn", type: lsn },
    { name: "active", type: bool },
    { name: "pubname", type: nameType },
    { name: "pg_backend_pid", type: int4 },
  ];
  return statement(text, () => ({
    kind: "select",
    columns,
    *run({ session }): Rows {
      session.see();
      const { world } = session;
      const slot = world.slots.all.find(({ name }) => name === slotName);
      const confirmed = slot && !slot.isBeingMade ? textOf(slot.confirmed) : null;
      const missing = publications.find((name) => !world.publications.find(name)) ?? null;
      const isActive = slot ? slot.processId !== undefined : null;
      yield [world.standing.isStandby, "the start", confirmed, isActive, missing, session.processId];
      return "SELECT";
    },
  }));
}

function work(text: string): Statement {
  const processId = Number(/a\.pid operator\(pg_catalog\.=\) (\d+)/.exec(text)![1]);
  const columns = [
    { name: "isStandby", type: bool },
    { name: "instance", type: textType },
    { name: "isAtWork", type: bool },
  ];
  return statement(text, () => ({
    kind: "select",
    columns,
    *run({ session }): Rows {
      const { around, standing } = session.world;
      const sessions = around.sessions();
      yield [
        standing.isStandby,
        "the start",
        sessions.some((it) => it.processId === processId && it.state === "active"),
      ];
      return "SELECT";
    },
  }));
}

// -- types ------------------------------------------------------------------------------------------------------------

function catalog(text: string): Statement {
  const oids = (/select pg_catalog\.unnest\(array\[([\d,]*)\]/.exec(text)?.[1] ?? "")
    .split(",")
    .filter(Boolean)
    .map(Number);
  const everything = text.includes("unnest(array[oid, typarray])") ? [...byOid.keys()] : [];
  return oneJson(text, "json_agg", () => {
    const reached: Type[] = [];
    const reach = (oid: number): void => {
      const type = byOid.get(oid);
      if (!type || reached.includes(type)) return;
      reached.push(type);
      for (const part of partsOf(type)) if (part >= 16_384) reach(part);
    };
    for (const oid of oids) reach(oid);
    for (const oid of everything) if (oid >= 16_384) reach(oid);
    return reached.length ? `[${reached.map(rowOf).join(", ")}]` : null;
  });
}

function partsOf({ element, attributes }: Type): number[] {
  if (attributes) return attributes.map(({ type }) => type.oid);
  return [element?.oid ?? 0];
}

function rowOf(type: Type): string {
  const how = type.element ? "A" : type.attributes ? "c" : type.isEnum ? "e" : null;
  const name = type.element ? `_${type.element.name}` : type.name;
  const names = (type.attributes ?? []).map((it) => it.name);
  return JSON.stringify([type.oid, how, name, partsOf(type), names])
    .replaceAll(",", ", ")
    .replace(/\]$/, ', ","]');
}

function names(text: string): Statement {
  const asked = JSON.parse(/\$\$(.*)\$\$/s.exec(text)?.[1] ?? "[]") as string[];
  return oneJson(text, "json_object_agg", () => {
    const found = asked.map((name) => `${JSON.stringify(name)} : ${typeNamed(name)?.oid ?? null}`);
    return found.length ? `{ ${found.join(", ")} }` : null;
  });
}

function oneJson(text: string, name: string, value: () => Value): Statement {
  return statement(text, () => ({
    kind: "select",
    columns: [{ name, type: json }],
    *run({ session }): Rows {
      session.see();
      yield [value()];
      return "SELECT";
    },
  }));
}
