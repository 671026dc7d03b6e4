// `pgz-edge doctor`: examines the server behind a URL, and says what to change.
//
// Knows the order of the questions: those that a server may not survive come last. Must not know what the answers mean.
import { refuseUrls } from "./arguments.ts";
import type { Command, Task } from "./command.ts";
import { leave } from "./connect.ts";
import { cache } from "./doctor/cache.ts";
import { asText, change, type Finding } from "./doctor/findings.ts";
import { latency } from "./doctor/latency.ts";
import { authentication, protocol, tls } from "./doctor/link.ts";
import { Patient, whenFree } from "./doctor/patient.ts";
import { pooler } from "./doctor/pooler.ts";
import { identify, identity, settings } from "./doctor/server.ts";
import { EXIT, textOf } from "./failure.ts";
import { adviceOf } from "./doctor/unreachable.ts";
import { Misuse } from "./misuse.ts";
import { atUrl, isAway } from "./ping.ts";
import { say, write } from "./terminal.ts";

export const doctor: Command = {
  summary: "says what is at the other end: server, pooler, TLS, round trips, and what to change",
  usage: `Usage: pgz-edge doctor [URL] [--json] [--cache PUBLICATION]

Connects in several ways and asks the server about itself: which it is, whether a pooler is in front of it and of
which kind, TLS and its certificate, how the password is asked for, the protocol's version, whether values come in
binary, round trips and milliseconds to the first row, connections, timeouts, and in a database with cache.sql whether
it is ready for pgz-edge/cache. Changes nothing there. Each question has a deadline. ok is good, -- is worth knowing, !!
should be changed, ?? could not be found out.

  --cache PUBLICATION  whether the database is ready for pgz-edge/cache with this publication, also before cache.sql
  --json               the same as data: { "findings": [{ "id", "title", "level", "text", "facts", "advice" }] }`,
  options: { json: { type: "boolean" }, cache: { type: "string" } },
  run,
};

async function run(task: Task): Promise<number> {
  const { options, signal } = atUrl(task);
  const show = (findings: readonly Finding[]) =>
    write(options["json"] ? `${JSON.stringify({ findings }, undefined, 2)}\n` : asText(findings));
  const publication = publicationOf(options);
  const patient = new Patient({ options, signal });
  try {
    await show(await examine(patient, publication));
    return 0;
  } catch (error) {
    if (signal.aborted || !isAway(error)) throw error;
    say(textOf(error, options["debug"] === true));
    const { code, message } = error as { code: string; message: string };
    await show([change("connection", "Connection", message, { code }, ...adviceOf(error))]);
    return EXIT.notConnected;
  }
}

/** The publication of --cache. */
function publicationOf({ cache: name }: Task["options"]): string | undefined {
  refuseUrls(name);
  if (name === "") throw new Misuse("--cache is empty: is a variable missing?");
  return name as string | undefined;
}

async function examine(patient: Patient, publication: string | undefined): Promise<Finding[]> {
  const { finding: firstRow, place } = await latency(patient);
  const login = await whenFree(() => patient.loggedIn());
  const known = { login, host: place?.host ?? "", sslmode: await patient.sslmode() };
  const client = patient.client();
  try {
    const server = await identify(patient, client, login);
    return [
      ...(await identity(client, server)),
      ...(await pooler(patient, login, server)),
      await tls(patient, known),
      await authentication(patient, known),
      firstRow,
      ...(server.isPostgres ? await settings(patient, client) : []),
      ...(await cache(patient, client, server, publication)),
      await protocol(patient),
    ];
  } finally {
    await leave(client);
  }
}
