// The forms in which bytes are passed, bytes joined into one piece, and conversions between bytes and text.

export type Bytes = ArrayBuffer | ArrayBufferView;

/** `Uint8Array<ArrayBuffer>`. Before TypeScript 5.7 it is `Uint8Array`, which has no type parameter there. */
export type OwnBytes = ReturnType<Uint8ArrayConstructor["of"]>;

export function isBytes(value: unknown): value is Bytes {
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer;
}

export function bytesOf(value: Bytes): Uint8Array {
  return ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : new Uint8Array(value);
}

export const encoder = new TextEncoder();

export function joined(pieces: readonly Uint8Array[]): OwnBytes {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += (byte < 16 ? "0" : "") + byte.toString(16);
  return text;
}

export function base64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** Returns one byte per character, for text that `atob` returns. */
export function characters(text: string): OwnBytes {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}
