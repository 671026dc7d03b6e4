// What a replication connection does with a command: it creates and drops slots, and begins a stream.
//
// Knows the responses of each command, and when it fails. Must not know the grammar of commands (commands.ts), or how a
// stream continues (sender.ts).
import { PgError } from "../errors.ts";
import { commandComplete, dataRow, rowDescription, utf8 } from "../messages.ts";
import type { Doing } from "../process.ts";
import type { Session } from "../session.ts";
import { describe } from "../statements/statement.ts";
import type { Transaction } from "../transactions.ts";
import { SYSTEM } from "../standing.ts";
import { int4, int8, text } from "../values.ts";
import { publicationsOf, snapshotAction, type Command, type SnapshotAction } from "./commands.ts";
import { textOf } from "./log.ts";
import { Sender, type Standby } from "./sender.ts";

type Create = Command & { kind: "create" };
type Start = Command & { kind: "start" };

/** Runs a command, except for its ReadyForQuery. Returns false if the connection is over. */
export function* runCommand(command: Command, session: Session, standby: Standby): Doing<boolean> {
  session.checkNotFailed();
  try {
    switch (command.kind) {
      case "identify":
        identify(session, standby);
        return true;
      case "create":
        yield* create(command, session, standby);
        return true;
      case "drop":
        yield* drop(command.slot, command.waits, session, standby);
        return true;
      case "start":
        return yield* start(command, session, standby);
    }
  } finally {
    session.world.slots.release(session.processId, false);
  }
}

// -- IDENTIFY_SYSTEM --------------------------------------------------------------------------------------------------

function identify({ world, database }: Session, standby: Standby): void {
  const { standing, log, around } = world;
  const timeline = { name: "timeline", type: around.version >= 16 ? int8 : int4 };
  const [systemid, xlogpos, dbname] = ["systemid", "xlogpos", "dbname"].map((name) => ({ name, type: text }));
  standby.send(rowDescription(describe([systemid!, timeline, xlogpos!, dbname!]), []));
  standby.send(dataRow([String(SYSTEM), String(standing.timeline), textOf(log.flushed), database].map(utf8)));
  standby.send(commandComplete("IDENTIFY_SYSTEM"));
}

// -- CREATE_REPLICATION_SLOT ------------------------------------------------------------------------------------------

const RESULT = describe(
  ["slot_name", "consistent_point", "snapshot_name", "output_plugin"].map((name) => ({ name, type: text })),
);

function* create(command: Create, session: Session, standby: Standby): Doing<void> {
  const { slots, log } = session.world;
  const action = snapshotAction(command.options);
  const slot = slots.create(command.slot, command.isTemporary, session.processId);
  checkSnapshot(action, session);
  yield* session.think("statement", "CREATE_REPLICATION_SLOT");
  yield* consistentPoint(session, standby);
  if (action === "use") session.world.takeSnapshot(session.transaction!);
  log.advance();
  slots.made(slot);
  const snapshot = action === "export" ? utf8(`${String(session.processId).padStart(8, "0")}-00000001-1`) : null;
  standby.send(rowDescription(RESULT, []));
  standby.send(dataRow([utf8(slot.name), utf8(textOf(slot.confirmed)), snapshot, utf8("pgoutput")]));
  standby.send(commandComplete("CREATE_REPLICATION_SLOT"));
}

const must = (action: SnapshotAction, what: string): PgError =>
  new PgError("XX000", `CREATE_REPLICATION_SLOT ... (SNAPSHOT '${action}') must ${what}`);

/** Checks that the session can use the snapshot of the slot's start. */
function checkSnapshot(action: SnapshotAction, { isInBlock, transaction }: Session): void {
  if (action === "export" && isInBlock) throw must(action, "not be called inside a transaction");
  if (action !== "use") return;
  if (!isInBlock || !transaction) throw must(action, "be called inside a transaction");
  if (transaction.isolation !== "repeatable read")
    throw must(action, "be called in REPEATABLE READ isolation mode transaction");
  if (!transaction.isReadOnly) throw must(action, "be called in a read-only transaction");
  if (transaction.hasRun) throw must(action, "be called before any query");
  if (transaction.savepoints.length) throw must(action, "not be called in a subtransaction");
}

/**
 * Waits for a point where decoding can begin. All transactions that had written something at the request must be over,
 * and then all that had written something when those ended.
 */
function* consistentPoint({ world, transaction, clock }: Session, standby: Standby): Doing<void> {
  for (let round = 0; round < 2; round++)
    for (const writer of world.around.transactions())
      if (writer !== transaction && writer.hasWritten) yield* over(writer, standby, (wake) => clock.after(0, wake));
}

function* over(writer: Transaction, standby: Standby, soon: (wake: () => void) => void): Doing<void> {
  // Bytes that arrive meanwhile are read with the next command.
  while (!writer.isOver) yield* standby.wait((wake) => writer.onOver(() => soon(wake)));
}

// -- DROP_REPLICATION_SLOT --------------------------------------------------------------------------------------------

function* drop(name: string, waits: boolean, session: Session, standby: Standby): Doing<void> {
  const { world, clock, processId } = session;
  const { slots } = world;
  while (waits && slots.isTaken(name, processId))
    yield* standby.wait((wake) => slots.onFree(() => clock.after(0, wake)));
  slots.drop(name, processId);
  standby.send(commandComplete("DROP_REPLICATION_SLOT"));
}

// -- START_REPLICATION ------------------------------------------------------------------------------------------------

function* start({ slot: name, position, options }: Start, session: Session, standby: Standby): Doing<boolean> {
  if (session.isInBlock) throw new PgError("25001", "START_REPLICATION cannot run inside a transaction block");
  const { world, processId } = session;
  const slot = world.slots.acquire(name, processId);
  yield* session.think("statement", "START_REPLICATION");
  const publications = checked(slot.name, () => publicationsOf(options, world.around.version));
  const messages = ["true", "on", "1"].includes(options.get("messages") ?? "");
  const sender = new Sender(standby, session, slot, position, { publications, messages });
  if (!(yield* sender.run())) return false;
  // The second CommandComplete is for libpqrcv_endstreaming.
  standby.send(commandComplete("COPY 0"));
  standby.send(commandComplete("START_REPLICATION"));
  return true;
}

/** Reports errors in options as the plugin does. */
function checked<T>(slot: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof PgError)
      error.fields.where = `slot "${slot}", output plugin "pgoutput", in the startup callback`;
    throw error;
  }
}
