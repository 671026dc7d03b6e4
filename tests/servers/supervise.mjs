// Runs one server process that cannot outlive this process.
//
// A shell is in between. It starts the server, and beside it a watcher that waits for the shell's stdin to close. That
// happens on `stop()` and also when this process is killed, so no server and no data folder is left over. The shell
// leads its own process group. Otherwise Ctrl-C would reach the shell and the server at once, and the folder would
// remain.
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { connect } from "node:net";

const script = `
signal=$1 folder=$2; shift 2
exec 3<&0
"$@" >&2 </dev/null 3<&- &
child=$!
{ read -r _ <&3; kill -"$signal" "$child"; } 2>/dev/null &
watcher=$!
echo "$child"
wait "$child"
kill "$watcher" 2>/dev/null
rm -rf "$folder"
`;

/**
 * Starts `command` and returns `{ pid, ended, stop }`. `ended` becomes true when the server has ended. `stop` sends
 * `signal` and waits until the server has ended and its `folder` is removed.
 */
export async function supervise({ command, signal, folder, log, identity, env = {} }) {
  const output = openSync(log, "a");
  const shell = spawn("/bin/sh", ["-c", script, "supervise", signal, folder, ...command], {
    ...identity,
    cwd: "/",
    detached: true,
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", output],
  });
  closeSync(output);
  const server = { pid: 0, ended: false, stop };
  const gone = new Promise((resolve) => shell.once("exit", resolve)).then(() => (server.ended = true));
  function stop() {
    shell.ref();
    shell.stdin.end();
    return gone;
  }
  server.pid = await new Promise((resolve, reject) => {
    shell.once("error", reject);
    shell.stdout.once("data", (line) => resolve(Number.parseInt(line, 10)));
  });
  for (const handle of [shell, shell.stdin, shell.stdout]) handle.unref?.(); // Bun's pipes have no unref
  return server;
}

/** Whether something accepts connections on that port. */
export function listens(port) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true) ?? socket.destroy());
    socket.once("error", () => resolve(false));
  });
}
