// Converts a connection string to pg's options. It is a URL, or the directory of a Unix socket and a database.
//
// Knows the parameters that pg reads from the string. Must not know how an option is used.

/** Options by pg's names. */
export type Parsed = Record<string, unknown>;

/** @throws TypeError if the text is not a URL */
export function parseConnectionString(text: string): Parsed {
  // `/var/run/postgresql app`
  if (text.startsWith("/")) {
    const [host, database] = text.split(" ");
    return { host, database };
  }
  const url = urlOf(text);
  const parsed: Parsed = Object.fromEntries(url.searchParams);
  if (url.protocol === "socket:") {
    return {
      ...withUser(url),
      host: decodeURI(url.pathname),
      database: parsed["db"],
      client_encoding: parsed["encoding"],
    };
  }
  const host = decodeURIComponent(url.hostname).replace(/^\[(.*)\]$/, "$1");
  Object.assign(parsed, withUser(url));
  if (host && host !== PLACEHOLDER && !parsed["host"]) parsed["host"] = host;
  if (url.port) parsed["port"] = url.port;
  const database = decodeURIComponent(url.pathname.slice(1));
  if (database) parsed["database"] = database;
  const ssl = sslOf(parsed);
  return ssl === undefined ? parsed : { ...parsed, ssl };
}

const PLACEHOLDER = "base";

function urlOf(text: string): URL {
  // A password may contain characters that a URL may not, and a directory may be in the place of the host.
  const encoded = / |%[^a-f0-9]|%[a-f0-9][^a-f0-9]/i.test(text) ? encodeURI(text).replace(/%25(\d\d)/g, "%$1") : text;
  try {
    return new URL(encoded, `postgres://${PLACEHOLDER}`);
  } catch {
    try {
      return new URL(encoded.replace("@/", `@${PLACEHOLDER}/`), `postgres://${PLACEHOLDER}`);
    } catch {
      throw new TypeError("Invalid connection string: it is not a URL."); // the URL's own text may hold a password
    }
  }
}

function withUser(url: URL): Parsed {
  const parsed: Parsed = {};
  if (url.username) parsed["user"] = decodeURIComponent(url.username);
  if (url.password) parsed["password"] = decodeURIComponent(url.password);
  return parsed;
}

/** As in pg, every mode with TLS verifies in full, unless `uselibpqcompat` requests libpq's meaning. */
function sslOf({ ssl, sslmode, uselibpqcompat }: Parsed): unknown {
  if (ssl === "true" || ssl === "1") return true;
  if (ssl === "0" || ssl === "false" || sslmode === "disable") return false;
  if (sslmode === "no-verify") return { rejectUnauthorized: false };
  if (sslmode === undefined) return ssl;
  if (uselibpqcompat !== "true") return {};
  return sslmode === "verify-full" ? {} : { rejectUnauthorized: sslmode === "verify-ca" };
}
