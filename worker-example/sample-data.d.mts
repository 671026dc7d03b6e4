export const eventRows: number;
export const orderRows: Readonly<Record<"acme" | "globex", number>>;

export interface SampleDatabase {
  /** Tenant -> token. */
  tokens: Readonly<Record<"acme" | "globex", string>>;
  /** The reader, for the SQL box. */
  role: string;
  appRole: string;
  /** The Durable Objects'. */
  objectRole: string;
  adminUrl: string;
  readerUrl: string;
  appUrl: string;
  objectUrl: string;
  /** Of the feed of changes. Once it is loaded, where the server has `wal_level = logical`. */
  feedUrl: string | undefined;
  feedSlot: string;
  load(): Promise<void>;
  drop(): Promise<void>;
}

export function sampleDatabase(adminUrl: string, name?: string): SampleDatabase;
