// CASE=builder: the cost of the `sql` tag, from a template with its values to the text with $1, $2 … and the list of
// values. Seed 001's four cases, no connection. Ours is measured twice: with templates seen before (`pgz-edge`), and
// with each template seen for the first time (`pgz-edge cold`). The peers keep nothing between calls.
//
// Work that a peer does only with a connection is not counted: slonik's tag leaves `$slonik_1` to be replaced when the
// query runs. For postgres.js the tag and its own function that builds the text are measured. Each text and its values
// are compared with the expected ones.
//
//   MS TRIALS          how long each trial is, how many
import { command } from "../lib/runtimes.mjs";
import { compareSpeed, interleaved, resultRows } from "../lib/trials.mjs";
import { start } from "../lib/worker.mjs";

export const needsServer = false;

const libraries = ["pgz-edge", "pgz-edge cold", "kysely raw", "kysely builder", "postgres.js", "slonik"];
const child = new URL("child.mjs", import.meta.url);
const perOperation = ({ wall_ms, operations }) => (wall_ms * 1e6) / operations;

/** Shape -> the expected result of an operation with the value 7. */
const shapes = {
  simple: { text: "select * from users", values: [] },
  parametrized: { text: "select * from users where id = $1", values: [7] },
  fragments: { text: "select * from users", values: [] },
  fragments_params: { text: "select * from users where id = $1", values: [7] },
};

export async function run({ option }) {
  const ms = Number(option("MS") ?? 150);
  const trials = Number(option("TRIALS") ?? 15);
  const contestants = libraries.map((library) => ({
    key: library,
    library,
    runtime: "node",
    ...start(library, command("node", child, library)),
  }));
  try {
    const result = { rows: [], failures: [] };
    for (const [shape, expected] of Object.entries(shapes)) {
      for (const { key, ask } of contestants) check(key, shape, await ask({ shape, check: true }), expected);
      const samples = await interleaved(
        contestants,
        { shape, ms },
        trials,
        ({ key }, got) => check(key, shape, got.last, expected),
        { idle: 0 },
      );
      result.rows.push(
        ...contestants.flatMap((contestant) =>
          resultRows(contestant, shape, { ms }, samples.get(contestant.key), { ns_per_op: ["ns", perOperation] }),
        ),
      );
      result.failures.push(...targets(samples, shape));
    }
    return result;
  } finally {
    await Promise.all(contestants.map((one) => one.stop()));
  }
}

/** Ignores quotes around names and upper case, in which libraries differ. */
function check(name, shape, { text, values }, expected) {
  const plain = text.replaceAll('"', "").toLowerCase();
  if (plain !== expected.text || JSON.stringify(values) !== JSON.stringify(expected.values)) {
    throw new Error(
      `${name}, ${shape}: ${text} with ${JSON.stringify(values)} ` +
        `instead of ${expected.text} with ${JSON.stringify(expected.values)}`,
    );
  }
}

function targets(samples, shape) {
  return ["pgz-edge", "pgz-edge cold"].flatMap((ours) => {
    const compare = (peer, wanted) => compareSpeed(samples, shape, ours, peer, [peer], perOperation, wanted);
    // The goals apply to repeated templates; first uses are only shown.
    const bar = (wanted) => (ours === "pgz-edge" ? wanted : undefined);
    return [
      ...compare("kysely raw", bar(3)),
      ...compare("kysely builder"),
      ...compare("postgres.js", bar(1)),
      ...compare("slonik", bar(1)),
    ];
  });
}
