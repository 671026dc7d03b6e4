// The scripts that test the model of PgBouncer beyond what a driver does: conversations with one or more clients, each
// of which runs on the model and on real poolers (pooler-conformance.ts).
//
// Where PgBouncer's own faults depend on time, a script sleeps on the server, so that the recipient of a response is
// certain.
import {
  bind,
  close,
  copyData,
  copyDone,
  copyFail,
  describe,
  execute,
  flush,
  parse,
  query,
  startup,
  sync,
  terminate,
  type Script,
  type Stage,
  type Talker,
  type Wants,
} from "./pooler-conformance.ts";

const one = { poolSize: 1 };

/** Another client holds the connection that was released last for as long as `work` runs. */
async function beside(stage: Stage, work: () => Promise<void>): Promise<void> {
  const holder = await stage.client();
  await holder.ask(query("begin"));
  await work();
  await holder.ask(query("commit"));
}

/** Prepares, binds, describes and runs, as the driver does. */
const run = (name: string, text: string): Uint8Array[] => [parse(name, text), bind(name), describe("P", ""), execute()];

const script = (name: string, wants: Partial<Wants>, run: Script["run"]): Script => ({ name, wants, run });

/** A login alone. */
const login = (name: string, ...given: Parameters<Stage["client"]>): Script =>
  script(name, {}, async (stage) => void (await stage.client(...given)));

const slowly = (text: string) => query(`select pg_sleep(0.3); ${text}`);

