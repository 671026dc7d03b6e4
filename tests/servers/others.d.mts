export interface OtherServer {
  name: string;
  /** To connect with, but for `allowCleartextPassword`. */
  options: { host: string; port: number; sslmode: "disable"; user: string; password: string; database: string };
  stop(): Promise<unknown>;
}
