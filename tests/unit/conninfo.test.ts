// Connection strings, compared with libpq's own results (recorded by tests/libpq/record.py), and libpq's list of
// parameters and environment variables.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readConnectionString } from "../../js/config/connection-string.ts";
import { fates, neverEmpty, readParameters, variables } from "../../js/config/parameters.ts";
import { PgzError } from "../../js/util/errors.ts";
import { of, refused } from "./config-input.ts";

const { parameters, empty, cases } = JSON.parse(
  readFileSync(new URL("../libpq/conninfo.json", import.meta.url), "utf8"),
) as {
  parameters: Record<string, string | null>;
  empty: Record<string, unknown>;
  cases: [text: string, found: Record<string, string> | null][];
};

/** Returns the values by libpq's names, like PQconninfoParse; `null` if the text is refused. */
function read(text: string): Record<string, string> | null {
  try {
    const found = readConnectionString(text);
    // Names that libpq does not have are refused when the parameters are interpreted.
    readParameters(found, { given: new Map(), notices: [], empty: new Map() });
    return Object.fromEntries(found.pairs.filter(([, value]) => value !== ""));
  } catch (error) {
    expect(error).toBeInstanceOf(PgzError);
    return null;
  }
}

/** Where the driver differs from libpq, with the reason. */
const different: Record<string, Record<string, string> | null> = {
  // An empty text is not a connection string here, because options have other sources.
  "": null,
  // Kept until options are checked, where NUL is refused.
  "postgres://u@h/%00": { user: "u", host: "h", dbname: "\0" },
  // The rest of a password that is not percent-encoded could be taken for a host and be shown, so it is refused.
  "postgres://u:p@ss@h/d": null,
  "postgres://u:p/w@h/d": null,
  // JDBC's word, kept until the parameters are interpreted.
  "postgres://u@h/d?ssl=true": { user: "u", host: "h", dbname: "d", ssl: "true" },
  // More lenient: `=` may be part of a value, and `&` may occur twice.
  "postgres://u@h/d?sslmode=a=b": { user: "u", host: "h", dbname: "d", sslmode: "a=b" },
  "postgres://u@h/d?&sslmode=require": { user: "u", host: "h", dbname: "d", sslmode: "require" },
};

test.each(cases)("%j means the same as in libpq", (text, found) => {
  const expected = text in different ? different[text] : found && withoutEmpty(found);
  expect(read(text)).toEqual(expected);
});

function withoutEmpty(found: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== "" && !/^,+$/.test(value)));
}

test("each listed difference is a difference", () => {
  const recorded = new Map(cases);
  for (const [text, ours] of Object.entries(different)) expect(recorded.get(text), text).not.toEqual(ours);
});

test("all of libpq's parameters and their environment variables are known", () => {
  const known = fates().map(([name]) => name);
  expect(Object.keys(parameters).filter((name) => !known.includes(name))).toEqual([]);
  const named = Object.entries(parameters).flatMap(([name, variable]) => (variable ? [[name, variable] as const] : []));
  expect(new Map([...variables].sort())).toEqual(new Map(named.sort()));
});

test.each(neverEmpty())("an empty %s is refused in each form of string", (name) => {
  const inUrls = [`?${name}=`, `?${name}`, `?${name}=x&${name}=`].map((end) => `postgres://u@h/d${end}`);
  for (const text of [...inUrls, `host=h ${name}=''`])
    expect(refused(text), text).toMatchObject({
      code: name === "sslmode" ? "INVALID_SSLMODE" : "INVALID_OPTION",
      message: `Parameter "${name}" is empty: give it a value, or leave it out.`,
    });
});

test("libpq refuses the same parameters if they are empty, but for require_auth", () => {
  expect([...neverEmpty()].sort()).toEqual([...Object.keys(empty), "require_auth"].sort());
  for (const text of ["postgres://u:@h/d?application_name=&options=", "host=h user=u password='' port="])
    expect(of(text).host).toBe("h");
});

test("an empty variable is refused unless its option is given", () => {
  const environment = { PGSSLMODE: "", PGAPPNAME: "" };
  const given = { host: "h", user: "u", environment };
  const message = "Environment variable PGSSLMODE is empty: give it a value, or leave it out.";
  expect(refused(given)).toMatchObject({ code: "INVALID_SSLMODE", message });
  expect(of({ ...given, sslmode: "require" }).sslmode).toBe("require");
  expect(of("postgres://u@h/d?sslmode=require", { environment }).sslmode).toBe("require");
});
