// `defaults`: the options that apply when the caller, the connection string and the environment do not set them.
//
// Knows option names. An application may change each of them before it makes a client.
import { environment } from "./environment.ts";
import { arrayOf } from "./types/arrays.ts";
import { getTypeParser, setTypeParser } from "./types/index.ts";
import { parseBigInteger } from "./types/scalars.ts";

const bigIntegers = arrayOf(parseBigInteger);

export const defaults = {
  host: "localhost",
  user: environment("USER") ?? environment("USERNAME"),
  database: undefined as string | undefined,
  password: null as string | null,
  connectionString: undefined as string | undefined,
  port: 5432,
  /** Maximum number of rows of one Execute; 0 means all. */
  rows: 0,
  binary: false,
  max: 10,
  idleTimeoutMillis: 30_000,
  client_encoding: "",
  ssl: false as unknown,
  sslnegotiation: undefined as string | undefined,
  application_name: undefined as string | undefined,
  fallback_application_name: undefined as string | undefined,
  options: undefined as string | undefined,
  /** Whether a Date parameter is written in UTC instead of this machine's time zone. */
  parseInputDatesAsUTC: false,
  statement_timeout: false as number | false,
  lock_timeout: false as number | false,
  idle_in_transaction_session_timeout: false as number | false,
  query_timeout: false as number | false,
  connect_timeout: 0,
  keepalives: 1,
  keepalives_idle: 0,
  /** Reads int8 as a number, which loses digits beyond 2^53. */
  set parseInt8(isNumber: boolean) {
    setTypeParser(20, "text", isNumber ? getTypeParser(23) : parseBigInteger);
    setTypeParser(1016, "text", isNumber ? getTypeParser(1007) : bigIntegers);
  },
};
