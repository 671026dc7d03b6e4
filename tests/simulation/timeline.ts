// Shows bytes of a connection as the names of the messages in them, for a session's timeline.
//
// Knows what the letters mean. Must not know the fields of a message: it shows the beginning of it as text.
import { Frames, type Frame } from "./frames.ts";

const FRONTEND: Record<string, string> = {
  B: "Bind",
  C: "Close",
  D: "Describe",
  E: "Execute",
  H: "Flush",
  P: "Parse",
  Q: "Query",
  S: "Sync",
  X: "Terminate",
  c: "CopyDone",
  d: "CopyData",
  f: "CopyFail",
  p: "PasswordMessage",
};

const BACKEND: Record<string, string> = {
  "1": "ParseComplete",
  "2": "BindComplete",
  "3": "CloseComplete",
  A: "NotificationResponse",
  C: "CommandComplete",
  D: "DataRow",
  E: "ErrorResponse",
  G: "CopyInResponse",
  H: "CopyOutResponse",
  I: "EmptyQueryResponse",
  K: "BackendKeyData",
  N: "NoticeResponse",
  R: "Authentication",
  S: "ParameterStatus",
  T: "RowDescription",
  W: "CopyBothResponse",
  Z: "ReadyForQuery",
  c: "CopyDone",
  d: "CopyData",
  n: "NoData",
  s: "PortalSuspended",
  t: "ParameterDescription",
  v: "NegotiateProtocolVersion",
};

const UNTYPED: Record<number, string> = {
  80877102: "CancelRequest",
  80877103: "SSLRequest",
  80877104: "GSSENCRequest",
};

/** One direction of one connection. */
export class Messages {
  readonly #names: Record<string, string>;
  readonly #frames: Frames;

  constructor(direction: ">" | "<") {
    this.#names = direction === ">" ? FRONTEND : BACKEND;
    this.#frames = new Frames(direction);
  }

  /** Returns the messages that these bytes complete, or `""`. */
  read(bytes: Uint8Array): string {
    return merged(this.#frames.read(bytes).map((frame) => this.#text(frame))).join(", ");
  }

  #text({ letter, body }: Frame): string {
    if (!body) return `answer to SSLRequest: ${letter}`;
    if (letter) return `${this.#names[letter] ?? `message ${letter}`}${shown(letter, body)}`;
    return UNTYPED[body.readUInt32BE(0)] ?? `StartupMessage${shown("", body.subarray(4))}`;
  }
}

/** Returns the beginning of the body, or nothing for a body that repeats or is secret. */
function shown(letter: string, body: Uint8Array): string {
  if ("dDp".includes(letter) && letter !== "") return "";
  let text = "";
  for (const byte of body.subarray(0, 160))
    text += byte >= 32 && byte < 127 ? String.fromCharCode(byte) : byte ? "" : " ";
  text = text.replace(/ +/g, " ").trim();
  return text && ` "${text.length > 90 ? `${text.slice(0, 90)}…` : text}"`;
}

/** Merges equal neighbours into one text with their number. */
function merged(said: readonly string[]): string[] {
  const all: { text: string; times: number }[] = [];
  for (const text of said) {
    const last = all.at(-1);
    if (last?.text === text) last.times++;
    else all.push({ text, times: 1 });
  }
  return all.map(({ text, times }) => (times > 1 ? `${times} × ${text}` : text));
}
