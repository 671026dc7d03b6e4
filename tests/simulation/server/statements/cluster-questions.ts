// What `pgz-edge/cluster` asks a server, and the guards that it sends before a statement.
//
// Must be kept in step with js/cluster/questions.ts: a text that is not exactly one of these is unknown to the
// model. Knows the answers. Must not know what the driver does with them.
import { invalidText, whileRecovering } from "../errors.ts";
import { insertPosition, logFileName, positionOf, textOf } from "../replication/log.ts";
import type { Session } from "../session.ts";
import { SYSTEM } from "../standing.ts";
import { bool, int4, text as textType, type Type, type Value } from "../values.ts";
import { begin } from "./select.ts";
import { shown } from "./set-setting.ts";
import type { Rows, Statement } from "./statement.ts";

const SYSTEM_SQL = "(select system_identifier from pg_control_system())";
const STANDBY_TIMELINE =
  "greatest((select timeline_id from pg_control_checkpoint())," +
  "(select min_recovery_end_timeline from pg_control_recovery()),(select received_tli from pg_stat_wal_receiver))";
const FILE = "pg_walfile_name(pg_current_wal_insert_lsn())";

function inserted({ world }: Session): number {
  if (world.standing.isStandby) throw whileRecovering("WAL control functions cannot be executed during recovery.");
  return insertPosition(world.log.end);
}

const fileOf = (session: Session): string => logFileName(session.world.standing.timeline, inserted(session));

function timelineOfStandby({ world: { standing } }: Session): number {
  const received = standing.showsReceiver ? (standing.receives ?? 0) : 0;
  return Math.max(standing.restartTimeline, received);
}

type Columns = readonly (readonly [name: string, type: Type])[];

/** The questions, their columns, and their answers. */
const QUESTIONS: Readonly<Record<string, readonly [columns: Columns, answer: (session: Session) => Value[]]>> = {
  [`select pg_is_in_recovery(),case when pg_is_in_recovery() then pg_last_wal_replay_lsn() ` +
  `else pg_current_wal_insert_lsn() end::text,${SYSTEM_SQL}::text,` +
  `case when pg_is_in_recovery() then ${STANDBY_TIMELINE} end,case when not pg_is_in_recovery() then ${FILE} end,` +
  "current_setting('wal_block_size')"]: [
    [
      ["pg_is_in_recovery", bool],
      ["pg_current_wal_insert_lsn", textType],
      ["system_identifier", textType],
      ["case", int4],
      ["case", textType],
      ["current_setting", textType],
    ],
    (session) => {
      const { standing, log } = session.world;
      const [timeline, file] = standing.isStandby ? [timelineOfStandby(session), null] : [null, fileOf(session)];
      const position = textOf(standing.isStandby ? log.end : inserted(session));
      return [standing.isStandby, position, String(SYSTEM), timeline, file, shown(session, "wal_block_size")];
    },
  ],
  [`select ${SYSTEM_SQL}::text,${FILE},pg_current_wal_insert_lsn()::text,current_setting('wal_block_size')`]: [
    [
      ["system_identifier", textType],
      ["pg_walfile_name", textType],
      ["pg_current_wal_insert_lsn", textType],
      ["current_setting", textType],
    ],
    (session) => [String(SYSTEM), fileOf(session), textOf(inserted(session)), shown(session, "wal_block_size")],
  ],
  "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() end::text": [
    [["case", textType]],
    ({ world }) => [world.standing.isStandby ? textOf(world.log.end) : null],
  ],
};

// -- guards -----------------------------------------------------------------------------------------------------------

/** Why a guard fails, as a text that is no pg_lsn. `undefined`: it holds. */
type Check = (session: Session) => string | undefined;

/** Each `when … then …` of a guard, and when it applies. The groups are a system, timelines and a position. */
const CHECKS: readonly (readonly [when: string, applies: (session: Session, given: readonly string[]) => boolean])[] = [
  ["when pg_is_in_recovery() then 'pgz-edge:role'", ({ world }) => world.standing.isStandby],
  ["when not pg_is_in_recovery() then 'pgz-edge:role'", ({ world }) => !world.standing.isStandby],
  [
    "when current_setting('transaction_isolation') operator(<>)all(array['read committed','read uncommitted']) " +
      "then 'pgz-edge:isolation'",
    (session) => !shown(session, "transaction_isolation").startsWith("read "),
  ],
  [`when ${SYSTEM_SQL} operator(<>)'#' then 'pgz-edge:unknown'`, (_, [system]) => String(SYSTEM) !== system],
  [
    `when ${STANDBY_TIMELINE} operator(<>)# then 'pgz-edge:unknown'`,
    (session, [timeline]) => timelineOfStandby(session) !== Number(timeline),
  ],
  [
    "when coalesce(pg_last_wal_replay_lsn() operator(<)'#',true) then 'pgz-edge:behind'",
    ({ world }, [position]) => world.log.end < positionOf(position!),
  ],
  [
    `when ${SYSTEM_SQL} operator(=)'#' and (textcat('x',left(${FILE},8))::bit(32)::bigint operator(<)# or ` +
      `textcat('x',left(${FILE},8))::bit(32)::bigint operator(=)# and ` +
      "pg_current_wal_insert_lsn() operator(<)'#') then 'pgz-edge:role'",
    (session, [system, newer, same, position]) => {
      const { timeline } = session.world.standing;
      const isShorter = timeline === Number(same) && inserted(session) < positionOf(position!);
      return String(SYSTEM) === system && (timeline < Number(newer) || isShorter);
    },
  ],
];

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
const PATTERNS = CHECKS.map(
  ([when, applies]) => [new RegExp(`^${escaped(when).replaceAll("#", "([\\da-f/]+)")} ?`, "i"), applies] as const,
);

function checksOf(cases: string): Check[] | undefined {
  const checks: Check[] = [];
  for (let rest = cases; rest;) {
    const found = PATTERNS.flatMap(([pattern, applies]) => {
      const groups = pattern.exec(rest);
      return groups ? [{ groups, applies }] : [];
    })[0];
    if (!found) return undefined;
    const [all, ...given] = found.groups;
    const reason = /'(pgz-edge:\w+)' ?$/.exec(all)![1]!;
    checks.push((session) => (found.applies(session, given) ? reason : undefined));
    rest = rest.slice(all.length);
  }
  return checks;
}

const GUARD = /^select where \(case (.+) end\)::pg_lsn is not null$/s;

/** Returns the statement, or `undefined` if it is none of these. */
export function clusterQuestion(text: string, form: string): Statement | undefined {
  const question = Object.hasOwn(QUESTIONS, form) ? QUESTIONS[form] : undefined;
  const checks = question ? undefined : checksOf(GUARD.exec(form)?.[1] ?? "none");
  if (!question && !checks) return undefined;
  const columns = (question?.[0] ?? []).map(([name, type]) => ({ name, type }));
  function* run({ session }: { readonly session: Session }): Rows {
    yield* begin(session);
    if (question) yield question[1](session);
    for (const check of checks ?? []) {
      const reason = check(session);
      if (reason) throw invalidText("pg_lsn", reason);
    }
    return "SELECT";
  }
  return { text, tables: [], analyse: () => ({ kind: "select", columns, run }) };
}
