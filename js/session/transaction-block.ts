// The transaction that a session is in, and the BEGIN that waits for the next flight.
//
// BEGIN travels in front of the first statement, in its flight and before its Sync: if BEGIN fails, the server skips
// the statement too. The settings of a scope are sent in the same way and last until the transaction ends: in a
// transaction they follow BEGIN, once; outside a transaction they are in front of every flight. Knows the order of
// BEGIN, settings, flights and ROLLBACK. Must not know who wants the transaction, nor what runs in it.
import type { Connection } from "../connection/connection.ts";
import type { Operation } from "../connection/operation.ts";
import { knownServer, type KnownServer } from "../server/known-server.ts";
import { connectionLost } from "../runtime/contract.ts";
import { encoder } from "../util/bytes.ts";
import type { PgzError } from "../util/errors.ts";
import { mayBegin, mayKeep } from "../util/statement-words.ts";
import { NO_LIMITS, ROWS_NONE, COPY_NONE, type CoreConnection } from "../wasm/boundary.ts";
import type { Place } from "./again.ts";
import type { AnyCall } from "./call.ts";
import { hasCitusMark, isCitusError } from "./citus.ts";
import type { ScopeSettings } from "./scope-settings.ts";

/** Runs statements of the driver's own by a Query message. Their rows are dropped. */
export function simpleQuery(text: string): (handle: CoreConnection) => number {
  return (handle) => handle.simple_query(text, COPY_NONE, ROWS_NONE, NO_LIMITS);
}

/**
 * Sends COMMIT after statements that may still fail. It does not send Query, as {@link simpleQuery} does: pgpool-II
 * ends a session in which a Query arrives before the responses of a flight that fails (docs/decisions/0019).
 */
export function commit(handle: CoreConnection): number {
  return handle.execute(0, COMMIT, NO_PARAMETERS, ROWS_NONE, NO_LIMITS);
}

/** No format codes, the text, no types, as `encodedStatement` writes it. */
const COMMIT = encoder.encode("\0\0COMMIT\0\0\0");
const NO_PARAMETERS = new Uint8Array(4);

/** Puts statements in front of the next one, in its flight. */
export function putInFront(handle: CoreConnection, preludes: readonly string[]): void {
  for (const prelude of preludes) handle.prelude(prelude);
}

const NONE: readonly string[] = [];

/** The texts of the call that an operation belongs to. */
function textsOf({ owner }: Operation): readonly string[] {
  const { text = "", texts = [text] } = owner?.subject ?? {};
  return texts;
}

export class TransactionBlock {
  readonly #connection: Connection;
  readonly #scope: Pick<ScopeSettings, "statement" | "citusStatement"> | undefined;
  readonly #front: readonly string[];
  /** The BEGIN that leaves with the next flight. */
  #waiting: string | undefined;
  /** The last flight that carried BEGIN. Cleared when it succeeds, so that its operation and row sink can be freed. */
  #carried: { readonly begin: string; readonly operation: Operation } | undefined;
  /** The call whose descriptions carried BEGIN. Nothing else has been sent in the transaction since then. */
  #described: { readonly begin: string; readonly owner: Operation["owner"] } | undefined;
  #beginFailed = false;
  /** The transaction is a single call's own. */
  #isOwn = false;
  /** `Connection.blockChanges` when a callback began its transaction; `undefined`: none runs. */
  #changesBefore: number | undefined;

  /** `scope`: statements that apply its settings until the transaction ends. `front`: statements in front of those. */
  constructor(connection: Connection, scope?: Pick<ScopeSettings, "statement" | "citusStatement">, front = NONE) {
    this.#connection = connection;
    this.#scope = scope;
    this.#front = front;
  }

  get #server(): KnownServer {
    return knownServer(this.#connection.config);
  }

  /** The settings that start every transaction, including the implicit transaction of a single flight. */
  get #settings(): readonly string[] {
    const scope = this.#scope;
    if (!scope) return this.#front;
    return [...this.#front, this.#server.database.isCitus ? scope.citusStatement : scope.statement];
  }

