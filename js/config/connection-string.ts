// Parses a connection string as libpq does: a URL, or keywords and values. The result is parameters by libpq's names
// with their values.
//
// Knows the two forms. Must not know which parameters there are, or what they mean (parameters.ts).
//
// No error repeats any part of the text, because a badly encoded password can end up in any part of it.

import { UsageError } from "../util/errors.ts";

/** A parameter's name and value. If a name occurs twice, the later value counts. */
type Pair = readonly [parameter: string, value: string];

export interface ConnectionString {
  readonly pairs: readonly Pair[];
  /**
   * Whether an error may repeat a parameter's name. If not, a name may be the rest of a password after an unescaped
   * character.
   */
  readonly mayName: boolean;
  /** Or else it is keywords and values. */
  readonly isUrl: boolean;
}

/** @throws UsageError `INVALID_URL` */
export function readConnectionString(text: string): ConnectionString {
  const [, mistake] = MISTAKES.find(([begins]) => begins.test(text)) ?? [];
  if (mistake !== undefined) throw new UsageError("INVALID_URL", `The URL ${mistake}.`);
  const mayName = !/password\s*=/.test(text);
  if (/^\s*postgres(ql)?:\/\//i.test(text)) return { pairs: readUrl(text.trim()), mayName, isUrl: true };
  if (text.includes("=") && !/^\s*[\w+.-]+:\/\//.test(text))
    return { pairs: readKeywords(text), mayName, isUrl: false };
  throw invalidUrl(FORM);
}

/** What is often passed by mistake: how such a text begins, and what the error says about the URL. */
const MISTAKES: readonly (readonly [begins: RegExp, mistake: string])[] = [
  [/^\s*$/, "is empty. A variable may be missing, or its name misspelt"],
  [/^\s*["'`]/, "begins with a quotation mark: pass it without quotes"],
  [/^\s*psql\s/, "begins with psql: pass only what follows, without quotes"],
  [
    /^\s*(export\s+)?(?!dbname\b)\w+\s*=\s*["']?postgres(ql)?(\+\w+)?:\/\//i,
    "begins with a variable's name: pass only what follows the =",
  ],
  [/^\s*jdbc:/i, "is JDBC's: leave out jdbc:, and write the user and the password as in postgres://user:password@host"],
  [
    /^\s*(mysql|mariadb|mongodb|sqlite|libsql|file|https?|prisma)[\w+]*:/i,
    "is not PostgreSQL's: it must begin with postgres://",
  ],
];

const FORM = "Its form is postgres://user:password@host:port/database?sslmode=require";

export function invalidUrl(why: string): UsageError {
  return new UsageError(
    "INVALID_URL",
    `The URL cannot be read. ${why}; percent-encode @ : / ? # % in user and password.`,
  );
}

// -- URL -------------------------------------------------------------------------------------------------------------

// user:password @ host or [IPv6] : port , host : port … / database ? parameters. As in libpq the first @ before any /
// ends the user information. A later @ means a password that is not percent-encoded, of which a part would be taken for
// a host or a parameter.
const HOST = String.raw`(?:\[[^[\]@/]+\]|[^:/?[\]@,]*)(?::[^:/?@,]*)?`;
const URL_FORM = new RegExp(
  String.raw`^postgres(?:ql)?://(?:([^:@/]*)(?::([^@/]*))?@)?(${HOST}(?:,${HOST})*)(?:/([^?@]*))?(?:\?([^@]*))?$`,
  "i",
);

function readUrl(text: string): Pair[] {
  const [matched, user = "", password, list = "", database = "", query = ""] = URL_FORM.exec(text) ?? [];
  if (matched === undefined) throw invalidUrl(hasBareIPv6(text) ? "An IPv6 address needs brackets: [::1]" : FORM);
  const addresses = list.split(",").map((address) => /^(?:\[(.*)\]|([^:]*))(?::(.*))?$/.exec(address)!);
  const hosts = addresses.map(([, ipv6, name = ""]) => decode(ipv6 ?? name)).join();
  const ports = addresses.map(([, , , port = ""]) => decode(port)).join();
  const pairs: Pair[] = [
    ["user", decode(user)],
    ["host", hosts],
    // Without any port, each of several hosts has the default.
    ["port", /^,*$/.test(ports) ? "" : ports],
    ["dbname", decode(database)],
  ];
  if (password !== undefined) pairs.push(["password", decode(password)]);
  for (const pair of query.split("&")) {
    const [parameter = "", ...values] = pair.split("=");
    if (pair) pairs.push([decode(parameter), decode(values.join("="))]);
  }
  // An empty part of the URL means nothing, and must not hide a parameter.
  return pairs.filter(([parameter, value], at) => at > 3 || value !== "" || parameter === "password");
}

/** Whether what should be one host with its port has two colons or more. */
function hasBareIPv6(text: string): boolean {
  const [, place = ""] = /^[^/]*\/\/(?:[^/]*@)?([^/?]*)/.exec(text) ?? [];
  return /^[\da-f.]*:[\da-f.]*:[\da-f:.]*$/i.test(place);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Without a cause, which may quote the text.
    throw invalidUrl("Write % itself as %25");
  }
}

// -- keywords and values ---------------------------------------------------------------------------------------------

// name = value, name = 'value with blanks'; a backslash makes the next character part of the value.
const PAIR = /[ \t-\r]*([^= \t-\r]+)[ \t-\r]*=[ \t-\r]*(?:'((?:[^'\\]|\\.)*)'|(?!')((?:[^\\ \t-\r]|\\.|\\$)*))/sy;

function readKeywords(text: string): Pair[] {
  const pairs: Pair[] = [];
  const rest = text.replace(/[ \t-\r]+$/, "");
  for (PAIR.lastIndex = 0; PAIR.lastIndex < rest.length;) {
    const [matched, name = "", quoted, bare = ""] = PAIR.exec(rest) ?? [];
    if (matched === undefined) throw invalidUrl("Its form is host=… user=… password='with \\' and blanks'");
    pairs.push([name, (quoted ?? bare).replace(/\\(.?)/gs, "$1")]);
  }
  return pairs;
}
