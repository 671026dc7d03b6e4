// How the pooler logs in to its server: the client's side of cleartext, MD5 and SCRAM-SHA-256.
//
// Knows these conversations. Must not know connections. Hashes are node:crypto's synchronous ones.
import { createHash, createHmac, pbkdf2Sync } from "node:crypto";
import type { Dice } from "../contract.ts";
import { Fields, Message, textOf, utf8 } from "./messages.ts";

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

const hex = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("hex");
const hmac = (key: Uint8Array, text: string): Uint8Array => createHmac("sha256", key).update(text).digest();
const base64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));

/** Cached for the whole process, because deriving a key takes a while. */
const salted = new Map<string, Uint8Array>();

export class ServerLogin {
  readonly #credentials: Credentials;
  readonly #dice: Dice;
  #nonce = "";

  constructor(credentials: Credentials, dice: Dice) {
    this.#credentials = credentials;
    this.#dice = dice;
  }

  /** Returns the response to the body of an Authentication message, or `undefined` if the message needs none. */
  answer(body: Uint8Array): Uint8Array | undefined {
    const fields = new Fields(body);
    const { user, password } = this.#credentials;
    switch (fields.int32()) {
      case 3:
        return new Message("p").string(password).done();
      case 5: {
        const inner = hex(utf8(`${password}${user}`));
        const salt = fields.take(4);
        return new Message("p").string(`md5${hex(Uint8Array.from([...utf8(inner), ...salt]))}`).done();
      }
      case 10:
        return this.#first();
      case 11:
        return this.#final(textOf(fields.rest()));
      default:
        return undefined;
    }
  }

  #first(): Uint8Array {
    this.#nonce = base64(Uint8Array.from({ length: 18 }, () => this.#dice.below(256)));
    const first = utf8(`n,,n=,r=${this.#nonce}`);
    return new Message("p").string("SCRAM-SHA-256").int32(first.length).bytes(first).done();
  }

  #final(challenge: string): Uint8Array {
    const [, nonce = "", salt = "", rounds = ""] = /^r=([^,]*),s=([^,]*),i=(\d+)$/.exec(challenge) ?? [];
    const withoutProof = `c=biws,r=${nonce}`;
    const key = hmac(saltedPassword(this.#credentials.password, salt, Number(rounds)), "Client Key");
    const stored = createHash("sha256").update(key).digest();
    const signature = hmac(stored, `n=,r=${this.#nonce},${challenge},${withoutProof}`);
    const proof = base64(key.map((byte, at) => byte ^ signature[at]!));
    return new Message("p").bytes(utf8(`${withoutProof},p=${proof}`)).done();
  }
}

function saltedPassword(password: string, salt: string, rounds: number): Uint8Array {
  const name = `${rounds} ${salt} ${password}`;
  let found = salted.get(name);
  if (!found) {
    const bytes = Uint8Array.from(atob(salt), (letter) => letter.charCodeAt(0));
    salted.set(name, (found = pbkdf2Sync(password, bytes, rounds, 32, "sha256")));
  }
  return found;
}
