// `pgz-edge changes`: what is written to the pipe is acknowledged, and the next run continues after it.
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ServerDescriptor } from "../servers/index.mjs";
import { until } from "../support/until.mjs";
import { ended, plainUrl, server, useClient, useCommandLine } from "./command-line.ts";

const url = plainUrl((server as ServerDescriptor).superuserUrl);
const env = { DATABASE_URL: url };
const NAME = "cli_changes";
const WORDS = ["changes", "--slot", NAME, "--publication", NAME];

const cli = useCommandLine();
const db = useClient(url);
beforeEach(async () => {
  await db.simple(`create table ${NAME} (id int4 primary key, name text); create publication ${NAME} for table ${NAME};
    insert into ${NAME} values (1, 'Grace')`);
});
afterEach(async () => {
  await until(async () => (await slot())?.["active"] !== true, "nobody reads the slot");
  await db.simple(`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '${NAME}';
    drop publication ${NAME}; drop table ${NAME}`);
});

async function slot() {
  const { rows } = await db.query("select active from pg_replication_slots where slot_name = $1", [NAME]);
  return rows[0];
}

/** Runs the command until it has written enough lines, and ends it by Ctrl-C. `afterSnapshot` waits for that line. */
async function read(
  words: readonly string[],
  enough: (lines: readonly string[]) => boolean,
  afterSnapshot?: () => Promise<unknown>,
) {
  const child = cli.start([...WORDS, ...words], { env });
  let out = "";
  child.stdout!.on("data", (piece: Buffer) => (out += piece.toString()));
  const end = ended(child, { readsOut: false });
  if (afterSnapshot) {
    await until(() => has('"kind":"snapshot"')(out.split("\n")) || child.exitCode !== null, "the rows have come");
    await afterSnapshot();
  }
  await until(() => enough(out.split("\n")) || child.exitCode !== null, "the lines have come");
  // Written lines are acknowledged with the next read.
  await until(async () => (await slot())?.["active"] === true, "it reads on");
  child.kill("SIGINT");
  const { code, err } = await end;
  return { code, err, kinds: out.split("\n").flatMap((line) => (line ? [kindOf(line)] : [])) };
}

function kindOf(line: string): string {
  const { kind, new: row } = JSON.parse(line) as { kind: string; new?: { name: string } };
  return row ? `${kind} ${row.name}` : kind;
}

const has = (word: string) => (lines: readonly string[]) => lines.some((line) => line.includes(word));

test("rows of a snapshot and changes are lines, and the next run continues after the written lines", async () => {
  const insert = () => db.exec(`insert into ${NAME} values (2, 'Ada')`);
  const { code, err, kinds } = await read(["--create-slot", "permanent", "--snapshot"], has('"kind":"commit"'), insert);
  expect({ code, kinds }).toEqual({
    code: 130,
    kinds: ["schema", "insert Grace", "snapshot", "begin", "insert Ada", "commit"],
  });
  expect(err).toMatch(/^Acknowledged up to [0-9A-F]+\/[0-9A-F]+\.\n$/);
  await db.exec(`insert into ${NAME} values (3, 'Edith')`);
  expect((await read(["--peek"], has('"kind":"commit"'))).kinds).toContain("insert Edith");
  const again = await read(["--progress"], has('"kind":"commit"'));
  expect(again.kinds).toEqual(["begin", "schema", "insert Edith", "commit"]);
  expect(again.err).toMatch(/4 changes, \d+ B in /);
});

