export interface ServerDescriptor {
  /** "18", "15", "pgbouncer", or "url-<major>" for the server of DATABASE_URL. */
  name: string;
  major: number;
  own: boolean;
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
