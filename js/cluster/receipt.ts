// Gets the position of a call's commit. The question for it is pipelined: it is sent right after the last message of
// the call or of its COMMIT, and the server answers it after the commit. So it costs no round trip.
//
//   BEGIN ; statement ───> COMMIT ─ Sync ─ where are you? ─ Sync ───>
//                     <─── committed ────── 1m6sgvrcoyvi-1-5xk2o0
//
// Knows one call at a time. Must not know servers. If the question fails, the position is unknown, and the primary
// answers reads after it: a call that has committed must not fail because of its position.
import type { PgzError } from "../index.ts";
import { COPY_NONE, ROWS_ARRAYS } from "../wasm/numbers.ts";
import { ask, NO_LIMITS } from "./internal-queries.ts";
import type { Body, Call, Operation, Session } from "./pool-queue.ts";
import { positionText, UNKNOWN } from "./position.ts";
import { positionIn, type PositionRow } from "./questions.ts";

/** A question that has been sent, and the call that it belongs to. */
interface Asked {
  readonly operation: Operation;
  /** The operation after which the question was sent. If the call has run again since, the answer is too old. */
  readonly after: Operation | undefined;
  readonly answer: { text: string };
}

export class Receipt {
  readonly #question: string;
  readonly #patience: number;
  #asked: Asked | undefined;

  /** `question`: {@link whereAreYou}. `patience`: milliseconds for its answer. */
  constructor(question: string, patience: number) {
    this.#question = question;
    this.#patience = patience;
  }

  /** Returns the call's body with the question sent after it. */
  askAfter<T>(body: Body<T>): Body<T> {
    return (call, session, ending) => {
      const next = call.follower;
      const said = (bytes: number, isFirstRun?: boolean) => {
        this.#ask(session, call.operation);
        next?.sent(bytes, isFirstRun);
      };
      call.follower = { sent: said };
      body(call, session, {
        over: () => this.#whenAnswered(call, session, () => ending.over()),
        failed: (error) => this.#whenAnswered(undefined, session, () => ending.failed(error)),
      });
    };
  }

  /**
   * Sends the question with COMMIT of the transaction that begins on the session now. Returns a function that stops
   * this. It does not stop the next transaction on the session, which may wait for its own COMMIT already.
   */
  awaitCommit(session: Session): () => void {
    const stop = () => {
      if (session.onCommitSent === askForPosition) session.onCommitSent = undefined;
    };
    const askForPosition = () => {
      stop();
      return this.#ask(session, undefined);
    };
    session.onCommitSent = askForPosition;
    return stop;
  }

  /** The question has been sent. */
  get isAsked(): boolean {
    return this.#asked !== undefined;
  }

  /** Resolves with the position after the answer has arrived, or with the reason why there is none. Never rejects. */
  async answer(): Promise<{ readonly text?: string; readonly error?: PgzError | undefined }> {
    const asked = this.#asked;
    if (!asked) return {};
    const { operation, answer } = asked;
    await operation.done.catch(() => {});
    return operation.error || !answer.text
      ? { error: operation.error }
      : { text: positionText(positionIn(JSON.parse(answer.text) as PositionRow)) };
  }

  #ask(session: Session, after: Operation | undefined): Operation {
    const answer = { text: "" };
    const rows = { rows: (view: Uint8Array) => void (answer.text += new TextDecoder().decode(view)) };
    const operation = ask(
      session,
      this.#patience,
      (handle) => handle.simple_query(this.#question, COPY_NONE, ROWS_ARRAYS, NO_LIMITS),
      { rows },
    );
    this.#asked = { operation, after, answer };
    return operation;
  }

  /**
   * Runs `then` after the answer, when the connection is free. `call` is given if the call has succeeded. If no
   * question followed its last operation, asks now.
   */
  #whenAnswered(call: Pick<Call<unknown>, "operation"> | undefined, session: Session, then: () => void): void {
    const isOfThis = this.#asked && this.#asked.after === call?.operation;
    if (call && !isOfThis) this.#ask(session, call.operation);
    if (!this.#asked) return then();
    this.#asked.operation.whenOver(then);
  }
}

export const UNKNOWN_TEXT = positionText(UNKNOWN);
