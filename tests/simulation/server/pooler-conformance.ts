// Compares the model of PgBouncer with real ones: the same scripts of messages go to both, and the responses are
// compared message by message.
//
// A script opens connections and builds its own messages, so that it reaches what no driver does. `plain` lists what
// may differ. Must not know how a real pooler is started (conform-pooler.mjs).
import { connect as connectTcp } from "node:net";
import { columnsText, errorText } from "../compared.ts";
import { Frames } from "../frames.ts";
import { World } from "../world.ts";
import { Message, utf8 } from "./messages.ts";
import { ServerLogin } from "./pooler-login.ts";
import { Pooler, type PoolerOptions, type PoolerVersion } from "./pooler.ts";
import { Server } from "./server.ts";

export interface RealPooler {
  readonly port: number;
  readonly password: string;
}

/** Options of the pooler that a script wants, in the model's terms. `settings` are the same in PgBouncer's terms. */
export interface Wants {
  readonly poolSize: number;
  readonly options: Partial<PoolerOptions>;
  readonly settings: string;
}

/** The bytes of one connection, over any transport. */
interface Line {
  send(bytes: Uint8Array): void;
  end(): void;
  onBytes: (bytes: Uint8Array) => void;
  onEnd: () => void;
}

// -- one connection ---------------------------------------------------------------------------------------------------

export class Talker {
  readonly said: string[] = [];
  isOver = false;
  /** The process id and key that the connection last received. */
  key = new Uint8Array();
  #ready = 0;
  readonly #frames = new Frames("<", false);
  #wake: (() => void) | undefined;
  readonly #line: Line;
  readonly #login: ServerLogin;
  #isLoggingIn = true;

  constructor(line: Line, password: string) {
    this.#line = line;
    let state = 1;
    const below = (n: number): number => (state = (state * 48_271) % 0x7fffffff) % n;
    this.#login = new ServerLogin(
      { user: "app", password },
      { below, pick: (choices) => choices[below(choices.length)]!, oneIn: (n) => below(n) === 0 },
    );
    line.onBytes = (bytes) => {
      for (const { letter, body } of this.#frames.read(bytes)) this.#message(letter, body!);
      this.#wake?.();
    };
    line.onEnd = () => {
      this.isOver = true;
      this.said.push("is closed");
      this.#wake?.();
    };
  }

  send(...parts: readonly Uint8Array[]): void {
    if (!this.isOver) this.#line.send(Buffer.concat(parts));
  }

  end(): void {
    this.#line.end();
  }

  /** Waits for `count` ReadyForQuery, or for the end. */
  async ready(count = 1): Promise<void> {
    while (this.#ready < count && !this.isOver) await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#ready -= count;
  }

  /** Waits for the end. */
  async over(): Promise<void> {
    while (!this.isOver) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  async ask(...parts: readonly Uint8Array[]): Promise<void> {
    this.send(...parts);
    await this.ready();
  }

  #message(letter: string, body: Buffer): void {
    if (letter === "R" && this.#isLoggingIn) {
      const answer = this.#login.answer(body);
      if (answer) this.send(answer);
    }
    if (letter === "K") this.key = Uint8Array.from(body);
    if (letter === "Z") {
      this.#ready++;
      this.#isLoggingIn = false;
    }
    this.said.push(plain(letter, body));
  }
}

/**
 * Returns a message without the parts that may differ: salts, proofs, keys, the machine's own parameters, the error's
 * place in the server's source, and OIDs of tables.
 */
function plain(letter: string, body: Buffer): string {
  if (letter === "R") return `R ${body.readUInt32BE(0)}`;
  if (letter === "K") return "K";
  if (letter === "S") {
    const [name = "", value] = body.toString().split("\0");
    return ["server_version", "is_superuser", "session_authorization"].includes(name)
      ? `S ${name}`
      : `S ${name}=${value}`;
  }
  if (letter === "E" || letter === "N") return `${letter} ${errorText(body)}`;
  if (letter === "T") return `T ${columnsText(body)}`;
  return `${letter} ${body.toString("latin1").replace(/[^ -~]/g, ".")}`;
}

// -- messages ---------------------------------------------------------------------------------------------------------

export const query = (text: string): Uint8Array => new Message("Q").string(text).done();
export const parse = (name: string, text: string): Uint8Array =>
  new Message("P").string(name).string(text).int16(0).done();
export const describe = (kind: "S" | "P", name: string): Uint8Array =>
  new Message("D").byte(kind.charCodeAt(0)).string(name).done();
export const close = (kind: "S" | "P", name: string): Uint8Array =>
  new Message("C").byte(kind.charCodeAt(0)).string(name).done();
export const execute = (): Uint8Array => new Message("E").string("").int32(0).done();
export const sync = (): Uint8Array => new Message("S").done();
export const flush = (): Uint8Array => new Message("H").done();
export const terminate = (): Uint8Array => new Message("X").done();
export const copyData = (text: string): Uint8Array => new Message("d").bytes(utf8(text)).done();
export const copyDone = (): Uint8Array => new Message("c").done();
export const copyFail = (why: string): Uint8Array => new Message("f").string(why).done();

/** Returns a Bind with all parameters and results as text. */
export function bind(name: string, ...values: readonly string[]): Uint8Array {
  const message = new Message("B").string("").string(name).int16(0).int16(values.length);
  for (const value of values) message.int32(utf8(value).length).bytes(utf8(value));
  return message.int16(0).done();
}

export function startup(parameters: Readonly<Record<string, string>>, code = 3 << 16): Uint8Array {
  const message = new Message(" ").int32(code);
  for (const [name, value] of Object.entries(parameters)) message.string(name).string(value);
  return message.byte(0).done().subarray(1);
}

// -- a run of a script ------------------------------------------------------------------------------------------------

/** How much each connection has heard at the end of each pause, in messages. */
type Heard = readonly (readonly number[])[];

/** Milliseconds that the real pooler has to say what the model has said. Only a difference reaches them. */
const LONGEST_PAUSE = 20_000;

export class Stage {
  readonly talkers: Talker[] = [];
  readonly version: PoolerVersion;
  readonly heard: number[][] = [];
  readonly #open: () => Promise<Line>;
  readonly #password: string;
  readonly #expected: Heard;