  /**
   * The statements in front of a flight that carries no BEGIN. There are none inside a transaction, where the settings
   * already hold.
   */
  get settings(): readonly string[] {
    return this.status === "I" ? this.#settings : NONE;
  }

  /** The status in the last ReadyForQuery: `I` outside a transaction, `T` inside, `E` inside one that failed. */
  get status(): string {
    return this.#connection.transactionStatus;
  }

  /** Whether BEGIN waits to be sent. */
  get isWaiting(): boolean {
    return this.#waiting !== undefined;
  }

  /** Whether no transaction is open, and none waits to begin. */
  get isNone(): boolean {
    return this.status === "I" && !this.isWaiting;
  }

  /** Whether BEGIN waits or is under way: a call that is sent now could run outside the transaction. */
  get isBeginning(): boolean {
    return this.isWaiting || this.#isUnderWay;
  }

  /** Where a statement that is sent now runs. */
  get place(): Place {
    if (this.isNone) return "alone";
    return this.status === "I" ? "begins" : "inside";
  }

  /** The same for this call. A transaction in which it has only described something begins with what it sends next. */
  placeOf(call: AnyCall): Place {
    return (this.#described?.owner as unknown) === call ? "begins" : this.place;
  }

  /**
   * What became of the transaction that was open when the connection was lost, or whose COMMIT had been sent;
   * `undefined`: there was none. The server rolls back what has not been committed.
   */
  get outcomeOfLoss(): PgzError["transaction"] {
    if (this.wasEndedInSql) return "unknown";
    const isInside = this.place === "inside";
    const { closed, unanswered } = this.#connection;
    if (closed?.hasNoEffect) return isInside ? "rolled back" : undefined; // the server had not begun what was in flight
    if (unanswered.some(({ carriesEnd }) => carriesEnd)) return "unknown";
    if (!isInside) return undefined;
    const hasOwn = unanswered.some(({ owner }) => !owner); // such as a cursor's COMMIT
    return hasOwn || mayKeep(unanswered.flatMap(textsOf)) ? "unknown" : "rolled back";
  }

  /**
   * Whether the calls that wait may belong to a transaction begun in SQL that was lost with the connection, or to a
   * lost BEGIN. A callback's transaction ends its calls itself, and is made again as a whole. That of a single call has
   * no others.
   */
  get waitingAreLost(): boolean {
    if (this.#isOwn || this.#changesBefore !== undefined) return false;
    return (
      this.place === "inside" || this.#connection.unanswered.some((operation) => textsOf(operation).some(mayBegin))
    );
  }

  /**
   * Whether SQL has ended the transaction of a callback: COMMIT AND CHAIN, or ROLLBACK and perhaps a new BEGIN. A part
   * of what ran since then may be stored, even if a transaction that is open now is rolled back.
   */
  get wasEndedInSql(): boolean {
    return this.#changesBefore !== undefined && this.#connection.blockChanges !== this.#changesBefore;
  }

  /** Whether a flight with BEGIN has failed, in the transaction that was begun last. */
  get beginFailed(): boolean {
    return this.#beginFailed;
  }

  /** Lets a transaction begin with the next flight. */
  begin(text: string): void {
    this.withdraw();
    this.#waiting = text;
    this.#beginFailed = false;
  }

  /** As `begin`, for a single call, until it rolls back what it has not committed. */
  beginOwn(text: string): void {
    this.begin(text);
    this.#isOwn = true;
  }

  /** As `begin`, for a callback, whose SQL may end the transaction. */
  beginCallback(text: string): void {
    this.begin(text);
    this.#changesBefore = this.#connection.blockChanges;
  }

  /** The callback's transaction is over, and its outcome has been told. */
  endCallback(): void {
    this.#changesBefore = undefined;
  }

  /** Withdraws a BEGIN that waits. */
  withdraw(): void {
    this.#isOwn = false;
    this.#waiting = undefined;
    this.#carried = undefined;
    this.#described = undefined;
  }

  /**
   * The statements in front of the next flight: a waiting BEGIN, and settings. None if BEGIN is under way, because what
   * is sent behind it runs inside its transaction: only descriptions may be. `carried` must follow.
   */
  get preludes(): readonly string[] {
    if (this.#waiting === undefined) return this.settings;
    return this.#isUnderWay ? NONE : [this.#waiting, ...this.#settings];
  }

  get #isUnderWay(): boolean {
    return this.#carried !== undefined && !this.#carried.operation.ended;
  }

  /**
   * Notes that the operation, which was put on the wire just now, carries the preludes. Returns it. If a description of
   * the same call has begun the transaction, nothing else is in it, so that both can be repeated together.
   */
  carried(operation: Operation): Operation {
    const described = this.#described;
    this.#described = undefined;
    const begin = this.#waiting ?? (described?.owner === operation.owner ? described?.begin : undefined);
    if (begin !== undefined) this.#carry(begin, operation);
    return this.#noticed(operation);
  }

  /** The same for a description, which leaves nothing in the transaction that it begins. */
  describes(operation: Operation): Operation {
    const begin = this.#waiting;
    if (begin !== undefined && !this.#isUnderWay) {
      this.#carry(begin, operation);
      const { owner } = operation;
      operation.whenOver(() => {
        if (!operation.lost && !operation.error) this.#described = { begin, owner };
      });
    }
    return this.#noticed(operation);
  }

  #carry(begin: string, operation: Operation): void {
    this.#carried = { begin, operation };
    operation.carriesBegin = this.isWaiting;
    operation.whenOver(() => operation.lost ?? this.#arrived(operation));
  }

  #noticed(operation: Operation): Operation {
    if (this.#scope) operation.whenOver(() => (this.#server.database.isCitus ||= isCitusError(operation.error)));
    return operation;
  }

  #arrived({ error }: Operation): void {
    // A flight without an error has begun the transaction, even if its statement (COMMIT or ROLLBACK) has ended it
    // again.
    if (!error || this.status !== "I") this.#waiting = undefined;
    if (error) this.#beginFailed = true;
    else this.#carried = undefined;
  }

  /**
   * Begins the waiting transaction, for an operation that cannot have BEGIN in its own flight; `false` if the call
   * ended meanwhile.
   */
  async begun(call: AnyCall): Promise<boolean> {
    if (this.#waiting === undefined) return !call.finished;
    const operation = this.carried(call.operate(this.#connection, simpleQuery(this.preludes.join("; "))));
    await operation.done;
    if (call.finished) return false;
    if (!operation.error) return true;
    if (this.#server.database.isCitus || !hasCitusMark(operation.error)) throw operation.error;
    this.#server.database.isCitus = true;
    await this.prepareRepeat(operation);
    return await this.begun(call);
  }

  /**
   * Called before a failed operation is repeated. If its flight carried BEGIN, this rolls back, and the repeated flight
   * carries BEGIN again.
   */
  async prepareRepeat(operation: Operation | undefined): Promise<void> {
    const carried = this.#carried;
    if (!carried || carried.operation !== operation) return;
    await this.rollBack();
    if (this.#connection.closed) throw this.#connection.closed;
    this.#waiting = carried.begin;
    this.#beginFailed = false;
  }

  /**
   * Rolls back. The time limit is that of an aborted operation's cleanup. A connection that cannot roll back is
   * destroyed. Never rejects.
   */
  async rollBack(): Promise<void> {
    const connection = this.#connection;
    const isOwn = this.#isOwn;
    this.withdraw();
    // Of a lost session it is still asked which calls are lost with it.
    if (connection.closed) this.#isOwn = isOwn;
    if (connection.closed || this.status === "I") return;
    const ending = connection.operate(simpleQuery("ROLLBACK"));
    ending.carriesEnd = true;
    connection.abandonWithoutCancel(ending);
    await ending.cleanup;
    if (this.status !== "I") connection.destroy(connectionLost("its transaction could not be rolled back"));
  }
}
