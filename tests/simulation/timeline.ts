// Shows bytes of a connection as the names of the messages in them, for a session's timeline.
//
// Knows how messages are framed and what the letters mean. Must not know the fields of a message: it shows the
// beginning of it as text.

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
  #rest = new Uint8Array(0);
  /** The frontend's first messages have no letter; the answer to SSLRequest is a letter alone. */
  #isTyped: boolean;
  #isFirst = true;

  constructor(direction: ">" | "<") {
    this.#names = direction === ">" ? FRONTEND : BACKEND;
    this.#isTyped = direction === "<";
  }

  /** Returns the messages that these bytes complete, or `""`. */
  read(bytes: Uint8Array): string {
    const all = new Uint8Array(this.#rest.length + bytes.length);
    all.set(this.#rest);
    all.set(bytes, this.#rest.length);
    const said: string[] = [];
    let at = 0;
    for (let next; (next = this.#message(all, at)); at = next.end) said.push(next.text);
    this.#rest = all.slice(at);
    return merged(said).join(", ");
  }

  #message(all: Uint8Array, at: number): { text: string; end: number } | undefined {
    const left = all.length - at;
    const isFirst = this.#isFirst;
    if (left) this.#isFirst = false;
    if (isFirst && this.#names === BACKEND && (all[at] === 83 || all[at] === 78))
      return { text: `answer to SSLRequest: ${String.fromCharCode(all[at])}`, end: at + 1 };
    const head = this.#isTyped ? 5 : 4;
    if (left < head) return undefined;
    const view = new DataView(all.buffer, all.byteOffset);
    const end = at + head + view.getUint32(at + head - 4) - 4;
    if (end > all.length) return undefined;
    const body = all.subarray(at + head, end);
    if (this.#isTyped) {
      const letter = String.fromCharCode(all[at]!);
      return { text: `${this.#names[letter] ?? `message ${letter}`}${shown(letter, body)}`, end };
    }
    const code = view.getUint32(at + 4);
    this.#isTyped = !(code in UNTYPED);
    return { text: UNTYPED[code] ?? `StartupMessage${shown("", body.subarray(4))}`, end };
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
