// A connection that does nothing but write down what is done with it, in `log`, and answers statements as a test says.
//
// For what a pool does with one connection (cleaning.ts, member-lifecycle.ts), whose every order of events no server would show.
import type { Connection } from "../../js/connection/connection.ts";
import type { Conversation } from "../../js/connection/operation.ts";
import type { PgzError } from "../../js/util/errors.ts";
import type { CoreConnection } from "../../js/wasm/boundary.ts";

/** How a statement is answered: by a row perhaps, with an error, by the end of the connection, or never. */
export type Answer = "done" | `row ${string}` | "error" | "lost" | "silence";

export const LOST = new Error("lost") as unknown as PgzError;

export class FakeConnection {
  readonly log: string[] = [];
  readonly config = {
    host: "fake",
    port: 1,
    database: "fake",
    user: "fake",
    startup: [],
    pipelining: 1,
    targetSessionAttrs: "any" as string,
  };
  readonly parameters = new Map<string, string>();
  readonly startup = { done: Promise.resolve() as Promise<unknown> };
  readonly listeners = new Set<() => void>();
  closed: PgzError | undefined;
  stopping: Promise<unknown> | undefined;
  established = true;
  isBusy = false;
  refusedWrite = false;
  staysRead = false;
  transactionStatus = "I";
  /** To each statement, by what its text begins with. */
  answers: Readonly<Record<string, Answer>> = {};
  #silent: ((error: PgzError) => void)[] = [];

  /** As what it pretends to be. */
  get real(): Connection {
    return this as unknown as Connection;
  }

  onClosed(listener: () => void): void {
    this.listeners.add(listener);
  }

  operate(command: (handle: CoreConnection) => number, { rows }: Conversation = {}): unknown {
    let text = "";
    command({ simple_query: (sent: string) => ((text = sent), 0) } as unknown as CoreConnection);
    this.log.push(text || "nothing");
    const [, answer = "done"] = Object.entries(this.answers).find(([start]) => text.startsWith(start)) ?? [];
    if (answer.startsWith("row ")) rows!.rows(new TextEncoder().encode(answer.slice(4)));
    if (answer === "lost") this.closed ??= LOST;
    const ends = {
      lost: () => Promise.reject(this.closed),
      silence: () => new Promise((_, reject) => this.#silent.push(reject)),
    }[answer as "lost"];
    const done = ends?.() ?? Promise.resolve();
    return { done, error: answer === "error" ? new Error(answer) : undefined };
  }

  destroy(error: PgzError): void {
    if (this.closed) return;
    this.log.push(`destroy: ${error.message}`);
    this.#end(error);
  }

  close(): Promise<void> {
    if (this.closed) return Promise.resolve();
    this.log.push("close");
    this.#end(LOST);
    return Promise.resolve();
  }

  #end(error: PgzError): void {
    this.closed = error;
    for (const reject of this.#silent.splice(0)) reject(error);
    for (const listener of this.listeners) listener();
  }
}
