// CancelRequest: opens a second socket to the same server, secured like the first, sends the key and waits for the end
// of the socket.
//
// The end matters: the server closes that socket after it has signalled the session. So once the socket has ended, the
// cancel cannot hit the next statement. Knows nothing of operations: the caller decides whether there is still
// something to cancel.
import { onAbort } from "../util/abort.ts";
import { dial, type Target } from "./dial.ts";
import { createCore } from "../wasm/module.ts";

/**
 * Calls `key` when the socket is open, and sends nothing if `key` returns `undefined` or no bytes. Never rejects.
 * Resolves with `false` if a request may still be in flight. (The old workerd reports an RST as a clean end, so there
 * it is `true` a little too often.)
 */
export async function sendCancelRequest(
  target: Target,
  key: () => Uint8Array | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  let over = true;
  try {
    const core = createCore(1024, "", 0); // for SSLRequest
    try {
      const { socket } = await dial(target, core, signal);
      const close = () => void socket.close();
      const stop = onAbort(signal, close);
      try {
        const request = signal.aborted ? undefined : key();
        if (!request?.length) return true;
        over = false;
        await socket.write(request);
        while (await socket.read());
        return true;
      } finally {
        stop();
        close();
      }
    } finally {
      core.free();
    }
  } catch {
    // The server is unreachable, or the socket ended with an RST.
    return over;
  }
}
