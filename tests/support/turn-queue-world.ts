// A queue of calls on one connection, without a connection: calls and sessions are stand-ins that a test advances, and
// all events are recorded.
//
// Knows what turn-queue.ts needs of calls and sessions. Must not know queues or clients.
import { QueuedCall, TurnQueue, type WireUse } from "../../js/api/turn-queue.ts";
import type { Call, Ending } from "../../js/session/call.ts";
import type { Session } from "../../js/session/session.ts";
import { quiet } from "./memory-session.ts";

interface Extra {
  use?: WireUse;
  connected?: () => Session | Promise<Session>;
  body?: (call: Call<void>, session: Session) => void;
  next?: "fail" | "begin again" | "leave";
  call?: object;
}

/** One turn queue, and its events in `log`. */
export class TurnQueueWorld {
  readonly log: string[] = [];
  readonly line: TurnQueue;
  written: Promise<void> = Promise.resolve();
  session = this.newSession();

  constructor(pipelining: number) {
    this.line = new TurnQueue(pipelining);
  }

  newSession(sessionChanges?: object): Session {
    const written = () => this.written;
    return {
      connection: {
        get written() {
          return written();
        },
        config: "config",
      },
      sessionChanges,
    } as never;
  }

  /** Queues a call with this name. */
  call(name: string, { use = "shared", connected, body, next = "fail", call: more }: Extra = {}) {
    let ending!: Ending;
    const call = {
      finished: false,
      follower: undefined as { sent(bytes: number, isFirstRun?: boolean): void } | undefined,
      subject: undefined as { text: string } | undefined,
      operation: undefined as { cleanup?: Promise<unknown> } | undefined,
      fail: (error: Error) => void this.log.push(`${name} fails: ${error.message}`),
      ...more,
    };
    const run = (_: unknown, session: Session, end: Ending) => {
      ending = end;
      this.log.push(`${name} begins`);
      body?.(call as never, session);
    };
    const { log } = this;
    const newest = () => this.session;
    class Queued extends QueuedCall<void> {
      connected = connected ?? newest;
      failedOn = (_: Session, error: unknown) => {
        log.push(`${name} is asked about ${(error as Error).message}`);
        return next;
      };
      free = () => void log.push(`${name} is free`);
    }
    this.line.run(new Queued(call as never, use, run, () => {}));
    return {
      call,
      /** The call has sent its last message. */
      says: (bytes = 1, isFirstRun = false) => {
        const { follower } = call;
        call.follower = undefined;
        follower?.sent(bytes, isFirstRun);
      },
      over: () => ending.over(),
      fails: (text: string) => ending.failed(new Error(text)),
    };
  }

  /** Returns the events since the last look. The calls that have left come last. */
  async news(): Promise<string[]> {
    await quiet();
    const isFree = (line: string) => line.endsWith("is free");
    const all = this.log.splice(0);
    return [...all.filter((line) => !isFree(line)), ...all.filter(isFree).sort()];
  }

  /** The same in one line. */
  async told(): Promise<string> {
    return (await this.news()).join(", ");
  }
}
