// A prepared statement in its user's hands: which queries it makes, what it refuses, and when its name is dropped.
import { inspect } from "node:util";
import { beforeEach, expect, test } from "vitest";
import { Prepared } from "../../js/api/prepared.ts";
import { sql, type Query } from "../../js/statement/sql.ts";

const TEXT = "select name from users where id = $1";
const description = {
  parameterTypes: [23],
  fields: [{ name: "name", typeOid: 25 }] as never as Prepared["fields"],
};

/** What its owner was asked, and how often the name was dropped. */
let asked: unknown[][];
let dropped: number;
let byId: Prepared<{ name: string }>;

beforeEach(() => {
  asked = [];
  dropped = 0;
  const answer =
    (name: string) =>
    async (...given: unknown[]) => (asked.push([name, ...given]), name as never);
  byId = new Prepared(TEXT, description, { query: answer("query"), exec: answer("exec") }, () => void dropped++);
});

const refused = (code: string) => expect.objectContaining({ name: "UsageError", code });

test("a prepared statement has the server's description", () => {
  expect(byId).toMatchObject({ text: TEXT, ...description });
});

test("a prepared statement prints its text, types and columns, without a password", () => {
  const shown = (statement: Prepared<never>) => inspect(statement, { breakLength: Infinity });
  expect(shown(byId as never)).toBe(`Prepared { text: '${TEXT}', parameterTypes: [ 23 ], fields: [ 'name' ] }`);
  const owner = { query: () => Promise.reject(), exec: () => Promise.reject() };
  expect(shown(new Prepared("alter role u password 'secret'", description, owner, () => {}))).not.toContain("secret");
});

test("bind() with values makes a query for any call", () => {
  expect(byId.bind(7)).toEqual({ text: TEXT, values: [7] });
  expect(byId.bind()).toEqual({ text: TEXT, values: [] });
  expect(byId.bind([1, 2], null)).toEqual({ text: TEXT, values: [[1, 2], null] });
});

test("a bound statement is shown without its values, and is a whole statement", () => {
  const bound = byId.bind("s3cret");
  expect(inspect(bound)).toBe(`Query { text: '${TEXT}', values: '1 value' }`);
  expect(() => sql`select ${bound}`).toThrow(refused("INVALID_QUERY"));
});

test("more values than a call of a function can have are bound", async () => {
  const values = Array<number>(200_000).fill(1);
  await byId.query(values);
  await byId.exec(values);
  expect(asked.map(([, query]) => (query as Query).values.length)).toEqual([200_000, 200_000]);
});

test("query and exec run the statement with values and options", async () => {
  const options = { timeout: 9 };
  expect(await byId.query([7], options)).toBe("query");
  expect(await byId.exec([8], options)).toBe("exec");
  expect(asked).toEqual([
    ["query", { text: TEXT, values: [7] }, options],
    ["exec", { text: TEXT, values: [8] }, options],
  ]);
  await byId.query();
  await byId.exec();
  expect(asked.slice(2)).toEqual([
    ["query", { text: TEXT, values: [] }, undefined],
    ["exec", { text: TEXT, values: [] }, undefined],
  ]);
});

test("an undefined value is refused, and nothing runs", async () => {
  expect(() => byId.bind(1, undefined)).toThrow(refused("INVALID_PARAMETER"));
  await expect(byId.query([undefined])).rejects.toEqual(refused("INVALID_PARAMETER"));
  expect(asked).toEqual([]);
});

test.each([[7], ["text"], [{ id: 7 }], [null]])("values that are not an array are refused: %s", async (values) => {
  await expect(byId.query(values as never)).rejects.toEqual(refused("INVALID_QUERY"));
  await expect(byId.exec(values as never)).rejects.toEqual(refused("INVALID_QUERY"));
  expect(asked).toEqual([]);
});

test("a statement is closed once, and makes no more queries afterwards", async () => {
  byId.close();
  byId.close();
  expect(dropped).toBe(1);
  expect(() => byId.bind(7)).toThrow(refused("INVALID_QUERY"));
  await expect(byId.query([7])).rejects.toEqual(refused("INVALID_QUERY"));
  await expect(byId.exec([7])).rejects.toEqual(refused("INVALID_QUERY"));
  expect(asked).toEqual([]);
});

test("leaving the scope of `using` closes the statement", () => {
  {
    using statement = byId;
    expect(statement.bind(1).values).toEqual([1]);
    expect(dropped).toBe(0);
  }
  expect(dropped).toBe(1);
});
