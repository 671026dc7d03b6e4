// A session: its settings, statements, portals, transaction, and the channels that it listens to.
//
//   none ── a command starts ──> started ── a second one in its pipeline, or in its Query ──> implicit
//     \                             \                                                          /
//      \                             └──────────────── BEGIN ──> block <──────────────────────┘
//       <──── COMMIT, ROLLBACK, Sync, the end of Query           │ an error
//                                                               failed
//
// Knows what statements change. Must not know messages: a notice goes to `client`, whatever implements it.
import type { Clock, Timer } from "../contract.ts";
import {
  alreadyInTransaction,
  inFailedTransaction,
  noSavepoint,
  noTransaction,
  onlyInBlocks,
  PgError,
  readOnly,
  resultChanged,
  transactionTimeout,
  serializationFailure,
} from "./errors.ts";
import type { Locks } from "./locks.ts";
import { sleep, type Doing, type Wait } from "./process.ts";
import type { Portal } from "./portals.ts";
import { milliseconds, type Settings } from "./settings.ts";
import { ParameterTypes, type Column, type Plan, type Prepared } from "./statements/statement.ts";
import type { Table, Version } from "./tables.ts";
import { Transaction } from "./transactions.ts";
import type { Forms } from "./values.ts";
import type { World } from "./world.ts";

export type BlockState = "none" | "started" | "implicit" | "block" | "failed";

/** What a statement may use of the client while it runs. */
export interface Client {
  notice(notice: PgError): void;
  send(message: Uint8Array): void;
  flush(): void;
  /** Returns the next message of a COPY. The letter `""` means that the client has gone. */
  copyMessage(): Generator<Wait, { letter: string; body: Uint8Array }, void>;
  /** Ends the session with this error. */
  end(error: PgError): void;
  /** Throws a cancel that arrived while a COPY read. */
  checkInterrupts(): void;
  /** The text that contains the running statement. */
  readonly query: string;
}

export class Session {
  readonly processId: number;
  readonly world: World;
  readonly user: string;
  readonly database: string;
  readonly settings: Settings;
  readonly client: Client;
  readonly prepared = new Map<string, Prepared>();
  readonly portals = new Map<string, Portal>();
  readonly listening = new Set<string>();
  state: BlockState = "none";
  transaction: Transaction | undefined;
  /** A command of this pipeline has run, so the next one is in an implicit block. */
  isPipelining = false;
  /** Changes when temporary tables are made or dropped. */
  catalogVersion = 0;
  #notifications: { channel: string; payload: string }[] = [];
  #listens: (() => void)[] = [];
  readonly #portalNumbers = new WeakMap<Portal, number>();
  #portalCount = 0;
  #forms: Forms | undefined;
  #formsOf = -1;
  /** The timer of `transaction_timeout`. */
  #timer: Timer | undefined;

  constructor(given: Pick<Session, "processId" | "world" | "user" | "database" | "settings" | "client">) {
    this.processId = given.processId;
    this.world = given.world;
    this.user = given.user;
    this.database = given.database;
    this.settings = given.settings;
    this.client = given.client;
  }

  get clock(): Clock {
    return this.world.clock;
  }

  get locks(): Locks {
    return this.world.locks;
  }

  get forms(): Forms {
    const { settings } = this;
    if (this.#forms && this.#formsOf === settings.changes) return this.#forms;
    this.#formsOf = settings.changes;
    return (this.#forms = {
      timeZone: settings.get("TimeZone"),
    });
  }

  /** The role whose rights apply. */
  get role(): string {
    const role = this.settings.get("role");
    return role === "none" ? this.settings.get("session_authorization") : role;
  }

  /** As ReadyForQuery reports it. */
  get status(): "I" | "T" | "E" {
    if (this.state === "failed") return "E";
    return this.state === "none" ? "I" : "T";
  }

  get isInBlock(): boolean {
    return this.state === "block" || this.state === "failed";
  }

  notice(notice: PgError): void {
    this.client.notice(notice);
  }

  /** Adds a portal. Rolling back to an earlier savepoint drops it; a failure does not yet. */
  addPortal(portal: Portal): void {
    this.portals.set(portal.name, portal);
    this.#portalNumbers.set(portal, this.#portalCount++);
  }

  // -- commands -------------------------------------------------------------------------------------------------------

