// Asks a question in front of a call: on the same session, in the same write, with a Sync of its own.
//
//   moment ─ Sync ─ query ─ Sync ───>      the moment is never newer than the query's snapshot
//
// The server parses the query each time, behind the moment. A statement that a session has parsed before may read a
// table whose name another table has taken since, in a schema that comes first: PostgreSQL does not parse it again.
//
// Knows the queue of a client or a pool. Must not know what is asked, or why.
//
// The question is put on the wire once. Sent again, it would be behind the query. So there is no answer if the server
// refuses its statement, or if that must be described first; the next call has one.
import type { CallArguments } from "../api/call-runner.ts";
import type { Counters } from "../api/ledger.ts";
import type { Body } from "../api/turn-queue.ts";
import type { Config } from "../config/options.ts";
import type { Operation } from "../connection/operation.ts";
import { TransactionCalls, type Client, type Pool, type Scope, type UsageError } from "../index.ts";
import type { AnyCall, Call } from "../session/call.ts";
import type { Shape } from "../server/shapes.ts";
import type { Session } from "../session/session.ts";
import { rowsOf } from "../util/question.ts";

/** The part of a client, pool or scope that is used here, besides its public calls. */
export interface Queue {
  readonly config: Config;
  readonly counters: Counters;
  run<T>(...call: CallArguments<T>): Promise<T>;
}

export const queueOf = (db: Client | Pool | Scope): Queue => db as unknown as Queue;

/** Calls that run elsewhere. */
abstract class Passing extends TransactionCalls {
  /** @internal */
  protected override readonly signal = undefined;

  /** Where they run, they are refused. @internal */
  protected override refused(): UsageError | undefined {
    return undefined;
  }

  /** @internal */
  protected override close(): never {
    throw new Error("it has nothing to close");
  }

  /** @internal */
  protected override connected(): never {
    throw new Error("it has no connection of its own");
  }

  /** @internal */
  protected override runTransaction(): never {
    throw new Error("it has no transactions");
  }

  /** @internal */
  protected override get shown() {
    return { name: this.constructor.name };
  }
}

/** The calls of `db`, each with the question in front of it. */
export class Stamped<Row> extends Passing {
  readonly #queue: Queue;
  readonly #question: string;
  #session: Session | undefined;
  /** What was known of the statement before it ran. */
  #before: Shape | undefined;
  /** The answer to the question that was sent last. Never rejects. Undefined: there is none. */
  answer: Promise<Row | undefined> = Promise.resolve(undefined);

  constructor(db: Client | Pool | Scope, question: string) {
    const queue = queueOf(db);
    super(queue.config, queue.counters);
    this.#queue = queue;
    this.#question = question;
  }

  /**
   * The types of the parameters that a statement has just run with. Undefined: they are not known, as when another
   * session has learned others while it ran.
   */
  parameterTypesOf(text: string): readonly number[] | undefined {
    const shape = this.#session?.statements.known(text);
    const isOfRun = this.#before === undefined || this.#before === shape;
    return shape && isOfRun ? [...shape.parameterTypes] : undefined;
  }

  /** The next call asks the server for these types. */
  forgetTypesOf(text: string): void {
    this.#session?.statements.forgetShape(text);
  }

  /** @internal */
  protected override run<T>(...[subject, options, body, use]: CallArguments<T>): Promise<T> {
    const behind: Body<T> = (call, session, ending) => {
      this.#session = session;
      this.#before = session.statements.known(subject.text);
      call.parsesAnew = true;
      this.answer = rowsOf<Row>(new OneOperation(this.#queue, session), this.#question).then(
        ([row]) => row,
        () => undefined,
      );
      body(call, session, ending);
    };
    return this.#queue.run(subject, options, behind, use);
  }
}

/** The calls of a session, of which the first may put one operation on the wire, at once. */
class OneOperation extends Passing {
  readonly #session: Session;

  constructor({ config, counters }: Queue, session: Session) {
    super(config, counters);
    this.#session = session;
  }

  /** @internal */
  protected override run<T>(...[, , body]: CallArguments<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const call = new OneOperationCall(resolve);
      // `over` follows `succeed`, and to make an error takes longer than all else here.
      const over = () => void (call.hasSucceeded || reject(unanswered()));
      body(call as unknown as Call<T>, this.#session, { over, failed: reject });
      if (call.operation) return;
      call.finished = true;
      reject(unanswered());
    });
  }
}

/** What an execution needs of its call. No deadline: the call behind it has one. */
class OneOperationCall<T> implements AnyCall {
  readonly comment = "";
  readonly parsesAnew = false; // the question names its schemas
  readonly copying = undefined;
  operation: Operation | undefined;
  finished = false;
  hasSucceeded = false;
  readonly #resolve: (value: T) => void;

  constructor(resolve: (value: T) => void) {
    this.#resolve = resolve;
  }

  readonly succeed = (value: T): void => {
    this.hasSucceeded = true;
    this.#resolve(value);
  };

  operate(...[connection, command, conversation]: Parameters<AnyCall["operate"]>): Operation {
    if (this.operation || this.finished) throw unanswered();
    return (this.operation = connection.operate(command, conversation));
  }

  sent(): void {}

  /** A listener is for calls that a deadline may end. */
  whenOver(): void {}
}

const unanswered = (): Error => new Error("The question would come after the call.");