  /** `expected`: what the model has heard. */
  constructor(version: PoolerVersion, password: string, open: () => Promise<Line>, expected: Heard = []) {
    this.version = version;
    this.#password = password;
    this.#open = open;
    this.#expected = expected;
  }

  /** Opens a connection that has sent nothing. */
  async line(password = this.#password): Promise<Talker> {
    const talker = new Talker(await this.#open(), password);
    this.talkers.push(talker);
    return talker;
  }

  /** Opens a connection that has logged in, or that was refused. */
  async client(parameters: Readonly<Record<string, string>> = {}, password?: string): Promise<Talker> {
    const talker = await this.line(password);
    await talker.ask(startup({ user: "app", database: "app", ...parameters }));
    return talker;
  }

  async cancel(of: Talker): Promise<void> {
    const talker = await this.line();
    talker.send(new Message(" ").int32(80877102).bytes(of.key).done().subarray(1));
    await talker.over();
  }

  /**
   * Waits this long, in which a pooler may say too much, and then until each connection has heard as much as in the
   * model. So a slow machine changes nothing.
   */
  async pause(milliseconds: number): Promise<void> {
    const expected = this.#expected[this.heard.length] ?? [];
    const until = performance.now() + LONGEST_PAUSE;
    await sleep(milliseconds);
    while (expected.some((count, at) => this.#lengths[at]! < count) && performance.now() < until) await sleep(5);
    this.heard.push(this.#lengths);
  }

  get #lengths(): number[] {
    return this.talkers.map(({ said }) => said.length);
  }

  get said(): string[] {
    return this.talkers.flatMap(({ said }, at) => said.map((line) => `${at} ${line}`));
  }
}

const sleep = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

export interface Script {
  readonly name: string;
  readonly wants?: Partial<Wants>;
  run(stage: Stage): Promise<void>;
}

export async function onModel(
  script: Script,
  version: PoolerVersion,
  major: 15 | 18,
): Promise<{ said: string[]; heard: Heard }> {
  const world = new World(1, false);
  const roles = { app: { password: "app-secret" } };
  const server = new Server(world, world.dice("server"), {
    version: major,
    authentication: "scram-sha-256",
    maxConnections: 50,
    roles,
  });
  const pooler = new Pooler(world, world.dice("pooler"), server, {
    version,
    authentication: "scram-sha-256",
    roles,
    databases: ["app"],
    poolSize: script.wants?.poolSize ?? 4,
    ...script.wants?.options,
  });
  const open = (): Promise<Line> => {
    const line: Line = { send() {}, end() {}, onBytes() {}, onEnd() {} };
    let isOver = false;
    const over = () => {
      if (!isOver) line.onEnd();
      isOver = true;
    };
    const later = (event: () => void) => void world.after(0.1, event);
    const accepted = pooler.accept({
      send: (bytes) => later(() => line.onBytes(bytes)),
      end: () => later(over),
      reset: () => later(over),
    });
    line.send = (bytes) => later(() => accepted.receive(bytes));
    line.end = () => later(() => accepted.ended());
    return Promise.resolve(line);
  };
  const stage = new Stage(version, "app-secret", open);
  const end = await world.run(() => script.run(stage));
  const said = stage.said;
  for (const talker of stage.talkers) talker.end();
  await world.runFor(7_200_000);
  if (end.kind !== "done") said.push(`the model is ${end.kind}${end.kind === "failed" ? String(end.error) : ""}`);
  for (const text of server.unknownStatements) said.push(`the server's model does not know ${text}`);
  const { clients, serverConnections, waiting } = pooler;
  const left = clients.length + serverConnections.length + waiting + server.backends.length + world.pending;
  if (left) said.push(`left: ${JSON.stringify({ clients, serverConnections, waiting, pending: world.pending })}`);
  if (pooler.statements.size) said.push(`${pooler.statements.size} statements are left`);
  return { said, heard: stage.heard };
}

export async function onReal(
  script: Script,
  version: PoolerVersion,
  pooler: RealPooler,
  expected: Heard,
): Promise<string[]> {
  const open = (): Promise<Line> =>
    new Promise((resolve, reject) => {
      const socket = connectTcp({ host: "127.0.0.1", port: pooler.port, noDelay: true });
      const line: Line = {
        send: (bytes) => void socket.write(bytes),
        end: () => void socket.end(),
        onBytes() {},
        onEnd() {},
      };
      socket.on("data", (bytes: Buffer) => line.onBytes(bytes));
      socket.on("error", reject);
      socket.on("close", () => line.onEnd());
      socket.on("connect", () => resolve(line));
    });
  const stage = new Stage(version, pooler.password, open, expected);
  await script.run(stage);
  const said = stage.said;
  for (const talker of stage.talkers) talker.end();
  await Promise.all(stage.talkers.map((talker) => talker.over()));
  return said;
}

export { scripts } from "./pooler-scripts.ts";
