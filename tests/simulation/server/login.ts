// Authentication by trust, cleartext, MD5 or SCRAM-SHA-256.
//
// Knows these conversations and their proofs. Must not know what a session does later. Salts come from a short list, so
// that a client may keep what it has derived from them. Hashes are node:crypto's synchronous ones, which give the same
// order of events each time.
import { createHash, createHmac, pbkdf2Sync } from "node:crypto";
import type { Dice } from "../contract.ts";
import { PgError, protocolViolation, wrongPassword } from "./errors.ts";
import { authentication, authenticationOk, Fields, Message, textOf, utf8 } from "./messages.ts";
import type { Doing } from "./process.ts";

export type Method = "trust" | "password" | "md5" | "scram-sha-256";

export interface LoginTalk {
  send(message: Uint8Array): void;
  flush(): void;
  /** The body of the next PasswordMessage, SASLInitialResponse or SASLResponse. */
  password(): Doing<Uint8Array>;
}

export interface Account {
  readonly user: string;
  /** `undefined`: there is no such role, which must not show before the proof fails. */
  readonly password: string | undefined;
  /** Whether a cleartext password is right, where several passwords are, as with tokens. */
  readonly accepts?: ((password: string) => boolean) | undefined;
}

/** Requests the proof. Throws a FATAL error if the proof is wrong. */
export function* authenticate(method: Method, account: Account, talk: LoginTalk, dice: Dice): Doing<void> {
  if (method === "password") yield* cleartext(account, talk);
  if (method === "md5") yield* md5(account, talk, dice);
  if (method === "scram-sha-256") yield* scram(account, talk, dice);
  talk.send(authenticationOk());
}

function* cleartext({ user, password, accepts }: Account, talk: LoginTalk): Doing<void> {
  talk.send(authentication(3));
  talk.flush();
  const given = yield* passwordText(talk);
  if (given === "") throw new PgError("28P01", "empty password returned by client", { severity: "FATAL" });
  if (accepts ? !accepts(given) : given !== password) throw wrongPassword(user);
}

function* passwordText(talk: LoginTalk): Doing<string> {
  const body = yield* talk.password();
  const fields = new Fields(body);
  const text = fields.string();
  if (!fields.isAtEnd) throw new PgError("08P01", "invalid password packet size", { severity: "FATAL" });
  return text;
}

const hex = (text: Uint8Array | string): string => createHash("md5").update(text).digest("hex");

function* md5({ user, password }: Account, talk: LoginTalk, dice: Dice): Doing<void> {
  const salt = Uint8Array.from({ length: 4 }, () => dice.below(256));
  talk.send(authentication(5, salt));
  talk.flush();
  const given = yield* passwordText(talk);
  const inner = utf8(hex(utf8(`${password ?? ""}${user}`)));
  if (password === undefined || given !== `md5${hex(Uint8Array.from([...inner, ...salt]))}`) throw wrongPassword(user);
}

// -- SCRAM ------------------------------------------------------------------------------------------------------------

export const ITERATIONS = 4_096;
/** In base64, as the server sends them. */
export const SALTS: readonly string[] = [
  "c2FsdCBudW1iZXIgb25lIQ==",
  "c2FsdCBudW1iZXIgdHdvIQ==",
  "c2FsdCBudW1iZXIgdGhyZQ==",
];

const salted = new Map<string, Uint8Array>();

/** Cached for the whole process, because 4,096 rounds take a while. */
function saltedPassword(password: string, salt: string): Uint8Array {
  const key = `${salt} ${password}`;
  let found = salted.get(key);
  if (!found) salted.set(key, (found = pbkdf2Sync(password, unbase64(salt), ITERATIONS, 32, "sha256")));
  return found;
}

const hmac = (key: Uint8Array, text: string): Uint8Array => createHmac("sha256", key).update(text).digest();
const base64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));
const unbase64 = (text: string): Uint8Array => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const bad = (message: string, detail: string): PgError => new PgError("08P01", message, { severity: "FATAL", detail });

function* scram({ user, password }: Account, talk: LoginTalk, dice: Dice): Doing<void> {
  talk.send(authentication(10, new Message(" ").string("SCRAM-SHA-256").byte(0).done().subarray(5)));
  talk.flush();
  const initial = new Fields(yield* talk.password());
  const mechanism = initial.string();
  if (mechanism !== "SCRAM-SHA-256")
    throw new PgError("08P01", "client selected an invalid SASL authentication mechanism", { severity: "FATAL" });
  const length = initial.int32();
  const first = textOf(initial.take(Math.max(0, length)));
  if (!initial.isAtEnd) throw protocolViolation("invalid message format");
  const [, header, bare, clientNonce] = /^([ny],[^,]*,)(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+))$/.exec(first) ?? [];
  if (header === undefined || bare === undefined || clientNonce === undefined)
    throw bad("malformed SCRAM message", "The message is not one of a client.");

  const nonce = clientNonce + base64(Uint8Array.from({ length: 18 }, () => dice.below(256)));
  // A role has one salt, as it is stored with the role's verifier.
  const salt = SALTS[[...user].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % SALTS.length]!;
  const challenge = `r=${nonce},s=${salt},i=${ITERATIONS}`;
  talk.send(authentication(11, utf8(challenge)));
  talk.flush();

  const last = textOf(yield* talk.password());
  const [, withoutProof, binding, answered, proof] = /^(c=([^,]*),r=([^,]*)),p=([^,]*)$/.exec(last) ?? [];
  if (withoutProof === undefined || proof === undefined)
    throw bad("malformed SCRAM message", "The message is not one of a client.");
  if (answered !== nonce) throw bad("invalid SCRAM response", "Nonce does not match.");
  if (binding !== base64(utf8(header)))
    throw new PgError("08P01", "unexpected SCRAM channel-binding attribute in client-final-message", {
      severity: "FATAL",
    });

  const secret = saltedPassword(password ?? "", salt);
  const message = `${bare},${challenge},${withoutProof}`;
  const clientKey = hmac(secret, "Client Key");
  const storedKey = createHash("sha256").update(clientKey).digest();
  const signature = hmac(storedKey, message);
  const expected = base64(clientKey.map((byte, at) => byte ^ signature[at]!));
  if (password === undefined || proof !== expected) throw wrongPassword(user);
  talk.send(authentication(12, utf8(`v=${base64(hmac(hmac(secret, "Server Key"), message))}`)));
}
