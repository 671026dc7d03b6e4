// CancelRequest: a second socket to the same server, secured as the first, that carries the key and waits for its end.
//
// The end matters: the server closes that socket after it has signalled the session, so a cancel that has been waited
// for cannot meet the next statement. Knows nothing of operations: who calls says whether there is still something to
// cancel.
import { onAbort } from "../util/abort.ts";
import { dial, type Target } from "./dial.ts";
import { createCore } from "../wasm/module.ts";

/**
 * `key` is asked when the socket stands: `undefined` or empty, and nothing is sent. Never rejects. `false`: a request
 * may be under way still. (The old workerd shows an RST as a clean end, so there it is `true` a little too often.)
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
    // An unreachable server, or an RST for an end.
    return over;
  }
}
