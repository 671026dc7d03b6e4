// Compares the server model with real servers: one program without faults runs on both, and their messages are
// compared.
//
// What may differ, and why, is in one list (`plain` below). Messages are compared for each direction of each connection
// separately, because the network decides which side speaks first. Knows messages. Must not know how a real server is
// started (conform.mjs).
import { driver } from "./driver.ts";
import type * as pgz from "../../js/index.ts";
import { connect as nodeConnect } from "../../js/runtime/node.ts";
import type { Connector, Socket } from "../../js/runtime/contract.ts";
import { callWhich } from "../random/calls.ts";
import { Dice } from "../random/dice.ts";
import { Ledger } from "../random/ledger.ts";
import type { Plan, World as CallWorld } from "../random/plan.ts";
import { transaction } from "../random/transactions.ts";
import { catalogue } from "./catalogue.ts";
import { columnsText, errorText, parametersText, withModel, type RealServer } from "./compared.ts";
import { Frames } from "./frames.ts";

/** What a program of this seed produces on a server: the outcome of each call, and the messages of each connection. */
export interface Conversation {
  readonly calls: string[];
  readonly messages: string[];
}

const CALLS = 8;

/** The calls of a seed, created before anything runs. Seed 0 is the catalogue. */
function plansOf(seed: number, role: string): { plans: readonly Plan[]; options: pgz.Options } {
  if (seed === 0) return { plans: catalogue, options: {} };
  const dice = new Dice(seed);
  const world: CallWorld = {
    schema: role,
    ledger: new Ledger(),
    sql: driver.sql,
    gzip: false,
    hasOwnBody: false,
    columns: ["a", "b"],
    number: 0,
  };
  const options: pgz.Options = {
    statementCacheSize: dice.pick([64, 0, 1]),
    prepare: dice.pick(["auto", "named", "unnamed"] as const),
    firstRun: dice.pick(["text", "describe"] as const),
  };
  // A call that leaves its rows early, or waits for a clock, depends on when bytes arrive.
  const fits = (plan: Plan) => !plan.leaves && plan.kind !== "quiet" && !/ms|left after|slowly|maxRows/.test(plan.says);
  const plans = Array.from({ length: CALLS }, () =>
    dice.oneIn(5) ? transaction(dice, world, fits) : callWhich(fits, dice, world),
  );
  return { plans, options };
}

async function converse(plans: readonly Plan[], options: pgz.Options): Promise<string[]> {
  const client = driver.createClient(options);
  const said: string[] = [];
  for (const plan of plans)
    await plan.run(client, {}).then(
      () => said.push(`${plan.says}: well`),
      (error: { code?: string; message: string }) => said.push(`${plan.says}: ${error.code} ${error.message}`),
    );
  await client.close();
  return said;
}

/** Runs the seed's calls on the model. */
export async function onModel(seed: number, version: 15 | 18, role: string): Promise<Conversation> {
  const { plans, options } = plansOf(seed, role);
  const recorder = new Recorder();
  const given = { version, authentication: "scram-sha-256", role, seed, tap: recorder.tap } as const;
  const calls: string[] = [];
  const wrong = await withModel(given, async (place) => {
    calls.push(...(await converse(plans, { ...options, ...place })));
  });
  return { calls: [...calls, ...wrong], messages: recorder.messages() };
}

let runs = 0;

/** Runs the seed's calls on a real server. */
export async function onReal(seed: number, server: RealServer): Promise<Conversation> {
  const { role: user, host, port, database, password } = server;
  const { plans, options } = plansOf(seed, user);
  const recorder = new Recorder();
  const all = { ...options, host, port, user, password, database, sslmode: "disable" } as const;
  // What an earlier run has learned about this server must not have an effect.
  const applicationName = `conformance-${++runs}`;
  const calls = await converse(plans, { ...all, applicationName, connect: recorder.connector(nodeConnect) });
  return { calls, messages: recorder.messages() };
}

/** The messages of all connections, each direction separately. */
class Recorder {
  readonly #directions = new Map<string, Uint8Array[]>();
  #links = 0;

  readonly tap = (link: number, direction: ">" | "<", bytes: Uint8Array): void => {
    const key = `${link} ${direction}`;
    const chunks = this.#directions.get(key) ?? [];
    this.#directions.set(key, chunks);
    chunks.push(bytes.slice());
  };

