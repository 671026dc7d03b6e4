// Bytes that a user means as text.
import { Misuse } from "./misuse.ts";

/** Without its byte order mark. `what` they are, for the message: a replacement character would be stored unseen. */
export function utf8(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Misuse(`${what} is not UTF-8.`);
  }
}