  startCommand(): void {
    if (this.state === "none") {
      this.state = "started";
      this.transaction = this.#newTransaction();
      const most = milliseconds(this.settings.find("transaction_timeout") ?? "0");
      if (most) this.#timer = this.clock.after(most, () => this.client.end(transactionTimeout()));
    } else if (this.state === "started" && this.isPipelining && this.world.around.version >= 18)
      this.state = "implicit";
  }

  #newTransaction(): Transaction {
    const transaction = new Transaction(this.world.nextTransaction(), this.clock.now, this.locks);
    transaction.isolation = this.settings.get("default_transaction_isolation");
    const { isStandby } = this.world.standing;
    transaction.isReadOnly = isStandby || this.settings.get("default_transaction_read_only") === "on";
    transaction.isDeferrable = this.settings.get("default_transaction_deferrable") === "on";
    return transaction;
  }

  /** Commits what was started for one command. */
  *finishCommand(): Doing<void> {
    if (this.state === "started") yield* this.#commit();
  }

  /** The statements of a Query with several statements form one transaction. */
  beginImplicitBlock(): void {
    if (this.state === "started") this.state = "implicit";
  }

  endImplicitBlock(): void {
    if (this.state === "implicit") this.state = "started";
    this.isPipelining = false;
  }

  /** A statement has failed. */
  fail(): void {
    this.isPipelining = false;
    this.#notifications = [];
    this.#listens = [];
    if (this.state === "block" || this.state === "failed") {
      if (this.state === "block") this.transaction!.fail();
      this.state = "failed";
    } else if (this.state !== "none") this.#rollBack();
  }

  /** Ends everything, because the session ends. */
  end(): void {
    if (this.state !== "none") this.#rollBack();
    this.locks.releaseAll(this);
    this.listening.clear();
    this.world.dropTemporary(this);
  }

  get isFailed(): boolean {
    return this.state === "failed";
  }

  checkNotFailed(): void {
    if (this.isFailed) throw inFailedTransaction();
  }

  // -- blocks ---------------------------------------------------------------------------------------------------------

  begin(): void {
    if (this.state === "block") this.notice(alreadyInTransaction());
    else if (this.state === "failed") throw inFailedTransaction();
    else this.state = "block";
  }

  /** Returns the tag of CommandComplete. */
  *commit(): Doing<string> {
    const { state } = this;
    if (state === "started" || state === "implicit") this.notice(noTransaction());
    if (state === "failed") this.#rollBack();
    else yield* this.#commit();
    return state === "failed" ? "ROLLBACK" : "COMMIT";
  }

  rollBack(): void {
    if (!this.isInBlock) this.notice(noTransaction());
    this.#rollBack();
  }

  savepoint(name: string): void {
    this.#needBlock("SAVEPOINT");
    this.transaction!.savepoint(name, this.#portalCount);
  }

  release(name: string): void {
    this.#needBlock("RELEASE SAVEPOINT");
    if (!this.transaction!.release(name)) throw noSavepoint(name);
  }

  rollBackTo(name: string): void {
    if (!this.isInBlock) throw onlyInBlocks("ROLLBACK TO SAVEPOINT");
    const mark = this.transaction!.rollBackTo(name);
    if (mark === undefined) throw noSavepoint(name);
    for (const [each, portal] of this.portals) if (this.#portalNumbers.get(portal)! >= mark) this.portals.delete(each);
    this.state = "block";
  }

  #needBlock(what: string): void {
    if (this.state !== "block") throw onlyInBlocks(what);
  }

  *#commit(): Doing<void> {
    const transaction = this.transaction!;
    if (transaction.hasWritten) yield* this.think("commit", "COMMIT");
    for (const portal of this.portals.values()) if (portal.isHoldable) yield* portal.materialise();
    const wait = transaction.hasWritten ? this.world.around.visibleAfter() : 0;
    if (wait) {
      this.world.logCommit(transaction);
      yield* sleep(this.clock, wait, "committing");
    }
    this.world.commit(transaction);
    for (const listen of this.#listens.splice(0)) listen();
    for (const { channel, payload } of this.#notifications.splice(0))
      this.world.notify({ processId: this.processId, channel, payload });
    this.#over(transaction, true);
  }

  #rollBack(): void {
    const transaction = this.transaction!;
    // Its commit was waiting to become visible. The record is in the log, so it commits.
    if (transaction.isLogged) this.world.commit(transaction);
    else transaction.rollBack();
    this.world.endSnapshot(transaction);
    this.#notifications = [];
    this.#listens = [];
    this.#over(transaction, false);
  }

  #over(transaction: Transaction, isKept: boolean): void {
    for (const [name, portal] of this.portals)
      if (!portal.isHoldable || (!isKept && portal.madeIn === transaction)) this.portals.delete(name);
    this.#timer?.cancel();
    this.#timer = undefined;
    this.state = "none";
    this.transaction = undefined;
    this.isPipelining = false;
  }

  // -- what statements use --------------------------------------------------------------------------------------------

  /** Called before a statement that reads. It sees what is committed now, or at its transaction's first query. */
  see(): void {
    const transaction = this.transaction!;
    transaction.hasRun = true;
    if (transaction.takesSnapshot && transaction.snapshot === undefined) this.world.takeSnapshot(transaction);
  }

  checkWritable(what: string, table?: Table): void {
    if (this.transaction!.isReadOnly && !table?.owner) throw readOnly(what);
  }

  /** A standby sends no notifications, and receives none. */
  checkNotRecovering(what: string): void {
    if (this.world.standing.isStandby) throw new PgError("25006", `cannot execute ${what} during recovery`);
  }

  write(): void {
    const transaction = this.transaction!;
    transaction.hasWritten = true;
    transaction.xid ??= this.world.nextTransaction();
  }

  /** Takes a lock until the transaction ends, or rolls back to an earlier savepoint. */
  *lock(key: string, mode: number): Doing<void> {
    const transaction = this.transaction!;
    if (this.locks.holds(this, transaction, key, mode)) return;
    yield* this.locks.acquire(this, transaction, key, mode);
    transaction.add({ undo: () => void this.locks.release(this, transaction, key, mode) });
  }

  /** Takes a lock until the session releases it. */
  *lockForSession(key: string, mode: number): Doing<void> {
    yield* this.locks.acquire(this, this, key, mode);
  }

  /** Locks a row and returns its latest version, or `undefined` if the row is gone or no longer fits. */
  *latest(version: Version, mode: number, fits: (version: Version) => boolean): Doing<Version | undefined> {
    for (let at = version; ;) {
      yield* this.lock(`row ${at.id}`, mode);
      if (at.deletedBy) return undefined;
      if (at.deletedAt === undefined) return at;
      if (this.transaction!.takesSnapshot) throw serializationFailure();
      if (!at.next || !fits(at.next)) return undefined;
      at = at.next;
    }
  }

  /** Identifies the state of everything that a statement's names can refer to. */
  get catalogKey(): string {
    return `${this.world.catalogVersion} ${this.catalogVersion}`;
  }

  /** Analyses a statement again if tables have changed. Its columns must stay the same. */
  refresh(prepared: Prepared): void {
    const { statement, plan } = prepared;
    if (!statement || !plan || prepared.analysedFor === this.catalogKey) return;
    const types = new ParameterTypes(prepared.parameters);
    const fresh = statement.analyse(this, types);
    if (!areAlike(plan.columns, fresh.columns)) throw resultChanged();
    prepared.plan = fresh;
    prepared.constants = types.constants;
    prepared.analysedFor = this.catalogKey;
  }

  listen(channel: string): void {
    this.#listens.push(() => this.listening.add(channel));
  }

  unlisten(channel: string | undefined): void {
    this.#listens.push(() => (channel === undefined ? this.listening.clear() : this.listening.delete(channel)));
  }

  notify(channel: string, payload: string): void {
    if (channel === "") throw new PgError("22023", "channel name cannot be empty");
    if (channel.length > 63) throw new PgError("22023", "channel name too long");
    if (payload.length > 7_999) throw new PgError("22023", "payload string too long");
    const isThere = this.#notifications.some((it) => it.channel === channel && it.payload === payload);
    if (!isThere) this.#notifications.push({ channel, payload });
  }

  /** Waits for the time that a step takes. */
  *think(what: "parse" | "statement" | "commit", text: string): Doing<void> {
    const time = this.world.thinkTime(what, text);
    yield* sleep(this.clock, time, what === "commit" ? "committing" : "running");
  }
}

function areAlike(before: Plan["columns"], now: Plan["columns"]): boolean {
  if (!before || !now) return before === now;
  const same = ({ name, type }: Column, at: number) => name === now[at]!.name && type === now[at]!.type;
  return before.length === now.length && before.every(same);
}
