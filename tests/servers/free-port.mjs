// A port for a program that binds it by its number a moment later.
//
// Not one that the system gives: another test's server could be given the same before the program binds it, and would
// then get the program's clients. Systems give ports from 32768 on (Linux) or 49152 (others), so these are lower.
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

const [FIRST, LAST] = [12_000, 32_000];

export async function freePort() {
  for (;;) {
    const port = randomInt(FIRST, LAST);
    if (await isFree(port)) return port;
  }
}

function isFree(port) {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", (error) => {
      if (["EADDRINUSE", "EACCES"].includes(error.code)) resolve(false);
      else reject(error);
    });
    server.listen(port, () => server.close(() => resolve(true)));
  });
}
