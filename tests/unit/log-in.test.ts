// logIn: the core gets the login and no more, wherever the server's bytes are split; what stands behind it is the
// caller's, and ending the login does not end the connection.
import { readFileSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import { logIn } from "../../js/api/log-in.ts";
import type { Socket } from "../../js/sockets/contract.ts";
import { installRuntime, type Runtime } from "../../js/sockets/runtime.ts";

const message = (type: string, ...body: number[]) => [type.charCodeAt(0), 0, 0, 0, body.length + 4, ...body];
const text = (value: string) => [...new TextEncoder().encode(value), 0];
const LOGIN = [
  ...message("R", 0, 0, 0, 0),
  ...message("S", ...text("server_version"), ...text("18.0")),
  ...message("S", ...text("client_encoding"), ...text("UTF8")),
  ...message("K", 0, 0, 0, 7, 1, 2, 3, 4),
  ...message("Z", 73),
];
/** A message that has come in part. */
const BEHIND = [65, 0, 0, 0, 99, 1];

beforeAll(() => {
  const module = () => readFileSync(new URL("../../pkg/pgz_edge_bg.wasm", import.meta.url));
  installRuntime({ name: "test", module, connect: () => Promise.reject(), background: () => {} } as unknown as Runtime);
});

/** A server that says these bytes in chunks of `size`, and what it is told. */
function server(bytes: readonly number[], size: number) {
  const written: number[] = [];
  let at = 0;
  let isClosed = false;
  const socket: Socket = {
    readsWhileIdle: true,
    read: () =>
      at < bytes.length ? Promise.resolve(Uint8Array.from(bytes.slice(at, (at += size)))) : new Promise(() => {}),
    write: async (given) => void written.push(...given),
    startTls: () => Promise.reject(new Error("no TLS")),
    close: async () => void (isClosed = true),
  };
  return { socket, written, isClosed: () => isClosed };
}

const over = (socket: Socket) =>
  ({ host: "h", user: "u", sslmode: "disable", environment: false, connect: async () => socket }) as const;

test.each([1, 2, 3, 7, 64, 1_000])("in chunks of %d bytes", async (size) => {
  const { socket, written, isClosed } = server([...LOGIN, ...BEHIND], size);
  const handover = await logIn(over(socket));
  expect(handover.parameters.get("server_version")).toBe("18.0");
  expect([...handover.backendKey]).toEqual([0, 0, 0, 7, 1, 2, 3, 4]);
  const rest: number[] = [];
  while (rest.length < BEHIND.length) rest.push(...(await handover.socket.read())!);
  expect(rest).toEqual(BEHIND);
  const said = written.length;
  await handover.socket.write(new Uint8Array([9]));
  // No Terminate of the login's came between, and the socket is open.
  expect(written.slice(said)).toEqual([9]);
  expect(written).not.toContain(88);
  expect(isClosed()).toBe(false);
  await handover.socket.close();
  expect(isClosed()).toBe(true);
});

test("a login that fails leaves no socket behind", async () => {
  const refused = message("E", ...text("SFATAL"), ...text("C28P01"), ...text("Mno"), 0);
  const { socket, isClosed } = server(refused, 5);
  await expect(logIn(over(socket))).rejects.toMatchObject({ code: "28P01" });
  expect(isClosed()).toBe(true);
});

test("a socket that is encrypted already is not asked for TLS, whatever sslmode says", async () => {
  const { socket } = server([...LOGIN, ...BEHIND], 64);
  const { encrypted } = await logIn({ ...over(Object.assign(socket, { isEncrypted: true })), sslmode: "require" });
  expect(encrypted).toBe(true);
});
