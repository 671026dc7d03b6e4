// `pgz-edge/aws`: functions for option `password` that return AWS's login tokens, for RDS, Aurora and Aurora DSQL.
//
// Knows which token each service wants, and the region in a host's name. Must not know how a token is signed
// (aws-signing.ts), or where credentials come from (aws-credentials.ts).
import { UsageError, type LoginAttempt, type PasswordAnswer } from "../index.ts";
import { credentialsFrom, variableOf, type AwsCredentials, type CredentialsOptions } from "./aws-credentials.ts";
import { presigned, type Signable } from "./aws-signing.ts";

export type { AwsCredentials } from "./aws-credentials.ts";

/** The endpoint that a token is for, and the credentials that sign it. */
export interface RdsOptions extends CredentialsOptions {
  /**
   * The endpoint's region. Default: the region in the host's name, else the variables `AWS_REGION` and
   * `AWS_DEFAULT_REGION`.
   */
  readonly region?: string | undefined;
  /**
   * The endpoint's own name, if the client connects to another name such as a tunnel or a CNAME. Default: the host that
   * the client logs in to.
   */
  readonly host?: string | undefined;
  /** The endpoint's own port. Default: the port that the client logs in to. */
  readonly port?: number | undefined;
}

/** Like {@link RdsOptions}, but without a port: a token of DSQL does not name one. */
export interface DsqlOptions extends Omit<RdsOptions, "port"> {
  /** Whether the token is for `dsql:DbConnectAdmin`. Default: only for user `admin`. */
  readonly admin?: boolean | undefined;
}

/**
 * Returns a function for option `password` of a database on RDS or Aurora. It signs a new token for `rds-db:connect` at
 * each login. A token is valid for 15 minutes; a session that has logged in with it may last longer.
 *
 * @example
 * const db = createPool("postgres://app@db.abc.eu-west-1.rds.amazonaws.com/app?sslmode=verify-full", {
 *   password: rdsPassword(),
 *   ca: rdsCertificates,
 * });
 */
export function rdsPassword(options: RdsOptions = {}): (attempt: LoginAttempt) => Promise<string> {
  const credentials = credentialsFrom(options);
  return async (attempt) => {
    const { host = attempt.host, port = attempt.port } = options;
    const query = { Action: "connect", DBUser: attempt.user };
    return await signed({ service: "rds-db", host: `${host}:${port}`, query }, regionFor(host, options), credentials);
  };
}

/** DSQL ends each session an hour after its login. */
const LONGEST_SESSION = 3_600_000;

/**
 * Returns a function for option `password` of Aurora DSQL. At each login it signs a new token for `dsql:DbConnect`, or
 * for `dsql:DbConnectAdmin` with user `admin`. It also tells the pool that the session ends after an hour.
 *
 * @example
 * const db = createPool("postgres://admin@abc.dsql.us-east-1.on.aws/postgres?sslmode=verify-full", {
 *   password: dsqlPassword(),
 * });
 */
export function dsqlPassword(options: DsqlOptions = {}): (attempt: LoginAttempt) => Promise<PasswordAnswer> {
  const credentials = credentialsFrom(options);
  return async (attempt) => {
    const { host = attempt.host, admin = attempt.user === "admin" } = options;
    const query = { Action: admin ? "DbConnectAdmin" : "DbConnect" };
    const password = await signed({ service: "dsql", host, query }, regionFor(host, options), credentials);
    return { password, expiresAt: Date.now() + LONGEST_SESSION };
  };
}

async function signed(
  what: Omit<Signable, "region">,
  region: string,
  credentials: () => Promise<AwsCredentials>,
): Promise<string> {
  return await presigned({ ...what, region }, await credentials(), new Date());
}

// -- regions ----------------------------------------------------------------------------------------------------------

/** Host names of RDS, of RDS in China, and of DSQL. Each contains its region. */
const ENDPOINTS = [
  /\.([a-z]{2}(?:-[a-z]+)+-\d+)\.rds\.amazonaws\.com(?:\.cn)?$/,
  /\.rds\.([a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com\.cn$/,
  /\.dsql(?:-[a-z\d]+)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\.on\.aws$/,
];

function regionFor(host: string, options: CredentialsOptions & { readonly region?: string | undefined }): string {
  const [named] = ENDPOINTS.flatMap((form) => form.exec(host)?.[1] ?? []);
  const variable = variableOf(options);
  const region = options.region ?? named ?? variable("AWS_REGION") ?? variable("AWS_DEFAULT_REGION");
  if (region !== undefined) return region;
  throw new UsageError("INVALID_OPTION", 'The host\'s name does not contain its region: pass option "region".');
}
