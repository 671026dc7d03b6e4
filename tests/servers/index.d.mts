export interface ServerDescriptor {
  /** "18", "15", "pgbouncer", or "url-<major>" for the one of DATABASE_URL. */
  name: string;
  major: number;
  /** Started by us: it has the roles of tests/servers/postgres.mjs and may be treated badly. */
  own: boolean;
  /** Offers TLS with a certificate that the CA of `caFile` signs. */
  tls: boolean;
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
  url: string;
  appUrl: string;
  superuserUrl: string;
  caFile?: string;
  /** Has its Unix socket. */
  socketFolder?: string;
  log?: string;
  pid?: number;
}

export interface RunningServers {
  servers: ServerDescriptor[];
  pgbouncer?: ServerDescriptor;
  stop(): Promise<void>;
}

/** `databaseUrl` stands in for 18; by default the one of the environment. */
export function startServers(options?: {
  majors?: number[];
  pgbouncer?: boolean;
  databaseUrl?: string | undefined;
}): Promise<RunningServers>;

export function logFile(name: string): string;
