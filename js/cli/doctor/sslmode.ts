// Finds the sslmode that the driver uses, whichever option, variable or default it comes from.
//
// Lets the driver connect to a stand-in: its requests to that socket show its sslmode. Must not read the user's text.
import { logIn, type Connector, type LogInOptions, type Socket, type TlsOptions } from "../../index.ts";

/** `allow` begins without TLS, so it counts as `disable` here. */
export type Asked = "disable" | "prefer" | "require" | "verify-ca" | "verify-full";

/** Returns the sslmode for the first host. */
export async function sslmodeOf(input: LogInOptions): Promise<Asked> {
  let first: { readonly tls: TlsOptions | null; readonly socket: Nobody } | undefined;
  const connect: Connector = ({ tls }) => {
    const socket = new Nobody();
    first ??= { tls, socket };
    return Promise.resolve(socket);
  };
  await logIn({ ...input, connect }).catch(() => {});
  const verify = first?.tls?.verify;
  if (verify === undefined) return "disable";
  if (verify !== "none") return verify === "ca" ? "verify-ca" : "verify-full";
  return first!.socket.goesOnInClear ? "prefer" : "require";
}

/** Bytes of an SSLRequest: int32 length and int32 code. */
const SSL_REQUEST = 8;

/** A server that refuses TLS and then closes the connection. */
class Nobody implements Socket {
  #sent = 0;
  readonly #answers = [Uint8Array.of(78)]; // "N"

  get goesOnInClear(): boolean {
    return this.#sent > SSL_REQUEST;
  }

  read() {
    return Promise.resolve(this.#answers.shift() ?? null);
  }

  write(bytes: Uint8Array) {
    this.#sent += bytes.length;
    return Promise.resolve();
  }

  startTls(): Promise<Socket> {
    return Promise.reject(new Error("It was refused."));
  }

  close() {
    return Promise.resolve();
  }
}
