// Decodes a user's bytes as UTF-8.
import { Misuse } from "./misuse.ts";

/**
 * Returns the text, without a byte order mark. Throws Misuse for anything but UTF-8, because a replacement character
 * would be stored unnoticed. `what` names the bytes in the message.
 */
export function utf8(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Misuse(`${what} is not UTF-8.`);
  }
}
