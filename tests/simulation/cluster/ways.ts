// The ways in which a lane writes numbers, and reads all of them back.
//
// Knows the calls of a cluster. Must not know what must hold for a result (oracle.ts).
import type { After, Cluster, Reads } from "../../../js/cluster.ts";
import { driver } from "../driver.ts";

/** Reads all numbers, each with the name of the server that responds. */
export const READ = "select n, current_setting('cluster_name') as server from ledger";
const COPY = `copy (${READ}) to stdout`;
/** Number of rows in a cursor's batch. */
const BATCH = 5;

export interface Row {
  readonly n: number;
  readonly server: string;
}

type Target = Reads | After;

/** The results of one call, one for each statement. */
export const reads: Readonly<Record<string, (target: Target) => Promise<Row[][]>>> = {
  query: async (target) => [(await target.query<Row>(READ)).rows],
  transaction: (target) => inTransaction(target, {}),
  "repeatable read": (target) => inTransaction(target, { isolation: "repeatable read" }),
  batch: async (target) => (await target.batch<Row>([READ, READ])).map(({ rows }) => rows),
  "isolated batch": async (target) => {
    const results = await target.batch<Row>([READ, READ], { atomic: false });
    return results.map((item) => {
      const result = "status" in item ? (item.status === "rejected" ? raise(item.reason) : item.value) : item;
      return (result as unknown as { rows: Row[] }).rows;
    });
  },
  stream: async (target) => {
    const text = await textOf(await target.stream(READ, { format: "ndjson" }));
    return [linesOf(text).map((line) => JSON.parse(line) as Row)];
  },
  cursor: async (target) => {
    const all: Row[] = [];
    for await (const rows of target.cursor<Row>(READ, BATCH)) all.push(...rows);
    return [all];
  },
  rows: async (target) => {
    const all: Row[] = [];
    for await (const row of target.rows<Row>(READ)) all.push(row);
    return [all];
  },
  copyTo: async (target) => {
    const text = await textOf(await target.copyTo(COPY));
    return [linesOf(text).map((line) => ({ n: Number(line.split("\t")[0]), server: line.split("\t")[1]! }))];
  },
  simple: async (target) => (await target.simple<Row>(READ)).map(({ rows }) => rows),
  scope: async (target) => [(await target.scope({ settings: { "app.tenant": 7 } }).query<Row>(READ)).rows],
};

/** Reads twice: a snapshot must not change, and no result may go back in time. */
function inTransaction(target: Target, options: Parameters<Target["transaction"]>[1]): Promise<Row[][]> {
  return target.transaction(async (tx) => {
    const first = await tx.query<Row>(READ);
    const second = await tx.query<Row>(READ);
    return [first.rows, second.rows];
  }, options);
}

function raise(reason: unknown): never {
  throw reason;
}

const textOf = async (stream: ReadableStream<Uint8Array>): Promise<string> => {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  for (let text = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
  }
};

const linesOf = (text: string): string[] => text.split("\n").filter((line) => line !== "");

const insert = (n: number) => driver.sql`insert into ledger values (${n})`;

/** The position may be missing: the types of calls tell these apart. */
type Given = { readonly position: true };

/** Numbers in groups, each stored as a whole or not at all. `position`: only of a call that requested one. */
export interface Written {
  readonly position?: string | undefined;
  /** The errors of items that fail one by one, by the place of the number. */
  readonly errors?: readonly unknown[];
}

const positionOf = (result: unknown): Written => ({ position: (Object(result) as Written).position });

export const writes: Readonly<
  Record<string, (cluster: Cluster, numbers: readonly number[], given: Given) => Promise<Written>>
> = {
  exec: async (cluster, numbers, given) => positionOf(await cluster.exec(many(numbers), given)),
  query: async (cluster, numbers, given) => positionOf(await cluster.query(`${many(numbers)} returning n`, given)),
  transaction: async (cluster, numbers, given) =>
    positionOf(
      await cluster.transaction(async (tx) => {
        for (const n of numbers) await tx.exec(insert(n));
      }, given),
    ),
  last: async (cluster, numbers, given) =>
    positionOf(
      await cluster.transaction(async (tx) => {
        for (const n of numbers.slice(1)) await tx.exec(insert(n));
        await tx.last(insert(numbers[0]!));
      }, given),
    ),
  batch: async (cluster, numbers, given) => positionOf(await cluster.batch(numbers.map(insert), given)),
  "isolated batch": async (cluster, numbers, given) => {
    const results = await cluster.batch(numbers.map(insert), { ...given, atomic: false });
    const items = results as unknown as PromiseSettledResult<unknown>[];
    const errors = items.map((item) => (item.status === "rejected" ? (item.reason as unknown) : undefined));
    return { ...positionOf(results), errors };
  },
  copyFrom: async (cluster, numbers, given) =>
    positionOf(await cluster.copyFrom("copy ledger from stdin", numbers.map((n) => `${n}\n`).join(""), given)),
};

const many = (numbers: readonly number[]): string =>
  `insert into ledger values ${numbers.map((n) => `(${n})`).join(", ")}`;

export const isAtomic = (how: string): boolean => how !== "isolated batch";
