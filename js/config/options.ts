// The types of what a user passes to connect, `Options`, and of the result, the complete `Config`.
//
// Types only. Each option with its text, rule and default is in table.ts.

import type { LoginAttempt, NamesBy, OptionalName, OPTIONS, OptionValue, Password, PasswordAnswer } from "./table.ts";
import type { Socket } from "../runtime/contract.ts";

export type { LoginAttempt, Password, PasswordAnswer };

/** libpq's six modes. `docs/options.md` explains each mode on each runtime. */
export type SslMode = OptionValue<"sslmode">;

/** libpq's target_session_attrs. */
export type TargetSessionAttrs = OptionValue<"targetSessionAttrs">;

// `keyof typeof`, not the name of that type, so that editors show the texts of the table.
type All = { [Name in keyof typeof OPTIONS]?: OptionValue<Name> | undefined };

/**
 * The options of a connection. `undefined` means the default. Durations are in milliseconds, sizes in bytes.
 * `docs/options.md` lists them, with the differences between runtimes.
 */
export interface Options extends All {}

/** The options that a call may set for itself. */
export type CallOptionName = NamesBy<"every" | "rows" | "values">;

/** Options with an optional connection string. An option overrides the string. */
type ConfigObject = Options & { readonly connectionString?: string | undefined };

/** A connection string, options, or anything with a `connectionString`, such as a Hyperdrive binding. */
export type ConnectInput = string | ConfigObject | { readonly href: string } | { readonly connectionString: string };

/** One of the servers that are tried, with the options that follow from its host. */
export interface Server {
  readonly host: string;
  readonly port: number;
  /** The address to connect to, instead of resolving the host's name. */
  readonly hostaddr: string | undefined;
  readonly localLink: boolean;
  readonly sslmode: SslMode;
}

/** The password for a login. */
export interface Found {
  /** `undefined` if there is no password. */
  readonly password: string | undefined;
  /** When the server ends the session, according to the user's function. */
  readonly expiresAt?: number | undefined;
}

type Secret = "password" | "key" | "environment";
type Optional = Exclude<OptionalName, Secret | keyof Server>;

/** All options resolved; frozen. Contains no secret that JSON, `console.log` or a spread could show. */
export type Config = Readonly<
  { [Name in Exclude<keyof Options, Secret | Optional | keyof Server | "startup">]: OptionValue<Name> } & {
    [Name in Optional]: OptionValue<Name> | undefined;
  } & {
    /** All servers, in the order in which they were given. `host` and so on are those of the first server. */
    hosts: readonly Server[];
    /** What was given but is ignored, with the reason. The observer is told once. */
    notices: readonly string[];
    /** Options of a pool that were in the connection string. */
    pool: Readonly<Record<string, unknown>>;
    startup: readonly (readonly [name: string, value: string])[];
    /**
     * Resolves with the password for a login to this server, which is one of {@link serversOf}. A password function is
     * called anew each time, but only once for all logins that wait for it, until the `signal` of the first one aborts.
     * Rejects with an `AuthenticationError` if the function throws, and with a `UsageError` if it returns no usable
     * text.
     */
    password: (server: Config, signal?: AbortSignal) => Promise<Found>;
    /** The client certificate's private key. */
    key: () => string | undefined;
    /**
     * Wraps a socket to the server once it speaks the protocol, encrypted if TLS is used. For `logIn`, which hands the
     * socket over.
     */
    wrapSocket?: (socket: Socket) => Socket;
  } & Server
>;
