export const eventRows: number;

export interface SampleDatabase {
  role: string;
  adminUrl: string;
  readerUrl: string;
  load(): Promise<void>;
  drop(): Promise<void>;
}

export function sampleDatabase(adminUrl: string, name?: string): SampleDatabase;
