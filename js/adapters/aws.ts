// `pgz-edge/aws`: passwords that are AWS's tokens, for RDS, Aurora and Aurora DSQL, as functions for option `password`.
//
// Knows which token each service wants, and what a host's name says of its region. Must not know how a token is signed
// (aws-signing.ts), or where credentials come from (aws-credentials.ts).
import { UsageError, type LoginAttempt, type PasswordAnswer } from "../index.ts";
import { credentialsFrom, variableOf, type AwsCredentials, type CredentialsOptions } from "./aws-credentials.ts";
import { presigned, type Signable } from "./aws-signing.ts";

export type { AwsCredentials } from "./aws-credentials.ts";

/** Where a token is for, and who signs it. */
export interface RdsOptions extends CredentialsOptions {
  /** Default: what the host's name says, else the variables `AWS_REGION` and `AWS_DEFAULT_REGION`. */
  readonly region?: string | undefined;
  /** The endpoint's own name, where the client connects to another one: a tunnel, a CNAME. Default: the attempt's. */
  readonly host?: string | undefined;
  /** The endpoint's own port. Default: the attempt's. */
  readonly port?: number | undefined;
}

/** As {@link RdsOptions}. A token of DSQL is for no port. */
export interface DsqlOptions extends Omit<RdsOptions, "port"> {
  /** Whether the token is for `dsql:DbConnectAdmin`. Default: it is for user `admin`. */
  readonly admin?: boolean | undefined;
}

/**
 * For option `password` of a database on RDS or Aurora: a token for `rds-db:connect`, signed anew for each login. It is
 * valid for 15 minutes; a session outlives it.
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
 * For option `password` of Aurora DSQL: a token for `dsql:DbConnect`, or `dsql:DbConnectAdmin` for user `admin`, signed
 * anew for each login. It tells a pool that a session ends after an hour.
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

/** Endpoints of RDS, of RDS in China, and of DSQL with their regions. */
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
  throw new UsageError("INVALID_OPTION", 'The host\'s name does not say its region: pass option "region".');
}
