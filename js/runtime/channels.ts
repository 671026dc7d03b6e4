// Tracing channels of `node:diagnostics_channel`, to which tools subscribe without the driver knowing them:
// `tracing:pgz-edge:query:start`, `…:end`, `…:asyncStart`, `…:asyncEnd`, `…:error`, and the same for `batch`, `copy`,
// `connect` and `acquire`.
//
// Knows the events of an observer and their names in a message, which are those of mysql2. It is itself an observer, so
// that each event is made in one place. Must not know calls or connections.
//
// The module is looked up and not imported: where it is missing (Workers without nodejs_compat, browsers) there are no
// channels.
import { observers, type CallKind, type Enter, type Observer, type ServerAddress } from "../util/observer.ts";

type Kind = CallKind | "connect" | "acquire";

/** The part of a channel that is used. */
interface Channel {
  /** A method in workerd, depending on its compatibility date. */
  readonly hasSubscribers: boolean | (() => boolean);
  publish(message: unknown): void;
  runStores(message: unknown, work: () => void): void;
}

const PARTS = ["start", "end", "asyncStart", "asyncEnd", "error"] as const;

type TracingChannel = Readonly<Record<(typeof PARTS)[number], Channel>> & {
  /** Missing in Bun; a method in workerd, depending on its compatibility date. */
  readonly hasSubscribers?: boolean | (() => boolean);
};

/** Returns the observer, together with the channel of this kind if that has subscribers. */
export function watched(kind: Kind, observer: Observer | undefined): Observer | undefined {
  const channel = (channels ??= open())[kind];
  if (!channel || !hasSubscribers(channel)) return observer;
  return observer ? withChannels(observer) : publisher;
}

let channels: { readonly [K in Kind]?: TracingChannel } | undefined;

function open(): { readonly [K in Kind]?: TracingChannel } {
  const channel = diagnostics()?.tracingChannel;
  if (!channel) return {};
  const named = (kind: Kind) => channel(`pgz-edge:${kind}`);
  return {
    query: named("query"),
    batch: named("batch"),
    copy: named("copy"),
    connect: named("connect"),
    acquire: named("acquire"),
  };
}

function diagnostics(): { readonly tracingChannel?: (name: string) => TracingChannel } | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => object } };
  try {
    return process?.getBuiltinModule?.("node:diagnostics_channel");
  } catch {
    return undefined; // Next's edge runtime has the method, which throws
  }
}

function hasSubscribers(channel: TracingChannel): boolean {
  const has = channel.hasSubscribers;
  if (typeof has === "boolean") return has;
  return PARTS.some((part) => {
    const { hasSubscribers: has } = channel[part];
    return typeof has === "function" ? has.call(channel[part]) : has;
  });
}

const pairs = new WeakMap<Observer, Observer>();

function withChannels(observer: Observer): Observer {
  let pair = pairs.get(observer);
  if (!pair) pairs.set(observer, (pair = observers(observer, publisher)));
  return pair;
}

// -- messages --------------------------------------------------------------------------------------------------------

/** A traced operation that has begun. */
interface Open {
  readonly channel: TracingChannel;
  /** The same object in all messages of one call. The facts of its end are added to it. */
  readonly message: Record<string, unknown>;
  /** The part that runs synchronously is over, and `end` has been published. */
  hasReturned: boolean;
  /** Publishes its end. Set if the end came before `hasReturned`. */
  settle?: () => void;
}

/** What has begun, by the id of its events. */
const opened = new Map<number, Open>();

const publisher: Observer = {
  onQueryStart: ({ id, kind, text, texts, parameters, ...address }) =>
    start(kind, id, {
      query: text,
      ...(texts && { queries: texts }),
      ...(parameters && { values: parameters }),
      address,
    }),
  onQueryEnd: ({ id, rows, bytes, command, waitMs, durationMs, error, ...address }) =>
    settle(id, { rows, bytes, command, waitMs, durationMs, address }, error),
  onConnectStart: ({ id, user, ...address }) => start("connect", id, { user, address }),
  onConnect: ({ id, durationMs, processId, error }) => settle(id, { durationMs, processId }, error),
  onAcquireStart: ({ id, ...address }) => start("acquire", id, { address }),
  onAcquire: ({ id, waitMs, error }) => settle(id, { waitMs }, error),
};

type Facts = Record<string, unknown> & { readonly address?: ServerAddress };

function named({ address, ...facts }: Facts): Record<string, unknown> {
  if (!address) return facts;
  return { ...facts, database: address.database, serverAddress: address.host, serverPort: address.port };
}

function start(kind: Kind, id: number, facts: Facts): Enter {
  const open: Open = { channel: channels![kind]!, message: named(facts), hasReturned: false };
  opened.set(id, open);
  const { channel, message } = open;
  return (work) =>
    channel.start.runStores(message, () => {
      work();
      open.hasReturned = true;
      channel.end.publish(message);
      open.settle?.();
    });
}

function settle(id: number, facts: Facts, error: unknown): void {
  const open = opened.get(id);
  if (!open) return;
  opened.delete(id);
  const { channel, message } = open;
  const publish = () => {
    Object.assign(message, named(facts), error !== undefined && { error });
    if (error !== undefined) channel.error.publish(message);
    channel.asyncStart.publish(message);
    channel.asyncEnd.publish(message);
  };
  if (open.hasReturned) publish();
  else open.settle = publish;
}
