// BEGIN, COMMIT, ROLLBACK, savepoints, and SET TRANSACTION.
//
// Knows their syntax. The session knows what they do.
import type { Session } from "../session.ts";
import type { TokenReader } from "../tokens.ts";
import { setSetting, warnOutsideBlock } from "./set-setting.ts";
import { quiet, type Statement } from "./statement.ts";

type Modes = readonly (readonly [setting: string, value: string])[];

const plain = (text: string, plan: Parameters<typeof quiet>[0], more: Partial<Statement> = {}): Statement => ({
  text,
  tables: [],
  analyse: () => quiet(plan),
  ...more,
});

export function parseBegin(reader: TokenReader, text: string): Statement {
  const tag = reader.next().text === "start" ? "START TRANSACTION" : "BEGIN";
  if (tag === "BEGIN") reader.accept("work") || reader.accept("transaction");
  else reader.expect("transaction");
  const modes = parseModes(reader);
  const run = ({ session }: { session: Session }): string => {
    session.begin();
    setModes(session, modes);
    return tag;
  };
  return plain(text, run, { isTransaction: true });
}

export function parseModes(reader: TokenReader): Modes {
  const modes: [string, string][] = [];
  while (!reader.isAtEnd) {
    modes.push(parseMode(reader));
    reader.accept(",");
  }
  return modes;
}

function parseMode(reader: TokenReader): [string, string] {
  if (reader.accept("isolation", "level")) {
    if (reader.accept("serializable")) return ["transaction_isolation", "serializable"];
    if (reader.accept("repeatable", "read")) return ["transaction_isolation", "repeatable read"];
    if (reader.accept("read", "committed")) return ["transaction_isolation", "read committed"];
    reader.expect("read", "uncommitted");
    return ["transaction_isolation", "read uncommitted"];
  }
  if (reader.accept("read", "only")) return ["transaction_read_only", "on"];
  if (reader.accept("read", "write")) return ["transaction_read_only", "off"];
  if (reader.accept("not", "deferrable")) return ["transaction_deferrable", "off"];
  reader.expect("deferrable");
  return ["transaction_deferrable", "on"];
}

export function setModes(session: Session, modes: Modes): void {
  for (const [setting, value] of modes) setSetting(session, setting, value, true);
}

function parseWork(reader: TokenReader): boolean {
  if (!reader.accept("work")) reader.accept("transaction");
  if (!reader.accept("and")) return false;
  const isNot = reader.accept("no");
  reader.expect("chain");
  return !isNot;
}

export function parseCommit(reader: TokenReader, text: string): Statement {
  reader.next();
  const chain = parseWork(reader);
  const run = ({ session }: { session: Session }) => session.commit(chain);
  return plain(text, run, { isTransaction: true, isExit: true });
}

export function parseRollback(reader: TokenReader, text: string): Statement {
  reader.next();
  const chain = parseWork(reader);
  if (reader.accept("to")) {
    reader.accept("savepoint");
    const name = reader.name();
    const run = ({ session }: { session: Session }): string => (session.rollBackTo(name), "ROLLBACK");
    return plain(text, run, { isExit: true, isTransaction: true });
  }
  const run = ({ session }: { session: Session }): string => (session.rollBack(chain), "ROLLBACK");
  return plain(text, run, { isTransaction: true, isExit: true });
}

export function parseSavepoint(reader: TokenReader, text: string): Statement {
  reader.expect("savepoint");
  const name = reader.name();
  return plain(text, ({ session }) => (session.savepoint(name), "SAVEPOINT"), { isTransaction: true });
}

export function parseRelease(reader: TokenReader, text: string): Statement {
  reader.expect("release");
  reader.accept("savepoint");
  const name = reader.name();
  return plain(text, ({ session }) => (session.release(name), "RELEASE"), { isTransaction: true });
}

/** Reads `set transaction …`, after `set`. */
export function parseSetTransaction(reader: TokenReader, text: string): Statement {
  const modes = parseModes(reader);
  return plain(text, ({ session }) => {
    warnOutsideBlock(session, "SET TRANSACTION");
    setModes(session, modes);
    return "SET";
  });
}

/** Reads `set session characteristics as transaction …`, after `characteristics`. */
export function parseSetCharacteristics(reader: TokenReader, text: string): Statement {
  reader.expect("as", "transaction");
  const modes = parseModes(reader);
  return plain(text, ({ session }) => {
    for (const [setting, value] of modes) setSetting(session, `default_${setting}`, value, false);
    return "SET";
  });
}
