// One backend: it accepts a connection, logs a client in, and runs the conversation of the simple and the extended
// query protocol until either side ends it. A walsender is a backend whose Query may contain a command of replication/.
//
// Knows the order of messages, skipping to Sync, what a cancel or a termination hits, and when output is sent. Must not
// know what SQL means (statements/), nor which other sessions the server has.
import type { Accepted, Timer, Wire } from "../contract.ts";
import * as errors from "./errors.ts";
import { PgError } from "./errors.ts";
import { authenticate } from "./login.ts";
import * as messages from "./messages.ts";
import { Fields } from "./messages.ts";
import { Portal } from "./portals.ts";
import { ClientSocket, type Message } from "./pqcomm.ts";
import { Gone, Process, type Doing, type Wait } from "./process.ts";
import { parseCommand } from "./replication/commands.ts";
import type { Standby } from "./replication/sender.ts";
import { runCommand } from "./replication/walsender.ts";
import type { Server } from "./server.ts";
import { Session, type Client } from "./session.ts";
import { milliseconds, Settings } from "./settings.ts";
import type { Standing } from "./standing.ts";
import { CANCEL_REQUEST, GSSENC_REQUEST, SSL_REQUEST, startupOf, startupSettings, type Startup } from "./startup.ts";
import { treeShown } from "./statements/cache-questions.ts";
import { parseStatements } from "./statements/index.ts";
import { describe, ParameterTypes, type Plan, type Prepared, type Statement } from "./statements/statement.ts";
import { byOid, decode, encode, type Type, type Value } from "./values.ts";

const AUTHENTICATION_TIMEOUT = 60_000;
/** Number of times a statement is planned for the values that are bound to it. */
const CUSTOM_PLANS = 5;

/** A message that has no place here was only partly read, so the start of the next message is unknown. */
class OutOfStep extends PgError {}

export type BackendState = "starting" | "active" | "idle" | "idle in transaction" | "idle in transaction (aborted)";

export class Backend implements Accepted, Client, Standby {
  readonly processId: number;
  readonly startedAt: number;
  key = new Uint8Array();
  session: Session | undefined;
  /** The connection belongs to a client that has identified itself, not to a CancelRequest. */
  isClient = false;
  user = "";
  state: BackendState = "starting";
  query = "";
  readonly #server: Server;
  readonly #socket: ClientSocket;
  readonly #process: Process;
  #pendingEnd: PgError | undefined;
  #pendingCancel: PgError | undefined;
  #isExtended = false;
  #skipsToSync = false;
  #idleTimer: Timer | undefined;
  #statementTimer: Timer | undefined;
  #protocol = 0;
  /** The backend accepts replication commands. */
  #isWalSender = false;
  #isStreaming = false;
  isStopping = false;
  hasSaidCopyDone = false;

  constructor(server: Server, wire: Wire, processId: number) {
    this.#server = server;
    this.#socket = new ClientSocket(wire);
    this.processId = processId;
    this.startedAt = server.clock.now;
    this.#process = new Process(this.#main(), (error) => this.#ended(error));
  }

  start(): void {
    this.#process.start();
  }

  // -- the connection -------------------------------------------------------------------------------------------------

