// Random values of many types: the parameter that is sent and the value that must come back.
//
// Knows SQL types and their JavaScript values (docs/types.md). Must not know calls.
import type { Dice } from "./dice.ts";
import type { World } from "./plan.ts";

/** One value: `given` as a parameter of `type`, `expected` in a row object. */
export interface Value {
  readonly type: string;
  readonly given: unknown;
  readonly expected: unknown;
}

const CHARACTERS = ["a", "Z", "0", " ", "\n", "\t", '"', "\\", "'", "é", "€", "😀", "\u2028", "{", "}", ",", "\u007f"];

/** Returns a text of mostly few, now and then many characters. */
export function text(dice: Dice): string {
  const length = dice.oneIn(12) ? dice.below(5_000) : dice.below(12);
  return Array.from({ length }, () => dice.pick(CHARACTERS)).join("");
}

const same = (given: unknown) => ({ given, expected: given });

const digits = (dice: Dice, most: number) =>
  String(1 + dice.below(9)) + Array.from({ length: dice.below(most) }, () => dice.below(10)).join("");

const two = (number: number) => String(number).padStart(2, "0");

const date = (dice: Dice) => `${1900 + dice.below(200)}-${two(1 + dice.below(12))}-${two(1 + dice.below(28))}`;

const time = (dice: Dice) => `${two(dice.below(24))}:${two(dice.below(60))}:${two(dice.below(60))}`;

const document = (dice: Dice, depth = 0): unknown => {
  const kind = dice.below(depth > 2 ? 4 : 6);
  if (kind === 4) return Array.from({ length: dice.below(4) }, () => document(dice, depth + 1));
  if (kind === 5)
    return Object.fromEntries(Array.from({ length: dice.below(4) }, (_, at) => [`k${at}`, document(dice, depth + 1)]));
  return [dice.below(1_000) - 500, text(dice), dice.oneIn(2), null][kind];
};

const mood = (dice: Dice) => dice.pick(["calm", "glad", "ü €"]);

/** A composite is sent as the server's text, and comes back as an object. */
function pair(dice: Dice): { given: string; expected: unknown } {
  const value = {
    a: dice.oneIn(4) ? null : dice.below(1_000),
    "b c": text(dice),
    m: dice.oneIn(4) ? null : mood(dice),
  };
  const quoted = value["b c"].replaceAll("\\", "\\\\").replaceAll('"', '""');
  return { given: `(${value.a ?? ""},"${quoted}",${value.m ?? ""})`, expected: value };
}

/** A maker for each type. `schema` has the enum `mood` (judge.ts). */
const makers = (schema: string): Record<string, (dice: Dice) => { given: unknown; expected: unknown }> => ({
  int2: (dice) => same(dice.below(65_536) - 32_768),
  int4: (dice) => same(dice.below(2 ** 32) - 2 ** 31),
  int8: (dice) => {
    const value = BigInt.asIntN(64, (BigInt(dice.below(2 ** 32)) << 32n) | BigInt(dice.below(2 ** 32)));
    return { given: value, expected: String(value) };
  },
  float8: (dice) => same((dice.below(2_000_001) - 1_000_000) / 2 ** dice.below(30)),
  numeric: (dice) => same(`${dice.pick(["", "-"])}${digits(dice, 40)}.${digits(dice, 20)}`),
  bool: (dice) => same(dice.oneIn(2)),
  text: (dice) => same(text(dice)),
  varchar: (dice) => same(text(dice)),
  uuid: (dice) => {
    const hex = Array.from({ length: 32 }, () => dice.below(16).toString(16)).join("");
    return same(hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"));
  },
  bytea: (dice) => same(Uint8Array.from({ length: dice.oneIn(10) ? 3_000 : dice.below(20) }, () => dice.below(256))),
  date: (dice) => same(date(dice)),
  timestamptz: (dice) => same(`${date(dice)}T${time(dice)}+00:00`),
  jsonb: (dice) => same({ value: document(dice) }),
  "int4[]": (dice) => same(Array.from({ length: dice.below(6) }, () => (dice.oneIn(4) ? null : dice.below(1_000)))),
  "text[]": (dice) => same(Array.from({ length: dice.below(4) }, () => (dice.oneIn(4) ? null : text(dice)))),
  int4range: (dice) => {
    const low = dice.below(100) - 50;
    return same(`[${low},${low + 1 + dice.below(50)})`);
  },
  inet: (dice) => same(`10.${dice.below(256)}.${dice.below(256)}.${dice.below(256)}`),
  [`${schema}.mood`]: (dice) => same(mood(dice)),
});

/** The other types of the schema, which a world may have. */
const ownMakers = (schema: string): ReturnType<typeof makers> => ({
  [`${schema}.mood[]`]: (dice) =>
    same(Array.from({ length: dice.below(4) }, () => (dice.oneIn(4) ? null : mood(dice)))),
  [`${schema}.whole`]: (dice) => same(dice.below(1_000)),
  [`${schema}.pair`]: pair,
  [`${schema}.pair[]`]: (dice) => {
    const pairs = Array.from({ length: dice.below(3) }, () => pair(dice));
    return { given: pairs.map(({ given }) => given), expected: pairs.map(({ expected }) => expected) };
  },
});

/** Values of some types. There are only a few possible orders, so that statements repeat. */
export function values(dice: Dice, { schema, hasOwnTypes }: Pick<World, "schema" | "hasOwnTypes">): Value[] {
  const all = hasOwnTypes ? { ...makers(schema), ...ownMakers(schema) } : makers(schema);
  const names = Object.keys(all);
  const first = dice.below(names.length);
  return Array.from({ length: 1 + dice.below(4) }, (_, at) => {
    const type = names[(first + at) % names.length]!;
    return dice.oneIn(8) ? { type, given: null, expected: null } : { type, ...all[type]!(dice) };
  });
}
