// Checks content. Ours must equal the server's own to_json byte for byte. A peer prints JSON in its own way (no blank
// in jsonb, numeric as text), so its lines are parsed, made canonical, and hashed.
import { createHash } from "node:crypto";
import { ask } from "./connect.mjs";

/**
 * Returns a hash of NDJSON lines that does not depend on blanks, nor on whether a number is printed as number or text.
 */
export function canonicalHash(lines) {
  const hash = createHash("sha256");
  for (const line of lines) hash.update(`${JSON.stringify(canonical(JSON.parse(line)))}\n`);
  return hash.digest("hex");
}

/** The canonical form of a value. It works for the rows of any library, whatever types the library uses. */
export function canonical(value) {
  if (typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value)) return Number(value);
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value, canonical);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, canonical(member)]));
}

/** Returns the server's own JSON of the query, as facts: `{ lines, bytes, sha256, canonical }`. */
export async function serverTruth(url, sql) {
  const rows = await ask(url, { text: `select to_json(t)::text from (${sql}) t`, rowMode: "array" });
  const all = rows.map(([line]) => `${line}\n`).join("");
  return {
    lines: rows.length,
    bytes: Buffer.byteLength(all),
    sha256: createHash("sha256").update(all).digest("hex"),
    canonical: canonicalHash(rows.map(([line]) => line)),
  };
}
