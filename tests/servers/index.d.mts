export interface ServerDescriptor {
  /** "19", "15", "pgbouncer", or "url-<major>" for the server of DATABASE_URL. */
  name: string;
  major: number;
  /** Started by us: it has the roles of tests/servers/postgres.mjs, and tests may crash or change it. */
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
  /** The folder of its Unix socket. */
  socketFolder?: string;
  log?: string;
  pid?: number;
}

export interface RunningServers {
  servers: ServerDescriptor[];
  pgbouncer?: ServerDescriptor;
  stop(): Promise<void>;
}

/** `databaseUrl` replaces the first of the majors. The default is DATABASE_URL of the environment. */
export function startServers(options?: {
  majors?: number[];
  pgbouncer?: boolean;
  databaseUrl?: string | undefined;
}): Promise<RunningServers>;

export function logFile(name: string): string;
