// The types of wire.mjs that TypeScript tests use.
export const cstring: (text: string) => Buffer;
export const int16: (n: number) => Buffer;
export const int32: (n: number) => Buffer;
export const message: (letter: string, ...parts: Uint8Array[]) => Buffer;
/** A message with any length word, right or wrong. */
export const raw: (letter: string, length: number, ...parts: Uint8Array[]) => Buffer;
export const authentication: (code: number, ...rest: Uint8Array[]) => Buffer;
export const authenticationOk: () => Buffer;
export const parameterStatus: (name: string, value: string) => Buffer;
export const backendKeyData: (processId: number, key: Uint8Array) => Buffer;
export const readyForQuery: (status?: "I" | "T" | "E") => Buffer;
export const parseComplete: () => Buffer;
export const bindComplete: () => Buffer;
export const closeComplete: () => Buffer;
export const noData: () => Buffer;
export const commandComplete: (tag: string) => Buffer;
export const errorResponse: (fields: Record<string, string>) => Buffer;
export const noticeResponse: (fields: Record<string, string>) => Buffer;
export const parameterDescription: (oids: number[]) => Buffer;
export const rowDescription: (columns: { name: string; oid: number; size?: number }[], formats?: number[]) => Buffer;
export const dataRow: (cells: (Uint8Array | null)[]) => Buffer;

export class FrontendReader {
  push(chunk: Buffer): void;
  next(): { name: string; letter: string; body: Buffer; size: number } | null;
}
