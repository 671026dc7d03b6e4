/**
 * Reads the body of a request as text or JSON, never more than is allowed. An announced length is checked before
 * anything is read, an unannounced one while the body is read.
 */
import { Problem } from "./problem.ts";

export async function readJson(request: Request, maxBytes: number): Promise<unknown> {
  if (!/^application\/(merge-patch\+)?json\b/i.test(request.headers.get("content-type") ?? ""))
    throw new Problem(415, "NOT_JSON", "Send JSON, with content-type: application/json.");
  const text = await readText(request, maxBytes);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new Problem(400, "NOT_JSON", "The body is no JSON.");
  }
}

export async function readText(request: Request, maxBytes: number): Promise<string> {
  checkLength(request, maxBytes);
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  const reader = request.body?.getReader();
  for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) {
    bytes += step.value.length;
    if (bytes > maxBytes) {
      void reader?.cancel();
      throw tooLarge(maxBytes);
    }
    text += decoder.decode(step.value, { stream: true });
  }
  return text + decoder.decode();
}

export function checkLength(request: Request, maxBytes: number): void {
  if (Number(request.headers.get("content-length")) > maxBytes) throw tooLarge(maxBytes);
}

export function tooLarge(maxBytes: number): Problem {
  return new Problem(413, "TOO_LARGE", `The body may have ${maxBytes} bytes.`);
}
