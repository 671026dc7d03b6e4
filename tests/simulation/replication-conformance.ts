// Compares the model of walsenders and slots with real servers: the same scripts run on both (replication-scripts.ts),
// and the server's messages are compared one by one.
//
// `plain` leaves out what may differ: positions, clocks, ids of transactions, processes and tables, the schema's name,
// and keepalives, which depend on the time. Knows connections and messages. Must not know what a script asks, or how a
// real server is started (conform.mjs).
import { driver } from "./driver.ts";
import type * as pgz from "../../js/index.ts";
import { connect as nodeConnect } from "../../js/runtime/node.ts";
import { columnsText, errorText, withModel, type RealServer } from "./compared.ts";
import { Frames } from "./frames.ts";
import { scripts, type Script } from "./replication-scripts.ts";
import { Fields, Message } from "./server/messages.ts";
import { textOf } from "./server/replication/log.ts";

export { scripts };

/** What a script has at hand. */
export class Talk {
  readonly said: string[] = [];
  readonly #options: pgz.Options;
  readonly #client: pgz.Client;
  readonly #lines: Line[] = [];

  constructor(options: pgz.Options) {
    this.#options = options;
    this.#client = driver.createClient(options);
  }

  /** Runs statements, and records the errors of the server. */
  async sql(text: string): Promise<void> {
    await this.#client.simple(text).catch(({ code, message, hint = "" }: pgz.PostgresError) => {
      this.said.push(`sql: ${code} ${plainText(message)} ${hint}`);
    });
  }

  /** Opens a replication connection. `options` are the options of a command line. */
  async connect(options = ""): Promise<Line> {
    const given = { ...this.#options, ...(options && { options }) };
    const handover = await driver.logIn(given, { replication: "database" });
    const line = new Line(this.said, this.#lines.length + 1, handover);
    this.#lines.push(line);
    return line;
  }

  async end(): Promise<void> {
    for (const line of this.#lines) await line.close();
    await this.#client.close();
  }
}

/** One replication connection. */
export class Line {
  /** The position after the last commit that arrived, as text. */
  last = "0/0";
  readonly #said: string[];
  readonly #number: number;
  readonly #handover: pgz.Handover;
  readonly #frames = new Frames("<", false);
  readonly #arrived: ReturnType<Frames["read"]> = [];
  #tables: number[] = [];
  #isOver = false;

  constructor(said: string[], number: number, handover: pgz.Handover) {
    this.#said = said;
    this.#number = number;
    this.#handover = handover;
  }

  /** Runs a command to its end, or until changes follow. */
  async ask(text: string): Promise<void> {
    await this.send(new Message("Q").string(text).done());
    await this.until("Z", "W");
  }

  async send(bytes: Uint8Array): Promise<void> {
    if (!this.#isOver) await this.#handover.socket.write(bytes);
  }

  /** Reads until a message with one of these letters, or the end. `c C` is the commit of a transaction. */
  async until(...letters: readonly string[]): Promise<void> {
    while (!this.#isOver && !letters.includes(await this.#next()));
  }

  async commits(count: number): Promise<void> {
    for (let at = 0; at < count && !this.#isOver; at++) await this.until("d C", "Z");
  }

  /** Sends a status update that confirms everything before this position. */
  async confirm(position: string): Promise<void> {
    const [high = "", low = ""] = position.split("/");
    const message = new Message("d").byte(114);
    for (let at = 0; at < 3; at++) message.int32(parseInt(high, 16)).int32(parseInt(low, 16));
    await this.send(message.int64(0).byte(0).done());
  }

  /** Ends the stream. */
  async done(): Promise<void> {
    await this.send(new Message("c").done());
    await this.until("Z");
  }

  async close(): Promise<void> {
    if (!this.#isOver) await this.send(new Message("X").done()).catch(() => {});
    await this.until();
    await this.#handover.socket.close();
  }

  /** Returns the letter of the next message, and for `d` also the letter of the pgoutput message in it. */
  async #next(): Promise<string> {
    while (!this.#arrived.length) {
      const chunk = await this.#handover.socket.read().catch(() => null);
      if (!chunk) return this.#over();
      this.#arrived.push(...this.#frames.read(chunk));
    }
    const { letter, body } = this.#arrived.shift()!;
    if (letter === "d") return this.#data(new Fields(body!));
    this.#say(`${letter} ${plain(letter, body!)}`);
    return letter;
  }

  #over(): string {
    this.#isOver = true;
    this.#say("is closed");
    return "";
  }

  #say(text: string): void {
    this.#said.push(`${this.#number}: ${text}`);
  }

  #data(fields: Fields): string {
    if (String.fromCharCode(fields.byte()) === "k") return "d k";
    const start = int64(fields);
    const end = int64(fields);
    int64(fields);
    const letter = String.fromCharCode(fields.byte());
    const at = start === 0 ? "nowhere" : start === end ? "somewhere" : "between";
    this.#say(`d ${letter} ${at} ${this.#described(letter, fields)}`);
    return `d ${letter}`;
  }

  #described(letter: string, fields: Fields): string {
    switch (letter) {
      case "B":
        return `${int64(fields) > 0} ${int64(fields) > 0} ${fields.int32() > 0}`;
      case "C": {
        const [flags, begins, ends] = [fields.byte(), int64(fields), int64(fields)];
        this.last = textOf(ends);
        return `${flags} ${begins < ends} ${int64(fields) > 0}`;
      }
      case "Y":
        return `${this.#table(fields.int32())} ${fields.string() !== ""} ${fields.string()}`;
      case "R":
        return this.#relation(fields);
      case "I":
        return `${this.#table(fields.int32())} ${tuple(fields)}`;
      case "U":
      case "D": {
        const table = this.#table(fields.int32());
        const tuples = [];
        while (!fields.isAtEnd) tuples.push(tuple(fields));
        return `${table} ${tuples.join(" -> ")}`;
      }
      case "T": {
        const [count, flags] = [fields.int32(), fields.byte()];
        return `${flags} ${Array.from({ length: count }, () => this.#table(fields.int32())).join()}`;
      }
      default:
        return "";
    }
  }

  /** Replaces OIDs by the order in which they appeared. */
  #table(oid: number): string {
    if (!this.#tables.includes(oid)) this.#tables.push(oid);
    return `#${this.#tables.indexOf(oid) + 1}`;
  }

  #relation(fields: Fields): string {
    const table = this.#table(fields.int32());
    fields.string();
    const name = fields.string();
    const identity = String.fromCharCode(fields.byte());
    const columns = Array.from({ length: fields.int16() }, () => {
      const [flags, column, oid, modifier] = [fields.byte(), fields.string(), fields.int32(), fields.int32()];
      return `${column} ${flags} ${oid >= 16_384 ? "own" : oid} ${modifier}`;
    });
    return `${table} ${name} ${identity} ${columns.join(", ")}`;
  }
}

