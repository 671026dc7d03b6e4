// Holds the server model against real servers (conformance.ts): each seed's program runs on both, and what differs is
// printed. PROGRAMS=200 of them, from FIRST=1 on, on PostgreSQL 18 and 15.
//
// Each server gets a database for it: a call may ask for all types, and other tests make and drop some meanwhile.
//
// With PGZ_TEST_SERVERS the servers of a test run are used, else it starts some. The last line counts.
import { randomBytes } from "node:crypto";
import pg from "pg";
import { startServers } from "../servers/index.mjs";
import { loaded } from "./load.mjs";

const { env } = process;
const programs = Number(env.PROGRAMS ?? 200);
const first = Number(env.FIRST ?? 1);
const { onModel, onReal } = await loaded();

const given = env.PGZ_TEST_SERVERS && JSON.parse(env.PGZ_TEST_SERVERS);
const started = given ? undefined : await startServers({ majors: [18, 15] });
const servers = (given ?? started).servers.filter(({ own }) => own);
const counts = { equal: 0, different: 0, messages: 0 };
try {
  for (const server of servers) await conform(server);
} finally {
  await started?.stop();
}
console.log(`[simulation] ${counts.messages} messages compared`);
console.log(`${counts.equal} passed, ${counts.different} failed`);
process.exit(counts.different ? 1 : 0);

async function conform({ name, host, port, superuserUrl }) {
  const role = `conform_${randomBytes(3).toString("hex")}`;
  const maintenance = await connected(superuserUrl);
  await maintenance.query(`create role ${role} login password 'secret'`);
  await maintenance.query(`create database ${role} template template0`);
  const superuser = await connected(Object.assign(new URL(superuserUrl), { pathname: role }).href);
  try {
    for (let seed = first; seed < first + programs; seed++) {
      await prepareSchema(superuser, role);
      const real = await onReal(seed, { host, port, database: role, role, password: "secret" });
      compare(`seed ${seed} on ${name}`, await onModel(seed, Number(name), role), real);
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

/** What the model has from the start. */
async function prepareSchema(superuser, role) {
  await superuser.query(`drop schema if exists ${role} cascade; create schema authorization ${role}; set role ${role};
    create type ${role}.mood as enum ('calm', 'glad', 'ü €'); create table ${role}.ledger (n int4);
    create table ${role}.shape (a int4, b text); insert into ${role}.shape values (1, 'one'); reset role`);
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

/** The first place in which they differ. */
function differing(of, model, real) {
  const at = Array.from({ length: Math.max(model.length, real.length) }).findIndex((_, at) => model[at] !== real[at]);
  if (at < 0) return [];
  return [`  ${of} ${at}, model: ${model[at]}`, `  ${of} ${at}, real:  ${real[at]}`];
}
