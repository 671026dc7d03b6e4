// What a user passes to connect, and what it becomes: `Options`, and the complete `Config`.
//
// Types only. Each option with its text, rule and default is in table.ts.

import type { LoginAttempt, NamesBy, OptionalName, OPTIONS, OptionValue, Password, PasswordAnswer } from "./table.ts";

export type { LoginAttempt, Password, PasswordAnswer };

/** libpq's six modes. `docs/options.md` says what each becomes on each runtime. */
export type SslMode = OptionValue<"sslmode">;

/** libpq's target_session_attrs. */
export type TargetSessionAttrs = OptionValue<"targetSessionAttrs">;

// `keyof typeof`, and not its name: with that, editors show the texts of the table.
type All = { [Name in keyof typeof OPTIONS]?: OptionValue<Name> | undefined };

/**
 * The options of a connection. `undefined` means the default. Durations are in milliseconds, sizes in bytes.
 * `docs/options.md` has them in one table, and what differs per runtime.
 */
export interface Options extends All {}

/** Those of them that a call may have for itself. */
export type CallOptionName = NamesBy<"every" | "rows" | "values">;

/** Options with an optional connection string. The options win over it. */
export type ConfigObject = Options & { readonly connectionString?: string | undefined };

/** A connection string, options, or anything with a `connectionString`, such as a Hyperdrive binding. */
export type ConnectInput = string | ConfigObject | { readonly href: string } | { readonly connectionString: string };

/** One of the servers that are tried, with the options that follow from its host. */
export interface Server {
  readonly host: string;
  readonly port: number;
  /** Where to connect instead of looking the host's name up. */
  readonly hostaddr: string | undefined;
  readonly localLink: boolean;
  readonly sslmode: SslMode;
}

/** What a login uses. */
export interface Found {
  /** `undefined`: there is none. */
  readonly password: string | undefined;
  /** When the server ends the session, as the user's function says. */
  readonly expiresAt?: number | Date | undefined;
}

type Secret = "password" | "key" | "environment";
type Optional = Exclude<OptionalName, Secret | keyof Server>;

/** Every option resolved; frozen. Holds no secret that JSON, `console.log` or a spread could show. */
export type Config = Readonly<
  { [Name in Exclude<keyof Options, Secret | Optional | keyof Server | "startup">]: OptionValue<Name> } & {
    [Name in Optional]: OptionValue<Name> | undefined;
  } & {
    /** All servers, in the order in which they were given. `host` and so on are the first one's. */
    hosts: readonly Server[];
    /** What was asked for and is ignored, with the reason; the observer is told once. */
    notices: readonly string[];
    /** Options of a pool that stood in the connection string. */
    pool: Readonly<Record<string, unknown>>;
    startup: readonly (readonly [name: string, value: string])[];
    /**
     * The password for a login to this server, which is one of {@link serversOf}. A function is asked anew each time,
     * once for all logins that wait for it, until `signal` of the first one aborts. Rejects with `AuthenticationError`
     * where the function throws, and with `UsageError` where it gives no usable text.
     */
    password: (server: Config, signal?: AbortSignal) => Promise<Found>;
    /** The client certificate's private key. */
    key: () => string | undefined;
  } & Server
>;
