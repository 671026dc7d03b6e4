// Statements that change the session or its transaction: BEGIN and what ends it, SET, LISTEN, prepared statements,
// cursors, DISCARD; and DO, which sends a notice.
//
// A table of texts in the form of the catalogue. The session knows what they do.
import { notice, notInBlocks, PgError, portalExists, preparedStatementExists } from "../errors.ts";
import { Portal } from "../portals.ts";
import type { Doing } from "../process.ts";
import type { Session } from "../session.ts";
import { text as textType } from "../values.ts";
import { selectStatement } from "./select.ts";
import { changeRole, setSetting, shown } from "./set-setting.ts";
import { ParameterTypes, quiet, type Plan, type Statement } from "./statement.ts";
import { Unknown, unquoted } from "./text.ts";

type Read = Omit<Statement, "text">;
type Run = (session: Session) => string | Doing<string>;
type Words = readonly string[];

const plain = (run: Run, more: Partial<Read> = {}): Read => ({
  tables: [],
  analyse: () => quiet(({ session }) => run(session)),
  ...more,
});
const exit = (run: Run): Read => plain(run, { isTransaction: true, isExit: true });

/** Returns what is read, for the words that the pattern has caught. `source` is the statement as it was written. */
type Reader = (words: Words, source: string) => Read;

const STATEMENTS: readonly (readonly [pattern: RegExp, reader: Reader])[] = [
  [/^(begin|start transaction)( .+)?$/, ([word, modes]) => begin(word!, modes ?? "")],
  [/^commit$/, () => exit((session) => session.commit())],
  [/^rollback$/, () => exit((session) => (session.rollBack(), "ROLLBACK"))],
  [/^rollback to (?:savepoint )?(\w+)$/, ([name]) => exit((session) => (session.rollBackTo(name!), "ROLLBACK"))],
  [/^savepoint (\w+)$/, ([name]) => inBlock((session) => (session.savepoint(name!), "SAVEPOINT"))],
  [/^release (?:savepoint )?(\w+)$/, ([name]) => inBlock((session) => (session.release(name!), "RELEASE"))],

  [/^set role (\w+)$/, ([role]) => plain((session) => (changeRole(session, "role", role!, false), "SET"))],
  [
    /^set session authorization default$/,
    () => plain((session) => (resetRole(session, "session_authorization"), "SET")),
  ],
  [/^set time zone (.+)$/, ([zone]) => set("timezone", zone!)],
  [/^set ([\w.]+)(?:=| to )(.+)$/, ([name, value]) => set(name!, value!)],
  [/^reset all$/, () => plain(({ settings, transaction }) => (settings.resetAll(transaction), "RESET"))],
  [/^reset role$/, () => plain((session) => (resetRole(session, "role"), "RESET"))],
  [/^show ([\w.]+)$/, ([name]) => ({ tables: [], analyse: (session) => showPlan(session, name!) })],

  [/^listen (.+)$/, ([channel]) => plain((session) => listen(session, nameOf(channel!)))],
  [/^unlisten \*$/, () => plain((session) => (session.unlisten(undefined), "UNLISTEN"))],
  [/^discard (all|temp|plans|sequences)$/, ([what]) => plain((session) => discard(session, what!))],
  [/^prepare (\w+) as (.+)$/s, ([name, inner], source) => prepare(name!, selectStatement(inner!, source), source)],
  [/^deallocate all$/, () => plain(deallocateAll)],
  [/^declare (\w+) cursor with hold for (.+)$/s, ([name, query], source) => declare(name!, query!, source)],
  [/^close all$/, () => plain((session) => (closeCursors(session), "CLOSE CURSOR ALL"))],
  [
    /^do \$\$ begin raise (\w+) '((?:[^']|'')*)'; end \$\$$/,
    ([level, message]) => plain((it) => raise(it, level!, message!)),
  ],
];

/** Returns the statement, or `undefined` if it is none of these. */
export function readOfSession(text: string, source: string): Read | undefined {
  for (const [pattern, reader] of STATEMENTS) {
    const found = pattern.exec(text);
    if (found) return reader(found.slice(1), source);
  }
  return undefined;
}

const nameOf = (name: string): string => (name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name);

// -- transactions -----------------------------------------------------------------------------------------------------

const inBlock = (run: Run): Read => plain(run, { isTransaction: true });

