// COPY in both directions: every kind of source, back-pressure, ends caused by either side, and limits.
import type { Client, CopySource, Transaction } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { pause, until } from "../../support/until.mjs";
import { canceled, gone, newMark, running, series, slowly, terminateRunning, text } from "./helpers.ts";
import { newTarget, stored } from "./tables.ts";

const encoder = new TextEncoder();

export const copy: Cases = {
  async "copyFrom takes text, bytes, blobs, streams and pieces of any size, in every format"(t) {
    const [client, table] = await newTarget(t);
    const data = "1\tone\n2\tü €𝄞\n3\t\\N\n";
    const bytes = encoder.encode(data);
    const sources: [string, CopySource][] = [
      ["text", data],
      ["bytes", bytes],
      ["a buffer", bytes.buffer],
      ["a view of a part", new DataView(encoder.encode(`xx${data}xx`).buffer, 2, bytes.length)],
      ["an array", [...data]],
      ["an array of bytes", [...bytes].map((byte) => Uint8Array.of(byte))],
      ["a set", new Set<string | Uint8Array>(["1\tone\n2\t", "ü €𝄞\n", encoder.encode("3\t\\N\n")])],
      ["a generator", slowly<string | Uint8Array>("1\tone\n2\t", encoder.encode("ü €𝄞\n3\t\\N"), "\n")],
      ["a blob", new Blob([data])],
      ["a stream", new Blob([data]).stream()],
      [
        "a stream of text",
        new ReadableStream<string>({
          start: (controller) => [...data].forEach((piece) => controller.enqueue(piece)) ?? controller.close(),
        }),
      ],
    ];
    const rows: unknown[] = ["one", "ü €𝄞", null].map((text, at) => [at + 1, text]);
    for (const [name, source] of sources) {
      const result = await client.copyFrom(`copy ${table} from stdin`, source);
      t.assert.deepEqual(result, { command: "COPY", rowCount: 3 }, name);
      t.assert.deepEqual(await stored(client, table), rows, name);
      await client.exec(`delete from ${table}`);
    }
    await client.copyFrom(`copy ${table} from stdin (format csv, header)`, ['n,t\r\n1,"a\n', 'b"\r\n2,"c,"\r\n']);
    t.assert.deepEqual(await stored(client, table), [
      [1, "a\nb"],
      [2, "c,"],
    ]);
    const binary = new Uint8Array(
      await new Response(await client.copyTo(`copy ${table} to stdout (format binary)`)).arrayBuffer(),
    );
    await client.exec(`delete from ${table}`);
    t.assert.equal((await client.copyFrom(`copy ${table} from stdin (format binary)`, binary)).rowCount, 2);
    t.assert.deepEqual(await stored(client, table), [
      [1, "a\nb"],
      [2, "c,"],
    ]);
    t.assert.equal((await client.copyFrom(`copy ${table} from stdin`, [])).rowCount, 0);
    t.assert.equal((await client.copyFrom(`copy ${table} from stdin`, "")).rowCount, 0);
  },
  async "megabytes pass in both directions unchanged, and progress is reported"(t) {
    const [client, table] = await newTarget(t);
    const lines = Array.from({ length: 40_000 }, (_, n) => `${n}\trow ${n} ${"é".repeat(n % 100)}\n`);
    const whole = encoder.encode(lines.join(""));
    const told: number[] = [];
    const { rowCount } = await client.copyFrom(`copy ${table} from stdin`, lines, {
      onProgress: ({ bytes }) => void told.push(bytes),
    });
    t.assert.equal(rowCount, lines.length);
    t.assert(told.length > 10 && told.every((bytes, at) => !at || bytes >= told[at - 1]!));
    t.assert.equal(told.at(-1), whole.length);
    await client.copyFrom(`copy ${table} from stdin`, lines.join("").replaceAll("row", "again"));
    const [row] = (
      await client.query<{ n: number; sum: string }>(
        `select count(*)::int4 as n, md5(string_agg(t, '|' order by n, t)) as sum
             from ${table} where t like 'row%'`,
      )
    ).rows;
    const [expected] = (
      await client.query<{ sum: string }>(
        `select md5(string_agg('row ' || n || ' ' || repeat('é', n % 100), '|' order by n)) as sum
             from generate_series(0, 39999) n`,
      )
    ).rows;
    t.assert.deepEqual(row, { n: 40_000, sum: expected?.sum ?? "" });
    const out = await text(
      await client.copyTo(`copy (select n, t from ${table} where t like 'row%' order by n) to stdout`),
    );
    t.assert(out === lines.join(""));
  },
  async "text cut within a character is refused, and nothing is stored"(t) {
    const [client, table] = await newTarget(t);
    for (const source of ["1\ta\ud83d\n", ["1\t\ud83d", "\ude00\n"], ["1\ta\n", "\udc00"]]) {
      await t.assert.code(client.copyFrom(`copy ${table} from stdin`, source), "INVALID_PARAMETER");
    }
    t.assert.deepEqual(await stored(client, table), []);
  },
  async "long texts of characters of any width survive pieces that end anywhere"(t) {
    const [client, table] = await newTarget(t);
    for (const character of ["a", "é", "€", "😀"]) {
      for (const before of ["", "x", "xx", "xxx"]) {
        const line = `1\t${before}${character.repeat(40_000)}\n`;
        await client.copyFrom(`copy ${table} from stdin`, line + line);
      }
      const [row] = (
        await client.query<{ n: number }>(
          `select count(*)::int4 as n from ${table}
               where t ~ '^x{0,3}${character}+$' and length(ltrim(t, 'x')) = 40000`,
        )
      ).rows;
      t.assert.equal(row?.n, 8, character);
      await client.exec(`delete from ${table}`);
    }
  },
  async "a server's error while data are sent stops the source at once, names the line, and stores nothing"(t) {
    const [client, table] = await newTarget(t);
    let [given, left] = [0, false];
    const endless = async function* () {
      try {
        for (;;) yield given++ ? "1\tgood\n".repeat(1_000) : "x\tbad\n";
      } finally {
        left = true;
      }
    };
    await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, endless()), {
      name: "PostgresError",
      code: "22P02",
      where: 'COPY target, line 1, column n: "x"',
    });
    await until(() => left);
    t.assert(given < 20_000, `${given} pieces of 7 kB`);
    let cancelled = false;
    const waiting = new ReadableStream<string>({
      start: (controller) => controller.enqueue("x\tbad\n".repeat(20_000)),
      pull: () => new Promise(() => {}),
      cancel: () => void (cancelled = true),
    });
    await t.assert.code(client.copyFrom(`copy ${table} from stdin`, waiting), "22P02");
    await until(() => cancelled);
    await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, "1\tone\n2\ttwo\tthree\n"), {
      code: "22P04",
      where: 'COPY target, line 2: "2\ttwo\tthree"',
    });
    t.assert.deepEqual(await stored(client, table), []);
  },
  async "a source that fails ends the COPY, and its message is not sent to the server"(t) {
    const [client, table] = await newTarget(t);
    const broken = async function* () {
      yield "1\tone\n".repeat(30_000);
      await pause(1);
      throw new Error("the source's secret");
    };
    const error = await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, broken()), {
      code: "COPY_SOURCE_FAILED",
      name: "PgzError",
    });
    t.assert.equal((error.cause as Error).message, "the source's secret");
    t.assert.equal(/secret/.test(error.message), false);
    const errored = new ReadableStream<string>({ start: (controller) => controller.error(new Error("broken")) });
    await t.assert.code(client.copyFrom(`copy ${table} from stdin`, errored), "COPY_SOURCE_FAILED");
    await t.assert.code(client.copyFrom(`copy ${table} from stdin`, [1, 2] as never), "INVALID_PARAMETER");
    await t.assert.code(client.copyFrom(`copy ${table} from stdin`, 7 as never), "INVALID_OPTION");
    await t.assert.code(
      client.copyFrom(`copy ${table} from stdin`, "1\tone\n", {
        onProgress: () => {
          throw new Error("no more");
        },
      }),
      "COPY_SOURCE_FAILED",
    );
    t.assert.deepEqual(await stored(client, table), []);
  },
  async "an abort ends a COPY whose source has stopped giving data, and frees the server's session"(t) {
    const [client, table] = await newTarget(t);
    const mark = newMark();
    const leaving = new AbortController();
    const silent = new ReadableStream<string>({
      start: (controller) => controller.enqueue("1\tone\n"),
      pull: () => new Promise(() => {}),
    });
    const rejected = t.assert.code(
      client.copyFrom(`copy ${table} from stdin /* ${mark} */`, silent, { signal: leaving.signal }),
      "ABORTED",
    );
    await until(async () => (await running(t, mark)) > 0);
    leaving.abort();
    await rejected;
    await gone(t, mark);
    t.assert.deepEqual(await stored(client, table), []);
    const out = await client.copyTo(`copy (select n from ${series(100_000_000, "n")} /* ${mark} */) to stdout`);
    const reader = out.getReader();
    await reader.read();
    await reader.cancel();
    await canceled(t, client, mark);
    await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
  },
  async "a text that is not the right kind of COPY is refused, and the connection is unchanged"(t) {
    const [client, table] = await newTarget(t);
    const { sql } = t.pgz;
    const refused = (call: Promise<unknown>) => t.assert.code(call, "COPY_NEEDS_COPY_CALL");
    for (const other of ["select 1", `copy ${table} to stdout`, "", "set application_name = 'x'"])
      await refused(client.copyFrom(other, "1\tone\n"));
    for (const other of ["select 1", `copy ${table} from stdin`, "", "select n from generate_series(1, 1000000) n"])
      await refused(client.copyTo(other));
    await t.assert.code(client.copyTo("copy nothing to stdout"), "42P01");
    await t.assert.code(client.copyFrom(sql`copy t from stdin where n = ${1}`, ""), "INVALID_QUERY");
    for (const other of [`copy ${table} from stdin`, "copy (select generate_series(1, 1000000)) to stdout"])
      await refused(client.query(other));
    await refused(client.stream(`copy ${table} from stdin`));
    await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
  },
  async "a text of several statements runs none of them, and a semicolon in quotes does not separate statements"(t) {
    const [client, table] = await newTarget(t);
    const several = [
      () => client.copyTo(`copy (select 1) to stdout; drop table ${table}`),
      () => client.copyFrom(`copy ${table} (n) from stdin; drop table ${table}`, "1\n"),
    ];
    for (const call of several) await t.assert.rejects(call(), { name: "PostgresError", code: "42601" });
    const others = [
      () => client.copyTo(`drop table ${table}; copy (select 1) to stdout`),
      () => client.copyFrom(`drop table ${table}; copy pg_class from stdin`, "1\n"),
    ];
    for (const call of others) await t.assert.code(call(), "COPY_NEEDS_COPY_CALL");
    await t.assert.rows(client.query(`select n from ${table}`), []);
    const one = await client.copyTo("copy (select ';', 1 as \"a;b\") to stdout; -- the end");
    t.assert.equal(await new Response(one).text(), ";\t1\n");
    const copied = await client.copyFrom(`copy ${table} (n, t) from stdin (delimiter ';') ;`, "7;x\n");
    t.assert.equal(copied.rowCount, 1);
    const inTransaction = client.transaction((tx) => tx.copyTo("copy (select 1) to stdout; commit"));
    await t.assert.code(inTransaction, "42601");
  },
  async "copyTo keeps to its limits, and COPY works inside a transaction"(t) {
    const [client, table] = await newTarget(t);
    const series = "copy (select n from generate_series(1, 5) n) to stdout";
    t.assert.equal(await text(await client.copyTo(series, { maxRows: 5 })), "1\n2\n3\n4\n5\n");
    await t.assert.rejects(client.copyTo(series, { maxRows: 4 }), {
      code: "RESPONSE_TOO_LARGE",
      limit: "rows",
      value: 4,
      observed: 5,
    });
    await t.assert.rejects(client.copyTo(series, { maxBytes: 9 }), { code: "RESPONSE_TOO_LARGE", limit: "bytes" });
    await t.assert.rejects(
      client.transaction(async (tx) => {
        await tx.copyFrom(`copy ${table} from stdin`, "1\tone\n");
        t.assert.equal(await text(await tx.copyTo(`copy ${table} to stdout`)), "1\tone\n");
        await tx.copyFromRows(t.pgz.sql.unsafe(table), ["n"], [[2]]);
        throw new Error("no");
      }),
      { message: "no" },
    );
    t.assert.deepEqual(await stored(client, table), []);
    t.assert.equal(await text(await client.copyTo("copy (select where false) to stdout")), "");
  },
  async "an abort before the server has answered COPY fails only that call"(t) {
    const [client, table] = await newTarget(t);
    for (const ms of [0, 0, 1, 2, 5]) {
      const leaving = new AbortController();
      const call = t.assert.code(
        client.copyFrom(`copy ${table} from stdin`, new ReadableStream<string>(), { signal: leaving.signal }),
        "ABORTED",
      );
      if (ms) await pause(ms);
      leaving.abort();
      await call;
      await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
    }
  },
  "a source that calls the client of its own COPY gets an error, and nothing is stored": {
    differs: ["timers"],
    async run(t) {
      const [client, table] = await newTarget(t);
      const other = await t.client();
      const refused = { code: "STREAM_OPEN", retryable: true };
      const copies = (on: Client | Transaction, work: () => Promise<unknown>) =>
        on.copyFromRows(
          t.pgz.sql.unsafe(table),
          ["n"],
          (async function* () {
            yield [1];
            await work();
            yield [2];
          })(),
        );
      const asks = (on: Client | Transaction) => on.query("select 1 as n");
      const calls = t.assert.rejects(
        copies(client, () => asks(client)),
        refused,
      );
      const nested = t.assert.rejects(
        other.transaction((tx) => copies(tx, () => tx.transaction(asks))),
        refused,
      );
      const third = await t.client();
      const begins = t.assert.rejects(
        copies(third, () => third.transaction(asks)),
        refused,
      );
      const fourth = await t.client();
      const outer = t.assert.rejects(
        fourth.transaction((tx) => copies(tx, () => fourth.transaction(asks))),
        { code: "TRANSACTION_OPEN", retryable: true },
      );
      // Made before the COPY begins to read.
      const fifth = await t.client();
      let asked: Promise<unknown> | undefined;
      const early = t.assert.rejects(
        copies(fifth, () => asked!),
        refused,
      );
      asked = asks(fifth);
      await Promise.all([calls, nested, begins, outer, early, t.assert.rejects(asked, refused)]);
      t.assert.deepEqual(await stored(client, table), []);
    },
  },
  async "a pool's transaction after rows were copied has its BEGIN, and a lost COPY takes no other call with it"(t) {
    const [client, table] = await newTarget(t);
    const pool = t.pool({ max: 1 });
    const into = t.pgz.sql.unsafe(table);
    await pool.copyFromRows(into, ["n"], [[1]]);
    await pool.transaction(async (tx) => {
      await t.side("select 1"); // so that its first call comes after many microtasks
      await tx.exec(`insert into ${table} values (2)`);
    });
    t.assert.deepEqual(await stored(client, table), [
      [1, null],
      [2, null],
    ]);
    await client.query("select 1");
    const copying = client.copyFromRows(
      into,
      ["n"],
      (async function* () {
        yield [3];
        await terminateRunning(t, table);
        await new Promise(() => {});
      })(),
    );
    const waiting = [client.query("select 1 as n"), client.query("select 2 as n")];
    await t.assert.code(copying, "57P01");
    t.assert.deepEqual(
      (await Promise.all(waiting)).map(({ rows }) => rows),
      [[{ n: 1 }], [{ n: 2 }]],
    );
    t.assert.deepEqual(await stored(client, table), [
      [1, null],
      [2, null],
    ]);
  },
};
