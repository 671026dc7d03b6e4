// Reads single values from the server's text, in the forms of pg: numbers, booleans, bytes, points, circles.
//
// Knows the server's text forms. Must not know OIDs, rows or dates.
import { Buffer } from "node:buffer";

/** The parser for types without a parser of their own. */
export const parseText = (text: unknown): string => String(text);

export const parseInteger = (text: string): number => parseInt(text, 10);

/** Returns the text, because a number cannot hold all digits. */
export const parseBigInteger = (text: string): string => text;

const TRUE: ReadonlySet<string> = new Set(["t", "true", "TRUE", "y", "yes", "on", "1"]);
export const parseBoolean = (text: string): boolean => TRUE.has(text);

export const parseJson = (text: string): unknown => JSON.parse(text);

interface Point {
  x: number;
  y: number;
}

/** `(1,2)` */
export function parsePoint(text: string): Point | null {
  if (text[0] !== "(") return null;
  const [x = "", y = ""] = text.slice(1, -1).split(",");
  return { x: parseFloat(x), y: parseFloat(y) };
}

/** `<(1,2),3>` */
export function parseCircle(text: string): (Point & { radius: number }) | null {
  const parts = /^<\(([^,]*),([^)]*)\),(.*)>$/.exec(text);
  if (!parts) return null;
  const [, x = "", y = "", radius = ""] = parts;
  return { x: parseFloat(x), y: parseFloat(y), radius: parseFloat(radius) };
}

/** Reads `\x0aff`, or with `bytea_output = escape` a text with `\\` and `\ooo`. */
export function parseBytea(text: string): Buffer {
  if (text.startsWith("\\x")) return Buffer.from(text.slice(2), "hex");
  const plain = text.replace(/\\(\\|[0-7]{3})/g, (_, code: string) =>
    code === "\\" ? code : String.fromCharCode(parseInt(code, 8)),
  );
  return Buffer.from(plain, "latin1");
}
