// What the isolate knows of a server, in one object that is found once per configuration.
//
//   Config ── WeakMap ──> KnownServer <── address and StartupMessage ── the last MOST_SERVERS that were looked up
//                             │
//                             └── KnownScope, one for each set of settings that decide what a text means
//                                     │ key
//                                     └── shapes (shapes.ts), which are bounded by their own number and length
//
// Everything in StartupMessage is part of what makes two servers the same, because a role, a database or an option may
// decide what SQL means and how the login goes. An object that was dropped lives on with the configurations that
// have it: the next one for the same server has another key, and learns everything anew.
//
// Knows bounds and keys. Must not know how any of this is found out (login-probe.ts, first-run.ts, citus.ts).
import { startupParameters } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { BoundedMap, BoundedSet } from "../util/bounded.ts";
import { LARGEST_PROCESS_ID, MOST_CATALOGS, MOST_REFUSED_TYPES, MOST_SERVERS } from "../util/limits.ts";
import { Catalog } from "./catalog.ts";

/** What holds for a database at an address, whatever the role and the settings of a session. */
export interface KnownDatabase {
  /**
   * Whether a session had a process id that PostgreSQL itself never uses. A pooler's ids are random, and one in 1,024
   * looks genuine: so what one session has shown holds for the others.
   */
  isPooler: boolean;
  /** Whether it is a coordinator of Citus, whose tables are on other nodes. */
  isCitus: boolean;
  /**
   * The number of the last known change of the schema; 0: none. What was learned before that is not used any more, on
   * all connections: statements may mean something else now.
   */
  epoch: number;
}

export class KnownServer {
  /** The mechanisms that the last login was offered, with TLS and without; empty if it did not request SASL. */
  readonly offered: { encrypted?: readonly string[]; plain?: readonly string[] } = {};
  readonly database: KnownDatabase;
  /** The major version; `undefined` until a session was told. An early query is sent before that. */
  release: number | undefined;
  /** Whether `pg_prepared_statements` has no types of columns, whatever version the server reports. */
  lacksResultTypes = false;
  /** Types that it cannot write in binary, though the core could read that. */
  readonly refusedTypes = new BoundedSet<number>(MOST_REFUSED_TYPES);
  /** The sessions without settings of a scope. */
  readonly unscoped = new KnownScope(this);

  constructor(database: KnownDatabase = newDatabase()) {
    this.database = database;
  }

  /** Its types. */
  get catalog(): Catalog {
    let catalog = catalogs.get(this);
    if (!catalog) catalogs.set(this, (catalog = new Catalog()));
    return catalog;
  }

  /** `meaning`: the settings that decide what an SQL text means; empty if none do. */
  scope(meaning: string): KnownScope {
    if (meaning === "") return this.unscoped;
    const key = `${this.unscoped.key} ${meaning}`;
    let scope = scopes.get(key);
    if (!scope) scopes.set(key, (scope = new KnownScope(this)));
    return scope;
  }

  /** Notes the process id of a session that has begun. */
  noteProcessId(processId: number): void {
    if (processId > LARGEST_PROCESS_ID) this.database.isPooler = true;
  }
}

/** Sessions of a server in which equal texts mean the same. */
export class KnownScope {
  readonly server: KnownServer;
  /** Unique in the isolate, and short, because it is part of the key by which every statement is looked up. */
  readonly key: string;
  /** The number of sessions whose first run failed by its check since one last passed. */
  failedChecks = 0;

  constructor(server: KnownServer) {
    this.server = server;
    this.key = String(++lastKey);
  }
}

let lastKey = 0;
/** Where a configuration has been looked up before, so that its text is made once. */
const configured = new WeakMap<Config, KnownServer>();
const servers = new BoundedMap<string, KnownServer>(MOST_SERVERS);
const databases = new BoundedMap<string, KnownDatabase>(MOST_SERVERS);
const scopes = new BoundedMap<string, KnownScope>(MOST_SERVERS);
/** Fewer than servers, because a catalog may hold thousands of types. */
const catalogs = new BoundedMap<KnownServer, Catalog>(MOST_CATALOGS);

export function knownServer(config: Config): KnownServer {
  let server = configured.get(config);
  if (!server) {
    const key = JSON.stringify([config.host, config.port, startupParameters(config)]);
    server = servers.get(key) ?? new KnownServer(knownDatabase(config));
    // As the one that was used last.
    servers.delete(key);
    servers.set(key, server);
    configured.set(config, server);
  }
  return server;
}

function knownDatabase({ host, port, database }: Config): KnownDatabase {
  const key = JSON.stringify([host, port, database]);
  let known = databases.get(key);
  if (!known) databases.set(key, (known = newDatabase()));
  return known;
}

function newDatabase(): KnownDatabase {
  return { isPooler: false, isCitus: false, epoch: 0 };
}
