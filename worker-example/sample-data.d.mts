export const eventRows: number;
export const orderRows: Readonly<Record<"acme" | "globex", number>>;

export interface SampleDatabase {
  /** Tenant -> token. */
  tokens: Readonly<Record<"acme" | "globex", string>>;
  /** The reader's role, for the SQL box. */
  role: string;
  appRole: string;
  /** The Durable Objects' role. */
  objectRole: string;
  adminUrl: string;
  readerUrl: string;
  appUrl: string;
  objectUrl: string;
  /** The URL of the feed's role. Set after `load()`, if the server has `wal_level = logical`. */
  feedUrl: string | undefined;
  feedSlot: string;
  load(): Promise<void>;
  drop(): Promise<void>;
}

export function sampleDatabase(adminUrl: string, name?: string): SampleDatabase;
