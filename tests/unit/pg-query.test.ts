// What `query` of pgz-edge/pg reads of a configuration.
import { expect, test } from "vitest";
import { normalizeQueryConfig, type QueryConfig } from "../../js/adapters/pg/query.ts";

const ALL: Required<QueryConfig> = {
  text: "select $1",
  values: [1],
  name: "n",
  rowMode: "array",
  types: { getTypeParser: () => (value: unknown) => value } as never,
  binary: true,
  queryMode: "extended",
  rows: 3,
  portal: "p",
  callback: () => {},
  query_timeout: 5,
};
const NAMES = Object.keys(ALL) as (keyof QueryConfig)[];

/** An object whose members are getters of its class, which read what is private, as those of the driver's `sql` do. */
class Configuration {
  readonly #all = ALL;

  static {
    for (const name of NAMES)
      Object.defineProperty(this.prototype, name, {
        get(this: Configuration) {
          return this.#all[name];
        },
      });
  }
}

test("every member is read, of a plain object, a frozen one, and one whose class has getters", () => {
  for (const config of [ALL, Object.freeze({ ...ALL }), new Configuration() as QueryConfig]) {
    const copy = normalizeQueryConfig(config);
    expect(copy).not.toBe(config);
    for (const name of NAMES) expect([name, copy[name]]).toEqual([name, ALL[name]]);
  }
});

test("values and a callback that come separately win, and the caller's object does not change", () => {
  const callback = () => {};
  for (const config of [Object.freeze({ ...ALL }), new Configuration() as QueryConfig]) {
    expect(normalizeQueryConfig(config, [2], callback)).toMatchObject({ text: "select $1", values: [2], callback });
    expect(normalizeQueryConfig(config, callback)).toMatchObject({ values: [1], callback });
    expect(config.values).toEqual([1]);
  }
});
