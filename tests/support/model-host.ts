// Runs a host of the simulator (its server or its pooler) for a driver in real time, over sockets in memory.
//
// Knows the contract of such hosts. Must not know their messages.
import { readFileSync } from "node:fs";
import { memoryListener } from "../../js/runtime/memory.ts";
import { md5 } from "../../js/runtime/node.ts";
import { installRuntime } from "../../js/runtime/runtime.ts";
import type { Accepted, Clock, Dice, Host } from "../simulation/contract.ts";

const wasm = readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url));
const capabilities = { canSkipVerification: true, canUseCustomCa: true, canAlpn: true, canClientCertificate: true };

/** The machine's own clock. */
export const clock: Clock = {
  get now() {
    return performance.now();
  },
  after(milliseconds, event) {
    const timer = setTimeout(event, milliseconds);
    return { cancel: () => clearTimeout(timer) };
  },
  note() {},
};

/** The same numbers each time. */
export function newDice(): Dice {
  let state = 1;
  const below = (n: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  return { below, pick: (choices) => choices[below(choices.length)]!, oneIn: (n) => below(n) === 0 };
}

/** Connects the driver's sockets to `host`. */
export function listen(host: Host): void {
  const { connect, accepted } = memoryListener();
  installRuntime({ name: "node", module: () => wasm, connect, background: () => {}, capabilities, md5 });
  void (async () => {
    for (;;) {
      const peer = await accepted();
      const client: Accepted = host.accept({
        send: (bytes) => peer.send(bytes.slice()),
        end: () => peer.end(),
        reset: () => peer.reset(),
      });
      void (async () => {
        for (;;) {
          const bytes = await peer.received();
          if (!bytes) return client.ended();
          client.receive(bytes);
        }
      })();
    }
  })();
}
