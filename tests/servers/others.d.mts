export interface OtherServer {
  name: string;
  /** Options to connect with; only `allowCleartextPassword` is not among them. */
  options: { host: string; port: number; sslmode: "disable"; user: string; password: string; database: string };
  stop(): Promise<unknown>;
}