const MODES: Readonly<Record<string, readonly [setting: string, value: string]>> = {
  "isolation level serializable": ["transaction_isolation", "serializable"],
  "isolation level repeatable read": ["transaction_isolation", "repeatable read"],
  "isolation level read committed": ["transaction_isolation", "read committed"],
  "isolation level read uncommitted": ["transaction_isolation", "read uncommitted"],
  "read only": ["transaction_read_only", "on"],
  "read write": ["transaction_read_only", "off"],
  "not deferrable": ["transaction_deferrable", "off"],
  deferrable: ["transaction_deferrable", "on"],
};
const MODE = new RegExp(`^[ ,](${Object.keys(MODES).join("|")})`);

function begin(word: string, text: string): Read {
  const modes: (typeof MODES)[string][] = [];
  for (let rest = text; rest;) {
    const [all, mode] = MODE.exec(rest) ?? [];
    if (!mode) throw new Unknown();
    modes.push(MODES[mode]!);
    rest = rest.slice(all!.length);
  }
  return inBlock((session) => {
    session.begin();
    for (const [setting, value] of modes) setSetting(session, setting, value, true);
    return word === "begin" ? "BEGIN" : "START TRANSACTION";
  });
}

// -- settings ---------------------------------------------------------------------------------------------------------

function set(name: string, value: string): Read {
  const given = value.startsWith("'") ? unquoted(value) : value;
  return plain((session) => (setSetting(session, name, given, false), "SET"));
}

function resetRole(session: Session, name: string): void {
  changeRole(session, name, null, false);
}

function showPlan(session: Session, name: string): Plan {
  shown(session, name);
  return {
    kind: "utility",
    columns: [{ name: session.settings.nameOf(name), type: textType }],
    *run({ session: runner }) {
      yield [shown(runner, name)];
      return "SHOW";
    },
  };
}

// -- what a session keeps ---------------------------------------------------------------------------------------------

function listen(session: Session, channel: string): string {
  session.checkNotRecovering("LISTEN");
  session.listen(channel);
  return "LISTEN";
}

function discard(session: Session, what: string): string {
  if (what === "all") discardAll(session);
  if (what === "temp") dropTemporary(session);
  return `DISCARD ${what.toUpperCase()}`;
}

function discardAll(session: Session): void {
  if (session.state !== "started") throw notInBlocks("DISCARD ALL");
  if (session.isPipelining) throw new PgError("25001", "DISCARD ALL cannot be executed within a pipeline");
  const { settings, transaction } = session;
  closeCursors(session);
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

function prepare(name: string, statement: Read, source: string): Read {
  return plain((session) => {
    const types = new ParameterTypes();
    const plan = statement.analyse(session, types);
    if (session.prepared.has(name)) throw preparedStatementExists(name);
    session.prepared.set(name, {
      name,
      text: source,
      statement: { ...statement, text: source },
      parameters: types.all(),
      plan,
      analysedFor: session.catalogKey,
      preparedAt: session.transaction!.startedAt,
      constants: types.constants,
      uses: 0,
    });
    return "PREPARE";
  });
}

function deallocateAll({ prepared }: Session): string {
  for (const [name] of prepared) if (name !== "") prepared.delete(name);
  return "DEALLOCATE ALL";
}

function declare(name: string, text: string, source: string): Read {
  const query = selectStatement(text, source);
  return {
    tables: query.tables,
    analyse: (session, parameters) => {
      const plan = query.analyse(session, parameters);
      return quiet((execution) => {
        if (execution.session.portals.has(name)) throw portalExists(name);
        execution.session.addPortal(
          new Portal({
            name,
            plan,
            prepared: undefined,
            execution,
            formats: plan.columns!.map(() => 0),
            madeIn: execution.session.transaction,
            isHoldable: true,
            isCursor: true,
            source: execution.session.client.query,
          }),
        );
        return "DECLARE CURSOR";
      });
    },
  };
}

function closeCursors({ portals }: Session): void {
  for (const [name, portal] of portals) if (portal.isCursor) portals.delete(name);
}

function raise(session: Session, level: string, message: string): string {
  const where = "PL/pgSQL function inline_code_block line 1 at RAISE";
  session.notice(notice(level.toUpperCase() as "NOTICE", "00000", message.replaceAll("''", "'"), { where }));
  return "DO";
}