test("a reader that leaves ends the command, and errors come with advice", async () => {
  // More data than the pipe and the sockets buffer.
  await db.exec(`insert into ${NAME} select i, repeat('x', 100) from generate_series(2, 100000) i`);
  const line = `pgz-edge ${WORDS.join(" ")} --create-slot permanent --snapshot | head -n 2`;
  const { out } = await cli.shell(line, { env });
  expect(out.split("\n").map((text) => text && kindOf(text))).toEqual(["schema", "insert Grace", ""]);
  expect(await slot(), "the slot of a snapshot that broke off").toBeUndefined();
  await db.query(`select from pg_create_logical_replication_slot('${NAME}', 'pgoutput')`);
  for (const [words, code, told] of [
    [["changes"], 64, /--slot, and --publication or --tables/],
    [["changes", "x"], 64, /--slot/],
    [[...WORDS, "--snapshot"], 64, /--snapshot needs a new slot: give --create-slot too/],
    [[...WORDS, "--from", "12"], 64, /position such as/],
    [["changes", "--slot", "s", "--tables", "a,,b"], 64, /--tables needs a name before and after each comma/],
    [["changes", "--slot", "missing", "--publication", NAME], 1, /ADVICE: {2}Make it first/],
    [[...WORDS, "--snapshot", "--create-slot", "permanent"], 1, /^ERROR.*exists/],
    [[...WORDS, "--from", "FFFFF/0"], 1, /^ERROR/],
  ] as const) {
    const result = await cli.run(words, { env });
    expect([words, result]).toEqual([words, { code, out: "", err: expect.stringMatching(told) }]);
  }
});

test("a second reader of a slot says why it waits", async () => {
  await db.query(`select from pg_create_logical_replication_slot('${NAME}', 'pgoutput')`);
  const [first, second] = [cli.start(WORDS, { env }), cli.start(WORDS, { env })];
  const said = ["", ""];
  [first, second].forEach((child, at) => child.stderr!.on("data", (piece: Buffer) => (said[at] += piece.toString())));
  const waiting = 'Waiting: another connection reads slot "cli_changes".\n';
  await until(() => said.includes(waiting), "one of them waits");
  for (const child of [first, second]) {
    const end = ended(child);
    child.kill("SIGINT");
    expect((await end).code).toBe(130);
  }
  expect(said).toContain("");
});

test("the doctor lists slots without a reader, and the log that they keep", async () => {
  const slots = async () => {
    const { out } = await cli.run(["doctor", url, "--json"]);
    const { findings } = JSON.parse(out) as { findings: { id: string }[] };
    return findings.find(({ id }) => id === "slots");
  };
  await db.query(`select from pg_create_logical_replication_slot('${NAME}', 'pgoutput')`);
  expect(await slots()).toMatchObject({
    level: "change",
    text: expect.stringMatching(new RegExp(String.raw`${NAME} \(not read\) keeps \d`)),
    facts: { slots: expect.arrayContaining([{ name: NAME, active: false, retained: expect.any(Number) }]) },
    advice: [expect.stringMatching(/pg_drop_replication_slot/), expect.stringMatching(/max_slot_wal_keep_size/)],
  });
});

test("--tables replaces a publication, and leaves no publication behind", async () => {
  const child = cli.start(["changes", "--slot", NAME, "--create-slot", "temporary", "--tables", NAME], { env });
  let out = "";
  child.stdout!.on("data", (piece: Buffer) => (out += piece.toString()));
  const end = ended(child, { readsOut: false });
  // While the slot is still being made, its walsender is there too.
  const streaming = `select from pg_stat_replication join pg_replication_slots on active_pid = pid
    where slot_name = $1 and state in ('catchup', 'streaming')`;
  await until(async () => (await db.query(streaming, [NAME])).rows.length === 1, "the slot is read");
  await db.exec(`insert into ${NAME} values (2, 'Ada')`);
  await until(() => out.includes('"kind":"commit"'), "the lines have come");
  child.kill("SIGINT");
  expect((await end).code).toBe(130);
  expect(out.trimEnd().split("\n").map(kindOf)).toEqual(["begin", "schema", "insert Ada", "commit"]);
  expect((await db.query("select from pg_publication where pubname = $1", [`pgz_edge_${NAME}`])).rows).toEqual([]);
});
