// The settings of a scope (js/session/scope-settings.ts): the statement that sets them, which of them change the
// meaning of SQL, and what is refused.
import { expect, test } from "vitest";
import { CITUS_CHECK } from "../../js/session/citus.ts";
import { scopeSettings, type ScopeOptions } from "../../js/session/scope-settings.ts";
import { UsageError } from "../../js/util/errors.ts";

const set = (name: string, value: string) => `pg_catalog.set_config(E'${name}',E'${value}',true) is null`;
const statementOf = (options: ScopeOptions) => scopeSettings(options).statement;
const meaningOf = (settings: Record<string, string>) => scopeSettings({ settings }).meaning;

test("each setting is set until the transaction ends, in order, and the role last", () => {
  const settings = { "app.tenant": 7, search_path: "a, b", "app.big": 8n, "app.on": true };
  expect(statementOf({ role: "r", settings })).toBe(
    `select where ${[set("app.tenant", "7"), set("search_path", "a, b"), set("app.big", "8"), set("app.on", "true"), set("role", "r"), CITUS_CHECK].join(" or ")}`,
  );
  expect(statementOf({ role: "r" })).toBe(`select where ${set("role", "r")} or ${CITUS_CHECK}`);
});

test("neither a quote nor a backslash ends a literal", () => {
  expect(statementOf({ settings: { "a'b.c": "d\\e'f''" } })).toBe(
    `select where ${set("a''b.c", "d\\\\e''f''''")} or ${CITUS_CHECK}`,
  );
});

test("on Citus each setting uses SET LOCAL, and lists of names are set only where the plan is made", () => {
  const settings = { "app.tenant": "it's \\ 7", search_path: "a, b", 'x"y.z': 1 };
  const body = [
    "begin set local citus.propagate_set_commands = 'local'",
    `set local "app.tenant" = E'it''s \\\\ 7'`,
    "perform pg_catalog.set_config(E'search_path',E'a, b',true)",
    `set local "x""y.z" = E'1'`,
    `set local "role" = E'r'`,
    "perform pg_catalog.create_intermediate_result('pgz_scope','select'); end",
  ].join("; ");
  expect(scopeSettings({ role: "r", settings }).citusStatement).toBe(`do E'${body.replace(/['\\]/g, "$&$&")}'`);
});

test("names with a dot do not change the meaning of SQL, and all others do, including the role", () => {
  expect(meaningOf({ "app.tenant": "7", "app.other": "8" })).toBe("");
  expect(scopeSettings({ role: "r" }).meaning).not.toBe("");
  const path = meaningOf({ search_path: "a" });
  expect(meaningOf({ search_path: "a", "app.tenant": "7" })).toBe(path);
  expect(meaningOf({ Search_Path: "a" })).toBe(path);
  const others = [
    meaningOf({ search_path: "b" }),
    meaningOf({ DateStyle: "a" }),
    scopeSettings({ settings: { search_path: "a" }, role: "r" }).meaning,
  ];
  expect(new Set([...others, path]).size).toBe(4);
});

test("the meaning of settings does not depend on their order", () => {
  expect(meaningOf({ DateStyle: "ISO", TimeZone: "UTC" })).toBe(meaningOf({ TimeZone: "UTC", DateStyle: "ISO" }));
});

/** What an application may pass by mistake, and words of the message that help to correct it. */
const refused: [what: string, options: unknown, says: RegExp][] = [
  ["nothing", undefined, /"settings" must be given, or role/],
  ["null", null, /"settings" must be given, or role/],
  ["a text", "app.tenant=7", /"settings" must be given, or role/],
  ["no option", {}, /a scope without both would be the client itself/],
  ["no setting", { settings: {} }, /a scope without both would be the client itself/],
  ["settings that are null", { settings: null }, /"settings" must be an object/],
  ["settings that are a text", { settings: "a" }, /"settings" must be an object/],
  ["a name that is empty", { settings: { "": "a" } }, /cannot be set: a name is text without NUL, not empty/],
  ["a name with NUL", { settings: { "a\0.b": "a" } }, /cannot be set: a name is text without NUL, not empty/],
  ["the role among settings", { settings: { Role: "r" } }, /use option "role"/],
  ["a seed", { settings: { Seed: 0.5 } }, /cannot be set: the random numbers of later calls would follow from it/],
  ["an encoding", { settings: { CLIENT_ENCODING: "LATIN1" } }, /cannot be set: client_encoding is always UTF8/],
  ["a role that is undefined", { settings: { a: "1" }, role: undefined }, /"role" must be a role's name/],
  ["a value that is undefined", { settings: { "app.tenant": undefined } }, /must give "app.tenant" as text/],
  ["a value that is null", { settings: { "app.tenant": null } }, /must give "app.tenant" as text/],
  ["a number that is none", { settings: { "app.tenant": NaN } }, /must give "app.tenant" as text/],
  ["a value with NUL", { settings: { "app.tenant": "a\0" } }, /must give "app.tenant" as text/],
  ["a value that is an object", { settings: { "app.tenant": {} } }, /must give "app.tenant" as text/],
  ["a role that is empty", { role: "" }, /"role" must be a role's name/],
  ["a role with NUL", { role: "a\0" }, /"role" must be a role's name/],
  ["a role that is no text", { role: 7 }, /"role" must be a role's name/],
  ["none, which is no role", { role: '"None"' }, /"none" would be the login's own role/],
];

test.each(refused)("%s is refused, and the message says why", (_, options, says) => {
  const make = () => scopeSettings(options as ScopeOptions);
  expect(make).toThrow(UsageError);
  expect(make).toThrow(expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringMatching(says) }));
});

test("an unknown option is refused by its name", () => {
  const make = () => scopeSettings({ setting: {} } as ScopeOptions);
  expect(make).toThrow(
    expect.objectContaining({ code: "UNKNOWN_OPTION", message: expect.stringContaining("setting") }),
  );
});

test.each(["my_role", "roles", "role.name", "app.role", "client_encoding_", "my_client_encoding"])(
  "a setting whose name only looks reserved is set: %s",
  (name) => {
    expect(statementOf({ settings: { [name]: "a" } })).toBe(`select where ${set(name, "a")} or ${CITUS_CHECK}`);
  },
);

test("only for a setting named role does the message point to option role", () => {
  const messages = ["", "a\0role", "roles\0"].map((name) => {
    try {
      return statementOf({ settings: { [name]: "a" } });
    } catch (error) {
      return (error as Error).message;
    }
  });
  for (const message of messages) expect(message).not.toContain('use option "role"');
});
