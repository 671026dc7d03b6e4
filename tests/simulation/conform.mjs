// Compares the server model with real servers: the catalogue (catalogue.ts), each seed's program (conformance.ts) and
// each script of replication (replication-scripts.ts) run on both, and every difference is printed. It runs
// PROGRAMS=200 programs from FIRST=1 on, on PostgreSQL 18 and 15. ONLY="a part of a script's name" runs that script
// alone.
//
// Each server gets its own database for this: a call may ask for all types, and other tests create and drop types
// meanwhile.
//
// It uses the servers of a test run (PGZ_TEST_SERVERS) that have such a version, and starts the others. The last line
// counts.
import { randomBytes } from "node:crypto";
import pg from "pg";
import { startServers } from "../servers/index.mjs";
import { loaded } from "./load.mjs";

const { env } = process;
const programs = Number(env.PROGRAMS ?? 200);
const first = Number(env.FIRST ?? 1);
const { onModel, onReal, replicationOnModel, replicationOnReal, replicationScripts } = await loaded();

/** The versions of the model. */
const MAJORS = [18, 15];
const ofRun = JSON.parse(env.PGZ_TEST_SERVERS ?? '{"servers":[]}').servers.filter(({ own }) => own);
const given = ofRun.filter(({ major }) => MAJORS.includes(major));
const majors = MAJORS.filter((major) => given.every((server) => server.major !== major));
const started = await startServers({ majors, databaseUrl: "" });
const servers = [...started.servers, ...given];
/** Milliseconds of a script that only a hang reaches. */
const LONGEST = 120_000;
const counts = { equal: 0, different: 0, messages: 0 };
try {
  for (const server of servers) await conform(server);
} finally {
  await started.stop();
}
console.log(`[simulation] ${counts.messages} messages compared`);
console.log(`${counts.equal} passed, ${counts.different} failed`);
process.exit(counts.different ? 1 : 0);

async function conform({ name, host, port, superuserUrl }) {
  const role = `conform_${randomBytes(3).toString("hex")}`;
  const maintenance = await connected(superuserUrl);
  await maintenance.query(`create role ${role} login replication password 'secret'`);
  await maintenance.query(`create database ${role} template template0`);
  await maintenance.query(`grant create on database ${role} to ${role}`);
  const superuser = await connected(Object.assign(new URL(superuserUrl), { pathname: role }).href);
  try {
    const server = { host, port, database: role, role, password: "secret" };
    for (const seed of env.ONLY ? [] : [0, ...Array.from({ length: programs }, (_, at) => first + at)]) {
      await prepareSchema(superuser, role);
      compare(`seed ${seed} on ${name}`, await onModel(seed, Number(name), role), await onReal(seed, server));
    }
    for (const script of replicationScripts.filter((one) => one.name.includes(env.ONLY ?? ""))) {
      await prepareSchema(
        superuser,
        role,
        `alter table ${role}.ledger replica identity full;
        create publication simulated for table ${role}.ledger`,
      );
      const real = await Promise.race([replicationOnReal(script, server), late()]);
      const model = await replicationOnModel(script, Number(name), role);
      compare(`${script.name} on ${name}`, { calls: [], messages: model }, { calls: [], messages: real });
      await dropSlots(superuser);
    }
  } finally {
    await superuser.end();
    await maintenance.query(`drop database ${role} with (force)`);
    await maintenance.query(`drop role ${role}`);
    await maintenance.end();
  }
}

async function connected(connectionString) {
  const superuser = new pg.Client({ connectionString });
  await superuser.connect();
  return superuser;
}

/** Creates what the model has from the start. */
async function prepareSchema(superuser, role, more = "") {
  await superuser.query(`drop publication if exists simulated, of_two, of_bare;
    drop schema if exists ${role} cascade; create schema authorization ${role}; set role ${role};
    create type ${role}.mood as enum ('calm', 'glad', 'ü €'); create table ${role}.ledger (n int4);
    create table ${role}.shape (a int4, b text); insert into ${role}.shape values (1, 'one'); ${more}; reset role`);
}

/** Drops the slots that a script has left, after its sessions have ended. */
async function dropSlots(superuser) {
  for (;;) {
    const own = "from pg_replication_slots where database = current_database()";
    await superuser.query(`select pg_drop_replication_slot(slot_name) ${own} and not active`);
    if (!(await superuser.query(`select ${own}`)).rows.length) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function compare(what, model, real) {
  counts.messages += real.messages.length;
  const differences = [
    ...differing("calls", model.calls, real.calls),
    ...differing("messages", model.messages, real.messages),
  ];
  if (!differences.length) return void counts.equal++;
  counts.different++;
  console.log(`[simulation] FAILED ${what}\n${differences.join("\n")}`);
}

/** Resolves for a script that is stuck because it waits for a message that never comes. */
function late() {
  return new Promise((resolve) => setTimeout(() => resolve(["the real server is stuck"]), LONGEST).unref());
}

/** The first place where they differ. */
function differing(of, model, real) {
  const at = Array.from({ length: Math.max(model.length, real.length) }).findIndex((_, at) => model[at] !== real[at]);
  if (at < 0) return [];
  return [`  ${of} ${at}, model: ${model[at]}`, `  ${of} ${at}, real:  ${real[at]}`];
}
