#!/usr/bin/env node
// Records the scenarios of replication-scenarios.mjs from real servers into transcripts/replication: `node
// tests/transcripts/record-replication.mjs [file …]`.
//
// Logs in with the built driver (dist/), drives the built core of changes (pkg/) behind that, and writes the calls and
// the bytes of both sides as `raw` lines; then `TRANSCRIPTS=rewrite cargo test` names the messages and adds rows and
// events. Read the diff before you keep it.
import { readFileSync } from "node:fs";
import pg from "pg";
import { logIn } from "../../dist/node.js";
import { ChangesCore, initSync } from "../../pkg/pgz_changes.js";
import { numbers } from "../support/numbers.mjs";
import { quoted, raw, recordAll } from "./recording.mjs";
import { scenarios } from "./replication-scenarios.mjs";

const { memory } = initSync({ module: readFileSync(new URL("../../pkg/pgz_changes_bg.wasm", import.meta.url)) });
const { CHANGES_ANSWERED, CHANGES_FAILED, CHANGES_KEEPALIVE, CHANGES_STREAMING, CHANGES_TYPES_WANTED } = numbers;

/** A replication connection: each verb writes its line and makes its call. */
class Session {
  lines = [];
  /** Lines of changes that have come. */
  told = "";
  #core = new ChangesCore(1 << 30, 0, true);
  #socket;
  #sql;

  constructor(socket, sql) {
    this.#socket = socket;
    this.#sql = sql;
  }

  /** Statements of another session. */
  async sql(text) {
    return (await this.#sql.query(text)).rows;
  }

  async command(text) {
    await this.#call(`command ${quoted(text)}`, (core) => core.command(text));
    await this.#until((happened) => happened & (CHANGES_ANSWERED | CHANGES_STREAMING));
    return this.#answer;
  }

  async snapshotTable(oid, identity, names, columns, at) {
    const words = [oid, identity, quoted(names), text(at), ...columns];
    await this.#call(`snapshot_table ${words.join(" ")}`, (core) =>
      core.snapshot_table(oid, identity, names, Uint32Array.from(columns), at),
    );
  }

  async copy(text, oid) {
    await this.#call(`copy ${quoted(text)} ${oid}`, (core) => core.copy(text, oid));
    await this.#until((happened) => happened & CHANGES_ANSWERED);
  }

  async snapshotOver(at) {
    await this.#call(`snapshot_over ${text(at)}`, (core) => core.snapshot_over(at));
  }

  async updateStatus(at, wantsAnswer = false) {
    await this.#call(`update_status ${text(at)} 0${wantsAnswer ? " wants_answer" : ""}`, (core) =>
      core.update_status(at, 0n, wantsAnswer),
    );
  }

  /** Until the lines of changes have this in them so often. */
  async lineOf(part, times = 1) {
    await this.#until(() => this.told.split(part).length > times);
  }
  async keepalive() {
    await this.#until((happened) => happened & CHANGES_KEEPALIVE);
  }
  async answered() {
    await this.#until((happened) => happened & CHANGES_ANSWERED);
  }
  async terminate() {
    await this.#call("terminate", (core) => core.terminate());
  }

  #answer;

  async #call(line, make) {
    this.lines.push(`> ${line}`);
    make(this.#core);
    const output = this.#core.take_output();
    if (!output.length) return;
    this.lines.push(raw("F", output));
    await this.#socket.write(output);
  }

  async #until(holds) {
    for (let happened = 0; !holds(happened);) {
      const chunk = await this.#socket.read();
      if (!chunk) throw new Error("the server has ended the connection");
      this.lines.push(raw("B", chunk));
      new Uint8Array(memory.buffer, this.#core.input(chunk.length), chunk.length).set(chunk);
      happened |= this.#received(chunk.length);
    }
  }

  #received(count) {
    let happened = this.#core.receive(count);
    while (happened & CHANGES_TYPES_WANTED) {
      this.#core.take_wanted_types();
      this.#core.define_types(new Uint32Array(), new Uint32Array(), "");
      happened = (happened & ~CHANGES_TYPES_WANTED) | this.#core.receive(0);
    }
    if (happened & CHANGES_FAILED) throw new Error(this.#core.failure());
    if (happened & CHANGES_ANSWERED) this.#answer = JSON.parse(this.#core.take_answer());
    const length = this.#core.seal();
    this.told += new TextDecoder().decode(new Uint8Array(memory.buffer, this.#core.changes_pointer(), length));
    this.#core.changes_taken();
    return happened;
  }
}

/** `0/16B3748` */
const text = (at) => `${(at >> 32n).toString(16)}/${(at & 0xffffffffn).toString(16)}`.toUpperCase();

async function lines({ options, run }, { superuserUrl }) {
  const connectionString = superuserUrl.split("?")[0];
  const sql = new pg.Client({ connectionString });
  await sql.connect();
  const drop = `drop publication if exists recorded; drop schema if exists recorded cascade;
    select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = 'recorded'`;
  await sql.query(`${drop}; create schema recorded; set search_path to recorded`);
  const { socket } = await logIn(`${connectionString}?sslmode=disable`, { replication: "database", options });
  const session = new Session(socket, sql);
  try {
    await run(session);
  } finally {
    await socket.close();
    const free = "select from pg_replication_slots where slot_name = 'recorded' and active";
    while ((await sql.query(free)).rows.length);
    await sql.query(drop);
    await sql.end();
  }
  return session.lines;
}

await recordAll(scenarios, {
  folder: "replication",
  recorder: () => "record-replication.mjs",
  lines,
  test: ["--features", "replication", "--test", "replication", "every_conversation"],
});
