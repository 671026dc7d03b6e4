// A connection URL read into options, as libpq reads one.
//
// Knows the form of the URL and libpq's URL parameters. Must not know defaults, or what an option's value must be.
//
// No error repeats a value that came out of a URL, because a badly encoded password can end up in any part of it.

import { UsageError } from "../util/errors.ts";
import type { Options } from "./options.ts";
import { unknown } from "./rules.ts";

/** libpq's URL parameters, and the option that each one is. */
const parameters: ReadonlyMap<string, keyof Options> = new Map([
  ["host", "host"],
  ["port", "port"],
  ["dbname", "database"],
  ["user", "user"],
  ["password", "password"],
  ["application_name", "applicationName"],
  ["options", "options"],
  ["sslmode", "sslmode"],
  ["sslnegotiation", "sslnegotiation"],
  ["require_auth", "requireAuth"],
  ["channel_binding", "channelBinding"],
  ["connect_timeout", "connectTimeout"],
  ["max_protocol_version", "maxProtocolVersion"],
]);

// user:password @ host or [IPv6] : port / database ? parameters. As in libpq the first @ before any / ends the user
// information; a later @ means a password that is not percent-encoded, of which a part would be taken for a host or a
// parameter.
const URL_FORM =
  /^postgres(?:ql)?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?(\[[^[\]@/]*\]|[^:/?[\]@]*)(?::([^/?@]*))?(?:\/([^?@]*))?(?:\?([^@]*))?$/i;

export function readUrl(text: string, given: Map<string, unknown>): void {
  const [matched, user, password, host, port, database, query = ""] = URL_FORM.exec(text.trim()) ?? [];
  if (matched === undefined)
    throw invalidUrl("Its form is postgres://user:password@host:port/database?sslmode=require");
  const set: Setter = (name, encoded = "") => {
    const value = decode(encoded);
    if (value) given.set(name, /^(port|connectTimeout)$/.test(name) && /^\d+$/.test(value) ? Number(value) : value);
  };
  set("user", user);
  if (password !== undefined) given.set("password", decode(password));
  set("host", host?.replace(/[[\]]/g, ""));
  set("port", port);
  set("database", database);
  for (const pair of query.split("&")) {
    const [parameter = "", ...values] = pair.split("=");
    // Behind a password in the query a name may be the rest of it, after an "&" that is not percent-encoded.
    if (pair) readParameter(decode(parameter), values.join("="), set, !query.includes("password="));
  }
  // As in libpq, which refuses a weaker mode beside it: whoever names certificates to trust wants them to be checked.
  if (query.includes("sslrootcert=system")) given.set("sslmode", "verify-full");
}

type Setter = (name: keyof Options, encoded?: string) => void;

/** `named`: an error may repeat the parameter's name. */
function readParameter(parameter: string, value: string, set: Setter, named: boolean): void {
  const option = parameters.get(parameter);
  // Seconds in libpq.
  if (option) return set(option, option === "connectTimeout" ? `${value}000` : value);
  const [file, root] = /^ssl(?:(root)?cert|key)$/.exec(parameter) ?? [];
  if (!file)
    throw unknown(`URL parameter${named && /^[a-z_]{1,40}$/i.test(parameter) ? ` "${parameter}"` : ""}`, parameter, [
      ...parameters.keys(),
    ]);
  // libpq's word for the runtime's own certificates, and the default here.
  if (root && value === "system") return;
  throw new UsageError(
    "UNKNOWN_OPTION",
    `URL parameter "${file}" names a file: pass its text as option "${root ? "ca" : file.slice(3)}".`,
  );
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // No cause: it may quote the text.
    throw invalidUrl("Write % itself as %25");
  }
}

export function invalidUrl(why: string): UsageError {
  return new UsageError(
    "INVALID_URL",
    `The URL cannot be read. ${why}; percent-encode @ : / ? # % in user and password.`,
  );
}