  receive(bytes: Uint8Array): void {
    if (this.#process.hasEnded) return;
    this.#socket.receive(bytes);
  }

  ended(): void {
    this.#socket.ended();
  }

  wasReset(): void {
    this.#socket.wasReset();
  }

  #ended(error: unknown): void {
    this.#idleTimer?.cancel();
    this.#statementTimer?.cancel();
    this.session?.end();
    if (this.#isWalSender) this.#server.world.slots.release(this.processId, true);
    if (error instanceof PgError) this.send(messages.errorResponse(error));
    this.flush();
    this.#socket.close();
    this.#server.left(this);
    if (error !== undefined && !(error instanceof PgError) && !(error instanceof Gone)) throw error;
  }

  // -- what comes from outside the conversation -----------------------------------------------------------------------

  /** Handles a CancelRequest, or a timeout of the statement. */
  cancel(error = errors.queryCanceled()): void {
    const { wait } = this.#process;
    if (wait?.kind === "running") this.#process.interrupt(error);
    // A commit holds off interrupts, and after it the backend reads the next command, where a cancel is dropped.
    else if (wait?.kind !== "command" && wait?.kind !== "committing") this.#pendingCancel = error;
  }

  end(error: PgError): void {
    if (this.#process.hasEnded) return;
    const { wait } = this.#process;
    if (wait && wait.kind !== "committing") this.#process.interrupt(fatally(error));
    else this.#pendingEnd = fatally(error);
  }

  /** The server shuts down. A walsender first sends everything that it has. */
  shutDown(): void {
    if (!this.#isStreaming) return this.end(errors.terminated());
    this.isStopping = true;
    this.#socket.wake();
  }

  /** Whether the backend runs now, so that it checks interrupts itself. */
  get isRunning(): boolean {
    return !this.#process.wait;
  }

  /** Kills the process. It sends nothing except `error`. */
  kill(error?: PgError): void {
    if (this.#process.hasEnded) return;
    this.#socket.drop();
    if (error) this.send(messages.errorResponse(error));
    this.#process.interrupt(new Gone());
  }

  checkInterrupts(): void {
    const { kind } = this.#process.wait ?? {};
    if (this.#socket.isLost) throw new Gone();
    if (this.#pendingEnd && kind !== "committing") throw this.#pendingEnd;
    const cancel = this.#pendingCancel;
    this.#pendingCancel = undefined;
    if (cancel) throw cancel;
  }

  /** Sends notifications after they have arrived or the backend has become idle, at once if no transaction is open. */
  notify(): void {
    if (this.state !== "idle") return;
    this.#sendNotifications();
    this.flush();
  }

  #sendNotifications(): void {
    for (const { processId, channel, payload } of this.#server.takeNotifications(this))
      this.send(messages.notificationResponse(processId, channel, payload));
  }

  // -- messages -------------------------------------------------------------------------------------------------------

  send(message: Uint8Array): void {
    this.#socket.send(message);
  }

  flush(): void {
    this.#socket.flush();
  }

  notice(notice: PgError): void {
    this.send(messages.errorResponse(notice));
    this.flush();
  }

  /** Reads the next message. Returns `undefined` if the client has gone. */
  *#message(kind: Wait["kind"]): Doing<Message | undefined> {
    if (this.#pendingEnd) throw this.#pendingEnd;
    return yield* this.#socket.message(kind, kind === "command" && this.session ? KNOWN : undefined);
  }

  arrived(): Message | "none yet" | "gone" {
    return this.#socket.arrived();
  }

  wait(begin: (wake: () => void) => () => void): Doing<void> {
    return this.#socket.wait(begin);
  }

  // -- the beginning --------------------------------------------------------------------------------------------------

  *#main(): Doing<void> {
    const parameters = yield* this.#startup();
    if (!parameters) return;
    yield* this.#login(parameters);
    yield* this.#serve();
  }

  /** Returns the parameters of StartupMessage, or `undefined` if there is nothing more to do. */
  *#startup(): Doing<ReadonlyMap<string, string> | undefined> {
    const late = this.#server.clock.after(AUTHENTICATION_TIMEOUT, () => this.kill());
    try {
      for (let canAsk = { tls: true, gss: true }; ;) {
        if (this.#pendingEnd) throw this.#pendingEnd;
        const packet = yield* this.#socket.startupPacket();
        if (!packet) return undefined;
        const code = packet.int32();
        if (code === CANCEL_REQUEST) return void this.#server.cancelRequest(packet.int32(), packet.rest());
        if (code === SSL_REQUEST && canAsk.tls) {
          this.#socket.sendNow(Uint8Array.of(this.#server.options.tls ? 83 : 78));
          canAsk = { ...canAsk, tls: false };
        } else if (code === GSSENC_REQUEST && canAsk.gss) {
          this.#socket.sendNow(Uint8Array.of(78));
          canAsk = { ...canAsk, gss: false };
        } else return this.#negotiated(startupOf(code, packet, this.#server.options.version));
      }
    } finally {
      late.cancel();
    }
  }

  #negotiated({ parameters, protocol, answer }: Startup): ReadonlyMap<string, string> {
    this.#protocol = protocol;
    if (answer) this.send(answer);
    return parameters;
  }

  *#login(parameters: ReadonlyMap<string, string>): Doing<void> {
    const server = this.#server;
    const { user = "", database = user } = Object.fromEntries(parameters);
    this.user = user;
    if (user === "") throw errors.fatal("28000", "no PostgreSQL user name specified in startup packet");
    server.admit(this);
    const late = server.clock.after(AUTHENTICATION_TIMEOUT, () =>
      this.end(errors.fatal("57014", "canceling authentication due to timeout")),
    );
    try {
      const role = server.options.roles[user];
      const account = { user, password: role?.password, accepts: role?.accepts };
      yield* authenticate(server.methodOf(user), account, this.#loginTalk(), server.dice);
      yield* server.pause("login", user);
      if (!role) throw errors.noRole(user);
      server.checkRole(this, role);
      if (!server.hasDatabase(database)) throw errors.noDatabase(database);
    } finally {
      late.cancel();
    }
    this.#begin(user, database, parameters);
  }

  #loginTalk() {
    return {
      send: (message: Uint8Array) => this.send(message),
      flush: () => this.flush(),
      password: () => this.#password(),
    };
  }

  *#password(): Doing<Uint8Array> {
    const message = yield* this.#message("command");
    if (!message) throw new Gone();
    if (message.letter !== "p")
      throw errors.fatalViolation(`expected password response, got message type ${message.letter.charCodeAt(0)}`);
    return message.body;
  }

  #begin(user: string, database: string, parameters: ReadonlyMap<string, string>): void {
    const server = this.#server;
    const { version } = server.options;
    const settings = new Settings(version, {
      server_version: server.versionText,
      server_version_num: String(server.versionNumber),
      session_authorization: user,
      ...inCluster(server.world.standing),
    });
    this.session = new Session({
      processId: this.processId,
      world: server.world,
      user,
      database,
      settings,
      client: this,
    });
    this.#isWalSender = parameters.get("replication") === "database";
    for (const [name, value] of startupSettings(parameters)) {
      try {
        settings.begin(name, value);
      } catch (error) {
        throw error instanceof PgError ? fatally(error) : error;
      }
    }
    for (const [name, value] of settings.firstReport()) this.send(messages.parameterStatus(name, value));
    if (server.options.quirks?.hasNoKeys) return;
    const length = this.#protocol >= 2 ? 32 : 4;
    this.key = Uint8Array.from({ length }, () => server.dice.below(256));
    this.send(messages.backendKeyData(this.processId, this.key));
  }

  // -- the conversation -----------------------------------------------------------------------------------------------

  *#serve(): Doing<void> {
    const session = this.session!;
    for (let isReady = true; ;) {
      try {
        if (isReady) this.#ready();
        isReady = false;
        const message = yield* this.#message("command");
        this.#idleTimer?.cancel();
        if (!message || message.letter === "X") return;
        this.#pendingCancel = undefined;
        const { letter, body } = message;
        this.#isExtended = EXTENDED.has(letter);
        if (this.#skipsToSync && letter !== "S") continue;
        this.state = "active";
        const outcome = yield* this.#handle(letter, new Fields(body));
        if (outcome === "over") return;
        isReady = outcome;
      } catch (error) {
        if (!(error instanceof PgError) || error.isFatal) throw error;
        this.send(messages.errorResponse(error));
        this.flush();
        if (this.#isWalSender) this.#server.world.slots.release(this.processId, true);
        if (error instanceof OutOfStep)
          throw errors.fatalViolation("terminating connection because protocol synchronization was lost");
        session.fail();
        this.#endStatementTimer();
        this.#skipsToSync = this.#isExtended;
        isReady = !this.#skipsToSync;
      }
    }
  }

  /** Sends ReadyForQuery, and the messages that come before it. */
  #ready(): void {
    const session = this.session!;
    const { status, settings } = session;
    this.state = status === "I" ? "idle" : status === "T" ? "idle in transaction" : "idle in transaction (aborted)";
    if (status === "I") this.#sendNotifications();
    if (!session.world.standing.isStandby && settings.get("in_hot_standby") === "on") settings.promoted();
    for (const [name, value] of settings.report()) this.send(messages.parameterStatus(name, value));
    this.send(messages.readyForQuery(status));
    this.flush();
    const setting = status === "I" ? "idle_session_timeout" : "idle_in_transaction_session_timeout";
    const most = milliseconds(settings.get(setting));
    if (!most) return;
    const error = status === "I" ? errors.idleSession : errors.idleInTransaction;
    this.#idleTimer = this.#server.clock.after(most, () => this.end(error()));
  }

  /** Returns whether ReadyForQuery must follow. `over`: the connection ends without any more messages. */
  *#handle(letter: string, fields: Fields): Doing<boolean | "over"> {
    const session = this.session!;
    if (this.#isWalSender && "PBDECF".includes(letter))
      throw errors.protocolViolation("extended query protocol not supported in a replication connection");
    switch (letter) {
      case "Q":
        return yield* this.#query(text(fields));
      case "P":
        yield* this.#parse(fields);
        return false;
      case "B":
        yield* this.#bind(fields);
        return false;
      case "D":
        yield* this.#describe(fields);
        return false;
      case "E":
        yield* this.#execute(fields);
        return false;
      case "C":
        this.#close(fields);
        return false;
      case "H":
        fields.end();
        this.flush();
        return false;
      case "S":
        fields.end();
        this.#skipsToSync = false;
        session.endImplicitBlock();
        yield* this.#finish();
        return true;
      case "F":
        throw new PgError("0A000", "function calls are not in the model");
      default:
        // Messages that the client still sends after a COPY has failed.
        return false;
    }
  }

  #start(): void {
    const session = this.session!;
    session.startCommand();
    if (this.#statementTimer) return;
    const most = milliseconds(session.settings.get("statement_timeout"));
    if (!most) return;
    this.#statementTimer = this.#server.clock.after(most, () => {
      this.#statementTimer = undefined;
      this.cancel(errors.statementTimeout());
    });
  }

  #endStatementTimer(): void {
    this.#statementTimer?.cancel();
    this.#statementTimer = undefined;
  }

  *#finish(): Doing<void> {
    this.#endStatementTimer();
    yield* this.session!.finishCommand();
  }

  #statements(query: string): readonly Statement[] {
    this.query = query;
    if (this.#server.options.quirks?.hasNoPreparedStatements && query.includes("pg_prepared_statements"))
      throw errors.noTable("pg_prepared_statements");
    return parseStatements(query, (unknown) => this.#server.world.unknownStatements.push(unknown));
  }

  *#plan(statement: Statement, types: ParameterTypes): Doing<Plan> {
    const session = this.session!;
    yield* this.#lockTables(statement);
    const plan = statement.analyse(session, types);
    if (session.transaction?.showsTrees) session.notice(treeShown(statement, plan, session));
    return plan;
  }

  *#lockTables({ tables }: Statement): Doing<void> {
    const session = this.session!;
    for (const { name, mode } of tables) {
      const table = session.world.table(name, session);
      if (table) yield* session.lock(`table ${table.oid}`, mode);
    }
  }

  *#query(query: string): Doing<boolean | "over"> {
    const command = this.#isWalSender ? parseCommand(query) : undefined;
    if (!command) {
      yield* this.#simple(query);
      return true;
    }
    this.query = query;
    this.#isStreaming = command.kind === "start";
    try {
      return (yield* runCommand(command, this.session!, this)) || "over";
    } finally {
      this.#isStreaming = false;
    }
  }

  // -- simple ---------------------------------------------------------------------------------------------------------

  *#simple(query: string): Doing<void> {
    const session = this.session!;
    this.#start();
    session.prepared.delete("");
    session.portals.delete("");
    const statements = this.#statements(query);
    for (const [at, statement] of statements.entries()) {
      const isLast = at === statements.length - 1;
      if (!statement.isExit) session.checkNotFailed();
      this.#start();
      if (statements.length > 1) session.beginImplicitBlock();
      yield* session.think("statement", statement.text);
      const types = new ParameterTypes("none");
      const plan = yield* this.#plan(statement, types);
      for (const constant of types.constants) constant({ session, parameters: [] });
      const portal = this.#portal("", plan, undefined, statement.text, [], []);
      const begun = () => void this.send(messages.rowDescription(describe(plan.columns!), portal.formats));
      const fetched = yield* portal.fetch(0, (row) => this.#dataRow(portal, row), begun);
      this.checkInterrupts();
      if (isLast) session.endImplicitBlock();
      if (isLast || statement.isTransaction) yield* this.#finish();
      else this.#endStatementTimer();
      if (!fetched.isSuspended) this.send(messages.commandComplete(fetched.tag));
    }
    if (!statements.length) {
      session.endImplicitBlock();
      yield* this.#finish();
      this.send(messages.emptyQueryResponse());
    }
  }

  #portal(
    name: string,
    plan: Plan | undefined,
    prepared: Prepared | undefined,
    source: string,
    parameters: readonly Value[],
    formats: readonly number[],
  ): Portal {
    const session = this.session!;
    const columns = plan?.columns ?? [];
    const all = columns.map((_, at) => (formats.length === 1 ? formats[0]! : (formats[at] ?? 0)));
    return new Portal({
      name,
      plan,
      prepared,
      source,
      execution: { session, parameters },
      formats: all,
      madeIn: session.transaction,
    });
  }

  #dataRow({ plan, formats }: Portal, row: readonly Value[]): void {
    const { forms } = this.session!;
    const unknown = formats.find((format) => format !== 0 && format !== 1);
    if (unknown !== undefined) throw new PgError("22023", `unsupported format code: ${unknown}`);
    const cells = row.map((value, at) => encode(plan!.columns![at]!.type, value, formats[at]!, forms));
    this.send(messages.dataRow(cells));
    this.checkInterrupts();
  }

  // -- extended -------------------------------------------------------------------------------------------------------

  *#parse(fields: Fields): Doing<void> {
    const session = this.session!;
    const name = fields.string();
    const query = fields.string();
    const given = Array.from({ length: fields.int16() }, () => fields.int32());
    fields.end();
    this.#start();
    if (name === "") session.prepared.delete("");
    const statements = this.#statements(query);
    if (statements.length > 1) throw new PgError("42601", "cannot insert multiple commands into a prepared statement");
    const [statement] = statements;
    if (statement && !statement.isExit) session.checkNotFailed();
    yield* session.think("parse", query);
    const types = new ParameterTypes(given.map(typeOf));
    const plan = statement && (yield* this.#plan(statement, types));
    const parameters = types.all();
    if (name !== "" && session.prepared.has(name)) throw errors.preparedStatementExists(name);
    const preparedAt = session.transaction!.startedAt;
    const analysedFor = session.catalogKey;
    const { constants } = types;
    const found = { name, text: query, statement, parameters, plan, analysedFor, preparedAt };
    session.prepared.set(name, { ...found, constants, uses: 0 });
    this.send(messages.parseComplete());
  }

  *#bind(fields: Fields): Doing<void> {
    const session = this.session!;
    const bind = messages.readBind(fields);
    const { destinationPortal: portalName, preparedStatement: name, values, parameterFormatCodes: codes } = bind;
    const prepared = session.prepared.get(name);
    if (!prepared) throw errors.noPreparedStatement(name);
    this.query = prepared.text;
    this.#start();
    if (codes.length > 1 && codes.length !== values.length)
      throw errors.protocolViolation(
        `bind message has ${codes.length} parameter formats but ${values.length} parameters`,
      );
    const { parameters, statement } = prepared;
    if (values.length !== parameters.length)
      throw errors.protocolViolation(
        `bind message supplies ${values.length} parameters, but prepared statement "${name}" requires ${parameters.length}`,
      );
    if (statement && !(statement.isExit && !parameters.length)) session.checkNotFailed();
    if (portalName !== "" && session.portals.has(portalName)) throw errors.portalExists(portalName);
    if (portalName === "") session.portals.delete("");
    const decoded = values.map((value, at) =>
      this.#parameter(value, parameters[at]!, formatOf(codes, at), at, portalName),
    );
    if (statement) yield* this.#lockTables(statement);
    session.refresh(prepared);
    if (!parameters.length || prepared.uses < CUSTOM_PLANS)
      for (const constant of prepared.constants) constant({ session, parameters: decoded });
    prepared.uses++;
    const columns = prepared.plan?.columns ?? [];
    const { resultFormatCodes: formats } = bind;
    if (columns.length && formats.length > 1 && formats.length !== columns.length)
      throw errors.protocolViolation(
        `bind message has ${formats.length} result formats but query has ${columns.length} columns`,
      );
    const portal = this.#portal(portalName, prepared.plan, prepared, prepared.text, decoded, formats);
    session.addPortal(portal);
    this.send(messages.bindComplete());
  }

  #parameter(value: Uint8Array | null, type: Type, format: number, at: number, portal: string): Value {
    try {
      if (format !== 0 && format !== 1) throw new PgError("22023", `unsupported format code: ${format}`);
      return decode(type, value, format, this.session!.forms);
    } catch (error) {
      if (error instanceof PgError) {
        const of = portal === "" ? "unnamed portal" : `portal "${portal}"`;
        const shown = format === 0 && value ? (value.length ? " = '...'" : " = ''") : "";
        if (error.code === "22P03") error.fields.message = `incorrect binary data format in bind parameter ${at + 1}`;
        const where = `${of} parameter $${at + 1}${shown}`;
        error.fields.where = error.fields.where ? `${error.fields.where}\n${where}` : where;
      }
      throw error;
    }
  }

  *#describe(fields: Fields): Doing<void> {
    const session = this.session!;
    const kind = String.fromCharCode(fields.byte());
    const name = fields.string();
    fields.end();
    if (kind !== "S" && kind !== "P")
      throw errors.protocolViolation(`invalid DESCRIBE message subtype ${kind.charCodeAt(0)}`);
    this.#start();
    if (kind === "S") return yield* this.#describeStatement(name);
    const portal = session.portals.get(name);
    if (!portal) throw errors.noPortal(name);
    if (portal.plan?.columns) session.checkNotFailed();
    this.#sendColumns(portal.plan, portal.formats);
  }

  *#describeStatement(name: string): Doing<void> {
    const session = this.session!;
    const prepared = session.prepared.get(name);
    if (!prepared) throw errors.noPreparedStatement(name);
    if (prepared.plan?.columns) session.checkNotFailed();
    this.send(messages.parameterDescription(prepared.parameters.map(({ oid }) => oid)));
    if (prepared.plan?.columns) {
      yield* this.#lockTables(prepared.statement!);
      session.refresh(prepared);
    }
    this.#sendColumns(prepared.plan, []);
  }

  #sendColumns(plan: Plan | undefined, formats: readonly number[]): void {
    this.send(plan?.columns ? messages.rowDescription(describe(plan.columns), formats) : messages.noData());
  }

  *#execute(fields: Fields): Doing<void> {
    const session = this.session!;
    const name = fields.string();
    const limit = Math.max(0, fields.int32());
    fields.end();
    const portal = session.portals.get(name);
    if (!portal) throw errors.noPortal(name);
    this.query = portal.source;
    if (!portal.plan) return this.send(messages.emptyQueryResponse());
    const { prepared } = portal;
    const isExit = prepared?.statement?.isExit ?? false;
    this.#start();
    if (!isExit) session.checkNotFailed();
    yield* session.think("statement", portal.source);
    const fetched = yield* portal.fetch(limit, (row) => this.#dataRow(portal, row));
    this.checkInterrupts();
    if (fetched.isSuspended) {
      session.isPipelining = true;
      return this.send(messages.portalSuspended());
    }
    if (prepared?.statement?.isTransaction) yield* this.#finish();
    else {
      session.isPipelining = true;
      this.#endStatementTimer();
    }
    this.send(messages.commandComplete(fetched.tag));
  }

  #close(fields: Fields): void {
    const session = this.session!;
    const kind = String.fromCharCode(fields.byte());
    const name = fields.string();
    fields.end();
    if (kind !== "S" && kind !== "P")
      throw errors.protocolViolation(`invalid CLOSE message subtype ${kind.charCodeAt(0)}`);
    if (kind === "S") session.prepared.delete(name);
    else session.portals.delete(name);
    this.send(messages.closeComplete());
  }

  // -- COPY -----------------------------------------------------------------------------------------------------------

  *copyMessage(): Doing<Message> {
    for (;;) {
      const message = yield* this.#message("copy");
      if (!message) throw new PgError("08006", "unexpected EOF on client connection with an open transaction");
      const { letter } = message;
      if (letter === "H" || letter === "S") continue;
      if (letter === "d" || letter === "c" || letter === "f") return message;
      const code = letter.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0");
      throw new OutOfStep("08P01", `unexpected message type 0x${code} during COPY from stdin`);
    }
  }
}

const KNOWN = new Set([..."QPBEFCDHSXdcf"]);
const EXTENDED = new Set([..."PBEFCDH"]);

function fatally(error: PgError): PgError {
  error.fields.severity = "FATAL";
  return error;
}

function text(fields: Fields): string {
  const query = fields.string();
  fields.end();
  return query;
}

const formatOf = (codes: readonly number[], at: number): number => (codes.length === 1 ? codes[0]! : (codes[at] ?? 0));

/** Returns the type of an OID. 0 and `unknown` leave the type open. */
function typeOf(oid: number): Type | undefined {
  if (oid === 0 || oid === 705) return undefined;
  const type = byOid.get(oid);
  if (!type) throw new PgError("XX000", `cache lookup failed for type ${oid}`);
  return type;
}

function inCluster({ isStandby, name }: Standing): Record<string, string> {
  return { ...(isStandby && { in_hot_standby: "on" }), ...(name && { cluster_name: name }) };
}
