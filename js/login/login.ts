// One login: which options the core gets, how its questions are answered, and what the login teaches about the server.
//
// Knows passwords and which authentication is expected. Must not know sockets, or what runs after the login.
import { allowedMethods, allowsEarlyQuery, fewestIterations } from "../config/authentication.ts";
import { startupParameters } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { knownServer, type KnownServer } from "../server/known-server.ts";
import { base64 } from "../util/bytes.ts";
import { PgzError } from "../util/errors.ts";
import { WEBCRYPTO_ITERATIONS } from "../util/limits.ts";
import {
  CHANNEL_BINDING_REQUIRED,
  EARLY_QUERY,
  EXTERNAL_KEY_DERIVATION,
  NAME_FIRST_USE,
  SCRAM_FIRST,
  VERSION_3_0,
  VERSION_3_2,
  type CoreConnection,
  type Event,
} from "../wasm/boundary.ts";
import type { LoginHandlers } from "../connection/connection.ts";
import type { Link } from "../connection/dial.ts";
import { probeFor, remember } from "./login-probe.ts";
import { md5Password } from "./md5.ts";
import { saltedPassword } from "./scram-keys.ts";

/** The server does not request what it requested before: the login must be tried again, without a guess. */
export class WrongProbe extends Error {}

export class Login implements LoginHandlers {
  readonly #config: Config;
  readonly #server: KnownServer;
  readonly #isEncrypted: boolean;
  readonly #probe: number;
  readonly #binding: Uint8Array;
  /** The password after SASLprep. */
  readonly #password: string | undefined;
  readonly #methods: number;
  readonly #fewestIterations: number;
  readonly #isEarly: boolean;
  #offered: readonly string[] | undefined;
  #isRight!: () => void;
  readonly #right = new Promise<void>((resolve) => (this.#isRight = resolve));

  /**
   * `binding`: the hash of the server's certificate, empty if there is none. `mayRepeat`: another attempt may follow
   * this one, and a query sent in this one could not be repeated.
   */
  constructor(
    { config, verify, encrypted }: Link,
    password: string | undefined,
    binding: Uint8Array,
    mayRepeat: boolean,
  ) {
    this.#config = config;
    this.#binding = binding;
    this.#server = knownServer(config);
    this.#isEncrypted = encrypted;
    this.#probe = password === undefined ? 0 : probeFor(this.#server, config, verify, encrypted, binding.length > 0);
    this.#password = password;
    this.#methods = allowedMethods(config, verify, encrypted);
    this.#fewestIterations = fewestIterations(config, verify, encrypted);
    this.#isEarly = !mayRepeat && allowsEarlyQuery(config, verify, encrypted);
  }

  /** Starts the core's login: StartupMessage, and the options that hold from then on. */
  readonly start = (handle: CoreConnection): number => {
    const { prepare, maxProtocolVersion, scramMaxIterations, flushBytes } = this.#config;
    const external = this.#password && scramMaxIterations <= WEBCRYPTO_ITERATIONS && crypto.subtle;
    const options =
      this.#methods |
      this.#probe |
      (external ? EXTERNAL_KEY_DERIVATION : 0) |
      (this.#isEarly ? EARLY_QUERY : 0) |
      (this.#config.channelBinding === "require" ? CHANNEL_BINDING_REQUIRED : 0) |
      (prepare === "named" ? NAME_FIRST_USE : 0);
    return handle.start(
      maxProtocolVersion === "3.2" ? VERSION_3_2 : VERSION_3_0,
      `${startupParameters(this.#config).flat().join("\0")}\0`,
      this.#password,
      base64(crypto.getRandomValues(new Uint8Array(18))),
      options,
      this.#fewestIterations,
      scramMaxIterations,
      flushBytes,
      this.#binding,
    );
  };

  offers(mechanisms: readonly string[]): void {
    this.#offered = mechanisms;
    this.#isRight();
  }

  async prove(question: Extract<Event, { kind: "keyDerivation" | "md5" }>): Promise<Uint8Array> {
    const password = this.#password ?? "";
    if (question.kind === "md5") return md5Password(this.#config.user, password, question.salt);
    const [key] = await Promise.all([saltedPassword(password, question.salt, question.iterations), this.#firstCall()]);
    return key;
  }

  /**
   * After a guess, the first call learns only now that it may be sent. It gets a turn of the event loop while the key
   * is derived, so that it leaves with SASLResponse.
   */
  #firstCall(): Promise<void> | undefined {
    if (!this.#isEarly || !(this.#probe & SCRAM_FIRST)) return undefined;
    return new Promise((resolve) => setTimeout(resolve));
  }

  /**
   * Resolves when calls may follow: after ReadyForQuery, or before it if an early query is allowed. In the second case
   * a guess must have proved right first, because the query could not be repeated. Rejects with {@link WrongProbe}, or
   * with the error of the login.
   */
  async letsIn(done: Promise<void>): Promise<void> {
    const ended = this.#learn(done);
    if (!this.#isEarly) return ended;
    // The error is reported to the call whose query follows the login.
    ended.catch(() => {});
    if (this.#probe & SCRAM_FIRST) await Promise.race([this.#right, ended]);
  }

  async #learn(done: Promise<void>): Promise<void> {
    try {
      await done;
    } catch (error) {
      if (!(this.#probe & SCRAM_FIRST) || this.#offered) throw error;
      remember(this.#server, this.#isEncrypted, []);
      // 08P01: some poolers and proxies read the answer before they have asked.
      const isWrong = error instanceof PgzError && /^(AUTH_GUESS_WRONG|08P01)$/.test(error.code);
      throw isWrong ? new WrongProbe() : error;
    }
    remember(this.#server, this.#isEncrypted, this.#offered ?? []);
  }
}