export const scripts: readonly Script[] = [
  login("a login"),
  login("a login with settings that are followed", {
    application_name: "it's me",
    TimeZone: "Asia/Tokyo",
    DateStyle: "German",
  }),
  login("a wrong password", {}, "wrong"),
  login("no such user", { user: "nobody" }),
  login("no such database", { database: "nowhere" }),
  login("no user", { user: "" }),
  login("search_path at login", { search_path: "app" }),
  script(
    "an ignored parameter at login",
    {
      settings: "ignore_startup_parameters = search_path",
      options: { ignoredStartupParameters: ["search_path"] },
    },
    async (stage) => void (await stage.client({ search_path: "app" })),
  ),
  login("options", { options: "-c work_mem=9MB" }),
  login("followed options", { options: "-c TimeZone=Asia/Tokyo" }),
  login("odd options", { options: "-W 3" }),
  login("a setting in small letters", { timezone: "Asia/Tokyo" }),
  login("a protocol extension", { "_pq_.some": "1", "_pq_.other": "2" }),
  script("protocol 3.2", {}, async (stage) => {
    const a = await stage.line();
    await a.ask(startup({ user: "app", database: "app" }, (3 << 16) | 2));
  }),
  script("protocol 2.0", {}, async (stage) => {
    const a = await stage.line();
    await a.ask(startup({ user: "app", database: "app" }, 2 << 16));
  }),
  script("a startup packet in two parts", {}, async (stage) => {
    const a = await stage.line();
    const message = startup({ user: "app", database: "app" });
    a.send(message.subarray(0, 20));
    await stage.pause(50);
    await a.ask(message.subarray(20));
  }),
  script("a password before anything", {}, async (stage) => {
    const a = await stage.line();
    a.send(query("x").fill(112, 0, 1));
    await a.over();
  }),
  script(
    "max_client_conn",
    { settings: "max_client_conn = 2", options: { maxClientConnections: 2 } },
    async (stage) => {
      for (let n = 0; n < 3; n++) await stage.client();
    },
  ),
  script("simple statements, an error, an empty one", {}, async (stage) => {
    const a = await stage.client();
    for (const text of ["select 1 as a", "selec 1", "", "select 1 as a; select 2 as b"]) await a.ask(query(text));
  }),
  script("unnamed statements", {}, async (stage) => {
    const a = await stage.client();
    await a.ask(...run("", "select 7 as a"), sync());
    await a.ask(...run("", "select 1/0"), ...run("", "select 8 as a"), sync());
    await a.ask(...run("", "selec"), sync());
    a.send(...run("", "select 1 as a"), sync(), ...run("", "selec"), sync(), ...run("", "select 3 as a"), sync());
    await a.ready(3);
  }),
  script("syncs alone, and a flush", {}, async (stage) => {
    const a = await stage.client();
    a.send(sync(), sync(), sync());
    await a.ready(3);
    a.send(...run("", "select 7 as a"), flush());
    await stage.pause(50);
    await a.ask(sync());
  }),
  script("a named statement, again, closed, and then missing", one, async (stage) => {
    const a = await stage.client();
    await a.ask(...run("s", "select 7 as a"), sync());
    await a.ask(bind("s"), describe("S", "s"), execute(), sync());
    await a.ask(close("S", "s"), sync());
    await a.ask(bind("s"), execute(), sync());
  }),
  script("a name that is taken", one, async (stage) => {
    const a = await stage.client();
    await a.ask(parse("s", "select 7 as a"), sync());
    await a.ask(parse("s", "select 8 as a"), sync());
    await a.ask(query("select 9 as a"));
  }),
  script("a name whose Parse has failed", one, async (stage) => {
    const a = await stage.client();
    await a.ask(parse("s", "selec"), sync());
    await a.ask(...run("s", "select 7 as a"), sync());
  }),
  script("a name whose Parse has failed, closed in front of the next", one, async (stage) => {
    const a = await stage.client();
    await a.ask(parse("s", "selec"), sync());
    await a.ask(close("S", "s"), ...run("s", "select 7 as a"), sync());
  }),
  script("two clients with one name and one text", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    await a.ask(...run("s", "select 7 as a"), sync());
    await b.ask(...run("s", "select 7 as a"), sync());
    await a.ask(bind("s"), execute(), sync());
  }),
  script("two clients with one name and two texts", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    await a.ask(...run("s", "select 7 as a"), sync());
    await b.ask(...run("s", "select 8 as a"), sync());
    await a.ask(bind("s"), execute(), sync());
    await b.ask(bind("s"), execute(), sync());
  }),
  script("a name on another server connection", { poolSize: 2 }, async (stage) => {
    const a = await stage.client();
    await a.ask(...run("s", "select 7 as a"), sync());
    await beside(stage, async () => {
      await a.ask(bind("s"), execute(), sync());
      await a.ask(query("select 8 as a"));
      await a.ask(bind("s"), execute(), ...run("", "select 9 as b"), sync());
      await a.ask(describe("S", "s"), sync());
    });
  }),
  script("a name on another server connection, in a transaction that has failed", { poolSize: 2 }, async (stage) => {
    const a = await stage.client();
    await a.ask(...run("s", "select 7 as a"), sync());
    await beside(stage, async () => {
      await a.ask(query("begin"));
      await a.ask(query("select 1/0"));
      await a.ask(bind("s"), execute(), sync());
      await a.ask(query("rollback"));
      await a.ask(bind("s"), execute(), sync());
    });
  }),
  script("known texts in one flight with an error", one, async (stage) => {
    const a = await stage.client();
    await a.ask(...run("s", "select 7 as a"), sync());
    await a.ask(...run("t", "select 7 as a"), ...run("u", "select 1/0"), ...run("v", "select 7 as a"), sync());
    await a.ask(bind("v"), execute(), sync());
    await a.ask(bind("u"), execute(), sync());
  }),
  script("known texts in front, and a Close between", one, async (stage) => {
    const a = await stage.client();
    await a.ask(parse("s", "select 7 as a"), sync());
    await a.ask(parse("t", "select 7 as a"), close("S", "t"), ...run("u", "select 7 as a"), close("S", "u"), sync());
    await a.ask(...run("", "select 8 as a"), close("S", "s"), ...run("s", "select 9 as a"), sync());
  }),
  script("a Close by itself, and of what is not there", one, async (stage) => {
    const a = await stage.client();
    await a.ask(close("S", "none"), sync());
    await a.ask(close("S", ""), close("P", "none"), sync());
    await a.ask(query("begin"));
    await a.ask(...run("s", "select 7 as a"), sync());
    await a.ask(close("S", "s"), sync());
    await a.ask(query("commit"));
  }),
  script("many pipelined names", one, async (stage) => {
    const a = await stage.client();
    for (let n = 0; n < 6; n++) a.send(...run(`s${n}`, `select ${n % 3} as a`), sync());
    await a.ready(6);
    for (let n = 5; n >= 0; n--) a.send(bind(`s${n}`), execute(), close("S", `s${n}`), sync());
    await a.ready(6);
    await a.ask(query("select name, statement from pg_prepared_statements order by name"));
  }),
  script(
    "more names than fit",
    { ...one, settings: "max_prepared_statements = 2", options: { maxPreparedStatements: 2 } },
    async (stage) => {
      const a = await stage.client();
      for (let n = 0; n < 4; n++) await a.ask(...run(`s${n}`, `select ${n} as a`), sync());
      for (let n = 3; n >= 0; n--) await a.ask(bind(`s${n}`), execute(), sync());
      a.send(bind("s0"), execute(), bind("s1"), execute(), bind("s2"), execute(), bind("s3"), execute(), sync());
      await a.ready();
      await a.ask(bind("s0"), execute(), ...run("", "select 1/0"), bind("s1"), execute(), sync());
      for (let n = 0; n < 4; n++) await a.ask(bind(`s${n}`), execute(), sync());
    },
  ),
  script("DEALLOCATE ALL and DISCARD ALL", one, async (stage) => {
    for (const text of ["deallocate all", "discard all"]) {
      const a = await stage.client();
      await a.ask(...run("s", "select 7 as a"), sync());
      await a.ask(query(text));
      await a.ask(...run("s", "select 7 as a"), sync());
      await a.ask(query(text));
      await a.ask(bind("s"), execute(), sync());
    }
  }),
  script("settings follow their client, others stay", one, async (stage) => {
    const [a, b] = [await stage.client({ TimeZone: "Asia/Tokyo", application_name: "a" }), await stage.client()];
    const asks = async (talker: Talker) => {
      for (const name of ["timezone", "application_name", "datestyle", "statement_timeout"])
        await talker.ask(query(`show ${name}`));
    };
    await asks(a);
    await asks(b);
    await b.ask(query("set datestyle = 'German'"));
    await b.ask(query("set application_name = 'it''s b'"));
    await b.ask(query("set statement_timeout = '7s'"));
    await asks(a);
    await asks(b);
    await a.ask(query("reset all"));
    await asks(a);
  }),
  script("a setting that the server refuses", one, async (stage) => {
    const a = await stage.client({ TimeZone: "Nowhere/Else" });
    await a.ask(query("select 1 as a"));
    const b = await stage.client();
    await b.ask(query("select 2 as a"));
  }),
  script("the server connection ends in a transaction", one, async (stage) => {
    const a = await stage.client();
    await a.ask(query("begin"));
    await a.ask(query("select pg_terminate_backend(pg_backend_pid())"));
    await a.over();
    const b = await stage.client();
    await b.ask(query("select 2 as a"));
  }),
  script("a transaction that waits for another one's end", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    await a.ask(query("begin"));
    b.send(...run("", "select 7 as a"), sync(), query("select 8 as a"));
    await stage.pause(50);
    await a.ask(query("commit"));
    await b.ready(2);
  }),
  script(
    "query_wait_timeout",
    { ...one, settings: "query_wait_timeout = 1", options: { queryWaitTimeout: 1_000 } },
    async (stage) => {
      const [a, b] = [await stage.client(), await stage.client()];
      await a.ask(query("begin"));
      await b.ask(query("select 8 as a"));
      await a.ask(query("commit"));
    },
  ),
  script("a client that leaves in a transaction", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    await a.ask(query("begin"));
    a.send(terminate());
    await a.over();
    await b.ask(query("select 8 as a"));
  }),
  script("a statement with Terminate right behind it", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    await b.ask(query("drop table if exists shape2"));
    a.send(query("create table shape2 (n int4)"), terminate());
    await a.over();
    await stage.pause(50);
    await b.ask(query("select n from shape2"));
  }),
  // 1.18 takes the first ReadyForQuery for the end of the batch. The server's responses to the rest go to the next
  // client, whose own responses then arrive at its next statements, or at no client.
  script("a client that leaves between the answers to its flight", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    a.send(...run("", "select 1 as a"), sync(), ...run("", "select pg_sleep(0.3)"), sync());
    await a.ready();
    a.end();
    await a.over();
    await stage.cancel(a);
    b.send(slowly("select 2 as b"));
    await stage.pause(450);
    b.send(slowly("select 3 as b"));
    await stage.pause(900);
    await b.ready(2);
    await b.ask(query("select 4 as b"));
  }),
  script("a client that leaves in front of the first answer to its flight", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    a.send(...run("", "select pg_sleep(0.3)"), sync(), ...run("", "select 1 as a"), sync());
    await stage.pause(100);
    a.end();
    await a.over();
    await b.ask(parse("", "select 2 as b"), describe("S", ""), sync());
    await stage.pause(500);
    await b.ask(query("select 3 as b"));
  }),
  script("a client that leaves while it waits", one, async (stage) => {
    const [a, b, c] = [await stage.client(), await stage.client(), await stage.client()];
    await a.ask(query("begin"));
    b.send(query("select 7 as a"));
    await stage.pause(20);
    c.send(query("select 8 as a"));
    await stage.pause(20);
    b.end();
    await stage.pause(20);
    await a.ask(query("commit"));
    await c.ready();
    await b.over();
  }),
  script("a message of an unknown kind", {}, async (stage) => {
    const a = await stage.client();
    a.send(query("x").fill(122, 0, 1));
    await a.over();
  }),
  script("COPY in, done and failed", one, async (stage) => {
    const a = await stage.client();
    await a.ask(query("drop table if exists copied"));
    await a.ask(query("create table copied (a int4, b text)"));
    const begin = [parse("", "copy copied from stdin"), bind(""), execute()];
    a.send(...begin, sync());
    await stage.pause(50);
    await a.ask(copyData("1\tone\n"), copyData("2\ttwo\n"), copyDone(), sync());
    await a.ask(query("select a from copied order by a"));
    a.send(...begin, sync());
    await stage.pause(50);
    await a.ask(copyData("3\tthree\n"), copyFail("no more"), sync());
    await stage.pause(50);
    a.send(query("copy copied from stdin"));
    await stage.pause(50);
    await a.ask(copyData("4\tfour\n"), copyDone());
    await a.ask(query("select count(*) from copied"));
    await a.ask(query("drop table copied"));
  }),
  script("COPY out, and a statement behind it", one, async (stage) => {
    const a = await stage.client();
    await a.ask(query("copy (select n from generate_series(1, 3) n) to stdout"));
    await a.ask(query("select 7 as a"));
  }),
  // 1.24 keeps the CopyDone in its queue forever: the server connection is not released, and responses that the
  // pooler itself gives come too late.
  script("a simple COPY in that fails in front of its CopyDone", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    await a.ask(query("drop table if exists copied"));
    await a.ask(query("create table copied (a int4, b text)"));
    a.send(query("copy copied from stdin"));
    await stage.pause(50);
    await a.ask(copyData("x\tone\n"));
    a.send(copyDone());
    await stage.pause(50);
    await a.ask(query("select 7 as a"));
    b.send(query("select 8 as a"));
    await stage.pause(50);
    await a.ask(close("S", "s"), ...run("s", "select 7 as a"), sync());
    await a.ask(close("S", "s"), ...run("s", "select 7 as a"), sync());
    await a.ask(...run("", "select 1/0"), sync());
    await a.ask(close("S", "s"), ...run("s", "select 7 as a"), sync());
    await a.ask(query("drop table copied"));
    await stage.pause(50);
  }),
  script("an extended COPY in that fails in front of its CopyDone", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    await a.ask(query("drop table if exists copied"));
    await a.ask(query("create table copied (a int4, b text)"));
    a.send(parse("", "copy copied from stdin"), bind(""), execute(), flush());
    await stage.pause(50);
    a.send(copyData("x\tone\n"));
    await stage.pause(50);
    a.send(copyDone(), sync());
    await stage.pause(50);
    a.send(query("select 7 as a"));
    await stage.pause(50);
    b.send(query("select 8 as a"));
    await stage.pause(50);
    a.send(close("S", "s"), ...run("s", "select 7 as a"), sync());
    await stage.pause(50);
    a.send(query("drop table copied"));
    await stage.pause(50);
  }),
  // 1.18 forgets what it expects at the end of a COPY. The response to the statement after it goes to no client.
  script("a statement in one flight with a COPY out", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    a.send(query("copy (select n from generate_series(1, 3) n) to stdout"), slowly("select 7 as a"));
    await stage.pause(100);
    b.send(slowly("select 8 as b"));
    await stage.pause(900);
    b.send(query("select 9 as b"));
    await stage.pause(100);
  }),
  script("a statement in one flight with the end of a COPY in", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    await a.ask(query("drop table if exists copied"));
    await a.ask(query("create table copied (a int4, b text)"));
    a.send(parse("", "copy copied from stdin"), bind(""), execute(), sync());
    await stage.pause(50);
    a.send(copyData("1\tone\n"), copyDone(), sync(), slowly("select 7 as a"));
    await stage.pause(100);
    b.send(slowly("select 8 as b"));
    await stage.pause(900);
    b.send(query("drop table copied"));
    await stage.pause(100);
  }),
  script("a COPY in that fails, and a statement in its flight", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    await a.ask(query("drop table if exists copied"));
    await a.ask(query("create table copied (a int4, b text)"));
    a.send(parse("", "copy copied from stdin"), bind(""), execute(), sync());
    await stage.pause(50);
    a.send(copyData("x\tone\n"), copyDone(), sync(), slowly("select 7 as a"));
    await stage.pause(100);
    b.send(slowly("select 8 as b"));
    await stage.pause(900);
    const c = await stage.client();
    await c.ask(query("drop table copied"));
  }),
  script("a cancel of what runs, of nothing, and of what waits", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    a.send(query("select pg_sleep(5)"));
    await stage.pause(100);
    await stage.cancel(a);
    await a.ready();
    await stage.cancel(a);
    await a.ask(query("select 7 as a"));
    await a.ask(query("begin"));
    b.send(query("select 8 as a"));
    await stage.pause(50);
    await stage.cancel(b);
    await a.ask(query("commit"));
    await b.ready();
  }),
  script("a slow statement and others behind it", one, async (stage) => {
    const [a, b] = [await stage.client(), await stage.client()];
    a.send(slowly("select 1 as a"), query("select 2 as b"), ...run("", "select 3 as a"), sync());
    await stage.pause(50);
    b.send(query("select 4 as a"), query("begin"), query("select 5 as a"), query("commit"));
    await a.ready(3);
    await b.ready(4);
  }),
];
