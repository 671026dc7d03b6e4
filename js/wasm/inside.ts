// Decodes the wasm of an entry whose file contains it as base64: bundlers and single-file compilers cannot lose it
// there.
//
// The runtime decodes it when the first connection needs it. esbuild's own loader decodes in JavaScript as soon as the
// file is loaded, which took Node 9 ms of CPU at every start.

interface Decoders {
  readonly Uint8Array: { fromBase64?(text: string): Uint8Array<ArrayBuffer> };
  /** Not a global in every Deno, nor in browsers. */
  readonly Buffer?: { from(text: string, encoding: "base64"): Uint8Array<ArrayBuffer> };
}

export function decoded(wasm: string): Uint8Array<ArrayBuffer> {
  const { Uint8Array: Bytes, Buffer } = globalThis as unknown as Decoders;
  if (Bytes.fromBase64) return Bytes.fromBase64(wasm);
  if (Buffer) return Buffer.from(wasm, "base64");
  const characters = atob(wasm);
  const bytes = new Uint8Array(characters.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = characters.charCodeAt(at);
  return bytes;
}