const int64 = (fields: Fields): number => (fields.int32() >>> 0) * 2 ** 32 + (fields.int32() >>> 0);

function tuple(fields: Fields): string {
  const kind = String.fromCharCode(fields.byte());
  const values = Array.from({ length: fields.int16() }, () => {
    const form = String.fromCharCode(fields.byte());
    return form === "t" ? JSON.stringify(new TextDecoder().decode(fields.take(fields.int32()))) : form;
  });
  return `${kind}(${values.join(", ")})`;
}

function plain(letter: string, body: Buffer): string {
  if (letter === "E" || letter === "N") return plainText(errorText(body));
  if (letter === "T") return columnsText(body);
  if (letter === "S") return body.toString().split("\0")[0]!;
  return plainText(body.toString("latin1").replace(/[^ -~]/g, "."));
}

function plainText(text: string): string {
  return text
    .replace(/\b\d{19}\b(\W+\d+\W).*/, "SYSTEM $1")
    .replace(/\b[0-9A-F]+\/[0-9A-F]+\b/g, "POSITION")
    .replace(/PID \d+/, "PID")
    .replace(/\b[0-9A-F]{8}-[0-9A-F]{8}-\d+/g, "SNAPSHOT");
}

// -- where they run ---------------------------------------------------------------------------------------------------

export async function replicationOnModel({ run, name }: Script, version: 15 | 18, role: string): Promise<string[]> {
  const said: string[] = [];
  const wrong = await withModel({ version, authentication: "trust", role }, async (options) => {
    said.push(...(await talked(run, options)));
  });
  return [...said, ...wrong.map((text) => `${name}: ${text}`)];
}

export async function replicationOnReal({ run }: Script, server: RealServer): Promise<string[]> {
  const { host, port, database, role: user, password } = server;
  return await talked(run, { host, port, database, user, password, sslmode: "disable", connect: nodeConnect });
}

async function talked(run: Script["run"], options: pgz.Options): Promise<string[]> {
  const talk = new Talk(options);
  try {
    await run(talk);
  } finally {
    await talk.end();
  }
  return talk.said;
}