  /** Returns a connector that records the bytes of the sockets of `connect`. */
  connector(connect: Connector): Connector {
    return async (options) => {
      const link = this.#links++;
      const socket = await connect(options);
      const recorded: Socket = {
        readsWhileIdle: socket.readsWhileIdle,
        read: async () => {
          const bytes = await socket.read();
          if (bytes) this.tap(link, "<", bytes);
          return bytes;
        },
        write: (bytes) => {
          this.tap(link, ">", bytes);
          return socket.write(bytes);
        },
        startTls: (name) => socket.startTls(name),
        close: () => socket.close(),
      };
      return recorded;
    };
  }

  messages(): string[] {
    return [...this.#directions].flatMap(([key, chunks]) => {
      const direction = key.endsWith(">") ? ">" : "<";
      const frames = new Frames(direction).read(Buffer.concat(chunks));
      const texts = frames.map(({ letter, body }) => plain(letter || "startup", direction, body!));
      return texts.filter((text) => text !== undefined).map((text) => `${key} ${text}`);
    });
  }
}

/**
 * Returns a message without the parts that may differ between a server and its model:
 *
 *   StartupMessage, PasswordMessage   application_name, nonces and proofs
 *   BackendKeyData                    process ids and keys
 *   Authentication                    salts, nonces and signatures
 *   ParameterStatus                   values of the machine: server_version's minor, is_superuser, locale
 *   ErrorResponse, NoticeResponse     the place in the server's source (F, L, R), and the position (P)
 *   RowDescription, ParameterDescription   OIDs of views and of what the database itself has
 *   DataRow, Parse                    OIDs from 16384 on
 *   DataRow                           in a list of all types of a database (in any order), all but the calls' own types
 *   Parse, Bind, Close, Describe      names with the random part of the driver's
 *   CopyDone                          the whole message: where the server ends a COPY, its error may come before
 *                                     CopyDone leaves. In other COPYs the response shows that it came.
 */
function plain(letter: string, direction: ">" | "<", body: Buffer): string | undefined {
  if (letter === "startup" || letter === "p") return letter;
  if (direction === ">" && letter === "c") return undefined;
  if (direction === ">") return `${letter} ${anonymous(body.toString("latin1"))}`;
  if (letter === "K") return "K";
  if (letter === "R") return `R ${body.readUInt32BE(0)}`;
  if (letter === "S") {
    const [name = "", value] = body.toString().split("\0");
    return ["server_version", "is_superuser", "session_authorization", "application_name"].includes(name)
      ? `S ${name}`
      : `S ${name}=${value}`;
  }
  if (letter === "E" || letter === "N") return `${letter} ${anonymous(errorText(body))}`;
  if (letter === "T") return `T ${columnsText(body)}`;
  if (letter === "t") return `t ${parametersText(body)}`;
  const text = anonymous((letter === "D" ? withoutOidsOfMoods(body) : body).toString("latin1"));
  return `${letter} ${letter === "D" && text.includes('"_mood"') ? ownTypes(text) : text}`;
}

/** A mood in a record, after its OID: its length and its bytes. */
const MOODS = ["calm", "glad", "ü €"].map((mood) => {
  const bytes = Buffer.from(mood);
  return Buffer.concat([Buffer.from([0, 0, 0, bytes.length]), bytes]);
});
/** The moods and a null. */
const FIELDS = [...MOODS, Buffer.from([255, 255, 255, 255])];

function withoutOidsOfMoods(body: Buffer): Buffer {
  const changed = Buffer.from(body);
  for (const field of FIELDS)
    for (let at = body.indexOf(field, 4); at >= 0; at = body.indexOf(field, at + 1))
      // The last byte of an OID may be 255, too. A null begins with the last four of such bytes.
      if (body[at + 4] !== 255 && body.readUInt32BE(at - 4) >= 16_384) changed.fill(0, at - 4, at);
  return changed;
}

/** Keeps the types of the calls from the driver's list of all types. */
function ownTypes(text: string): string {
  const own = text.match(/\[OID, "\w", "_?mood", \[\w+\], \[\]\]/g) ?? [];
  return own.sort().join();
}

/** Removes what the driver draws at random, and OIDs of the database. */
function anonymous(text: string): string {
  return text
    .replace(/p[\w+/-]{8}_/g, "p*_")
    .replace(/\/\* [a-z0-9]+ \*\//g, "/* */")
    .replace(/(?<!\d)\d{5,6}(?!\d)/g, (digits) => (Number(digits) >= 16_384 ? "OID" : digits));
}
