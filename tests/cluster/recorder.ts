// Calls that are recorded for history.ts: lanes write registers and lists on the primary, and read after positions of
// any lane's writes.
//
// Knows the calls of a cluster. Must not know its servers, or when one of them fails.
import type { Cluster } from "../../js/cluster.ts";
import { lsnOf } from "../../js/cluster/position.ts";
import { generator } from "../support/random.ts";
import { isList, type Ends, type Read, type Write } from "./history.ts";
import { driver } from "./world.ts";

const { sql } = driver;
/** Maximum number of values of a list, so that reading a list does not take ever longer. */
const LONGEST_LIST = 200;

export interface Recorder {
  readonly writes: Write[];
  readonly reads: Read[];
  /** Errors by their codes. */
  readonly codes: ReadonlyMap<string, number>;
  readonly calls: number;
  /** Milliseconds that the slowest call took, whether it failed or not. */
  readonly slowest: number;
  /** Makes calls until `isOver` returns true. */
  run(isOver: () => boolean): Promise<void>;
  /** Reads the present values of each object on the primary, through `ask`. */
  last(ask: Ask): Promise<Read[]>;
}

/** Returns the rows of a statement. */
export type Ask = (text: string) => Promise<Record<string, unknown>[]>;

interface Options {
  readonly seed: number;
  readonly lanes: number;
  /** Called between two calls of a lane. */
  readonly rest?: () => Promise<void>;
}

/** Creates the tables and the recorder. */
export async function recorder(cluster: Cluster, options: Options): Promise<Recorder> {
  const { seed, lanes, rest } = options;
  await cluster.simple("create table registers (id text primary key, n int); create table lists (id text, n int)");
  const writes: Write[] = [];
  const reads: Read[] = [];
  const codes = new Map<string, number>();
  const positions: string[] = [await cluster.position()];
  let calls = 0;
  let slowest = 0;
  /** Counts the beginnings and the ends of calls. */
  let clock = 0;

  const attempt = async (work: () => Promise<void>) => {
    calls++;
    const began = performance.now();
    try {
      await work();
    } catch (error) {
      const { code } = error as { code: string };
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
    slowest = Math.max(slowest, performance.now() - began);
  };

  async function written(object: string, value: number, work: () => Promise<{ readonly position: string }>) {
    const at = writes.push({ object, value, position: undefined, acknowledged: Infinity }) - 1;
    await attempt(async () => {
      const { position } = await work();
      writes[at] = { object, value, position, acknowledged: ++clock };
      positions[value % lanes] = position;
    });
  }

  async function read(object: string, writer: number) {
    const after = positions[writer] ?? positions[0]!;
    const table = sql.identifier(isList(object) ? "lists" : "registers");
    const began = ++clock;
    await attempt(async () => {
      const { rows } = await cluster.reads
        .after(after)
        .query<{ n: number }>(sql`select n from ${table} where id = ${object}`);
      reads.push({ object, after, values: rows.map(({ n }) => n), began });
    });
  }

  const lane = async (id: number, isOver: () => boolean) => {
    const dice = generator(seed + id);
    const register = `register${id}`;
    let value = 0;
    for (; !isOver(); await rest?.()) {
      const list = `list${id}-${Math.floor(value / LONGEST_LIST)}`;
      const die = dice(100);
      if (die < 30) {
        const n = ++value;
        const put = sql`insert into registers values (${register}, ${n}) on conflict (id) do update set n = ${n}`;
        await written(register, n, () => cluster.exec(put, { position: true }));
      } else if (die < 50) {
        const n = ++value;
        const append = sql`insert into lists values (${list}, ${n})`;
        await written(list, n, () => cluster.transaction((tx) => tx.exec(append), { position: true }));
      } else await read(die < 75 ? `register${dice(lanes)}` : list, dice(lanes));
    }
  };

  return {
    writes,
    reads,
    codes,
    get calls() {
      return calls;
    },
    get slowest() {
      return slowest;
    },
    run: async (isOver) => void (await Promise.all(Array.from({ length: lanes }, (_, id) => lane(id, isOver)))),
    async last(ask) {
      const after = await cluster.position();
      const objects = [...new Set(writes.map(({ object }) => object))];
      // Not object by object: each question has a connection of its own.
      const values = new Map(objects.map((object): [string, number[]] => [object, []]));
      for (const table of ["registers", "lists"])
        for (const { id, n } of (await ask(`select id, n from ${table}`)) as { id: string; n: number }[])
          values.get(id)?.push(n);
      return objects.map((object) => ({ object, after, values: values.get(object)!, began: Infinity }));
    },
  };
}

/**
 * Returns where each timeline ended, from the history file of the newest one. `ask`: as a superuser, on the last
 * primary.
 */
export async function endsOf(ask: Ask): Promise<Ends> {
  const newest = "select max(name) from pg_ls_waldir() where name like '%.history'";
  const [{ text }] = (await ask(`select pg_read_file('pg_wal/' || (${newest})) as text`)) as [{ text: string }];
  const lines = text.split("\n").map((line) => line.split("\t"));
  return new Map(lines.filter(([of]) => Number(of)).map(([of, at]) => [Number(of), lsnOf(at!)]));
}
