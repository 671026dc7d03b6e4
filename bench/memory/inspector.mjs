// Reads the memory of a workerd isolate through its inspector (Miniflare's `inspectorPort`): the garbage-collected
// heap, and ArrayBuffers outside of it. Local workerd enforces no limit, so only these figures show what a Worker would
// be charged. Runtime.evaluate finds no context there (tried), so the Worker itself reports its wasm memory.
import { createRequire } from "node:module";

// miniflare's own copy, because Node 20 has no WebSocket.
const require = createRequire(createRequire(import.meta.url).resolve("miniflare"));
const WebSocket = require("ws");

/**
 * Returns `{ heap(), close() }`. `heap` returns V8's answer: usedSize, totalSize, embedderHeapUsedSize,
 * backingStorageSize in bytes.
 */
export async function inspect(inspector) {
  const targets = await (await fetch(new URL("/json", inspector.replace("ws:", "http:")))).json();
  const { webSocketDebuggerUrl } = targets.find(({ id }) => id === "core:user:");
  const socket = new WebSocket(webSocketDebuggerUrl);
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  const waiting = new Map();
  let number = 0;
  socket.on("message", (text) => {
    const { id, result, error } = JSON.parse(text);
    if (id === undefined) return; // an event
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(new Error(`inspector: ${error.message}`));
    else resolve(result);
  });
  const send = (method) =>
    new Promise((resolve, reject) => {
      waiting.set(++number, { resolve, reject });
      socket.send(JSON.stringify({ id: number, method }));
    });
  await send("Runtime.enable");
  return { heap: () => send("Runtime.getHeapUsage"), close: () => socket.terminate() };
}
