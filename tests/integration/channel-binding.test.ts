// A man in the middle with his own certificate, in front of a real server: the attack that channel binding
// prevents. Runs on Node, Deno and Bun; Workers always verify, and refuse to require channel binding.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import net from "node:net";
import process from "node:process";
import path from "node:path";
import tls from "node:tls";
import { afterEach, describe, expect, test } from "vitest";
import type { Options } from "../../js/index.ts";
import { runtime, testServers } from "./servers.ts";

const { connect } = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");
const folder = mkdtempSync(path.join(process.env["PGZ_TEST_RUN_FOLDER"]!, "middle-"));

function certificate(name: string, ...options: string[]): { cert: string; key: string } {
  const file = (ending: string) => path.join(folder, `${name}.${ending}`);
  execFileSync(
    "openssl",
    ["req", "-x509", "-nodes", "-subj", "/CN=middle", "-keyout", file("key"), "-out", file("crt"), ...options],
    { stdio: "ignore" },
  );
  return { cert: readFileSync(file("crt"), "utf8"), key: readFileSync(file("key"), "utf8") };
}

const CURVE = certificate("curve", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1");
const ED25519 = certificate("ed25519", "-newkey", "ed25519");

/** Forwards everything over TLS of its own; `change` may replace what the server says. */
class Middle {
  readonly #server: net.Server;
  readonly #open = new Set<net.Socket>();
  /** Number of bytes from the client after the TLS handshake. */
  fromClient = 0;

  constructor(
    to: { host: string; port: number },
    own: { cert: string; key: string },
    change: (text: string) => string,
  ) {
    this.#server = net.createServer(async (client) => {
      this.#keep(client);
      await once(client); // SSLRequest
      client.write("S");
      const near = this.#keep(new tls.TLSSocket(client, { isServer: true, ...own }));
      const raw = this.#keep(net.connect(to));
      raw.write(Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]));
      await once(raw);
      const far = this.#keep(tls.connect({ socket: raw, rejectUnauthorized: false }));
      near.on("data", (bytes: Buffer) => ((this.fromClient += bytes.length), far.write(bytes)));
      far.on("data", (bytes: Buffer) => near.write(Buffer.from(change(bytes.toString("latin1")), "latin1")));
      far.on("end", () => near.end());
    });
  }

  #keep<S extends net.Socket>(socket: S): S {
    this.#open.add(socket);
    socket.on("error", () => {});
    return socket;
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return (this.#server.address() as net.AddressInfo).port;
  }

  close(): void {
    for (const socket of this.#open) socket.destroy();
    this.#server.close();
  }
}

function once(socket: net.Socket): Promise<Buffer> {
  return new Promise((resolve) => socket.once("data", resolve));
}

/** Removes SCRAM-SHA-256-PLUS from AuthenticationSASL. */
const withoutPlus = (text: string) =>
  text.replace(/^R\0\0\0.\0\0\0\n(?:SCRAM-SHA-256-PLUS\0)(SCRAM-SHA-256\0\0)$/s, "R\0\0\0\x17\0\0\0\n$1");

let middle: Middle | undefined;
afterEach(() => middle?.close());

describe.each(testServers().servers.filter(({ own, tls }) => own && tls))("in front of PostgreSQL $name", (server) => {
  const { host, port, database, user, password } = server;
  const through = async (options: Options, own = CURVE, change = (text: string) => text) => {
    middle = new Middle({ host, port }, own, change);
    const to = { host: "127.0.0.1", port: await middle.listen(), database, user, password };
    const client = await connect({ ...to, sslmode: "require", ...options });
    const { rows } = await client.query("select 1 as n");
    await client.close();
    return rows;
  };

  test("a client without channel binding logs in through the man in the middle", async () => {
    expect(await through({ channelBinding: "disable" })).toEqual([{ n: 1 }]);
  });

  test.each(["prefer", "require"] as const)("%s: the server notices another certificate", async (channelBinding) => {
    await expect(through({ channelBinding })).rejects.toMatchObject({ code: expect.stringMatching(/^28/) });
  });

  test("prefer: the server notices that its offer was removed", async () => {
    let changes = 0;
    const change = (text: string) => {
      const changed = withoutPlus(text);
      if (changed !== text) changes++;
      return changed;
    };
    await expect(through({ channelBinding: "prefer" }, CURVE, change)).rejects.toMatchObject({ code: "28000" });
    expect(changes).toBe(1);
  });

  test("require: a login whose offer was removed is refused before the password is used", async () => {
    await expect(through({ channelBinding: "require" }, CURVE, withoutPlus)).rejects.toMatchObject({
      code: "AUTH_CHANNEL_BINDING_MISSING",
    });
  });

  test("require: a certificate without a hash is refused before a byte of the login leaves", async () => {
    await expect(through({ channelBinding: "require" }, ED25519)).rejects.toMatchObject({
      code: "AUTH_CHANNEL_BINDING_MISSING",
    });
    expect(middle!.fromClient).toBe(0);
  });
});
