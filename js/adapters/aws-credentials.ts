// Finds AWS credentials: from the caller, environment variables, the container's service (ECS, EKS) or the instance's
// service (IMDSv2), in this order, as AWS's SDKs do. Profile files, SSO and web identities are left to the SDKs.
//
// Knows those services, and that their credentials are cached until shortly before they expire. Must not know what is
// signed. No error contains a credential.
import { AuthenticationError } from "../index.ts";

/** Credentials in the shape of an identity of AWS's SDKs. A provider of these SDKs can be passed too. */
export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** The time at which they expire. */
  readonly expiration?: Date | undefined;
}

export interface CredentialsOptions {
  /**
   * Credentials, or a function that returns them for each login. Default: environment variables, else the container's
   * service, else the instance's service.
   */
  readonly credentials?: AwsCredentials | (() => AwsCredentials | Promise<AwsCredentials>) | undefined;
  /** The environment variables, such as a Worker's `env`. Default: those of the process, if there is one. */
  readonly environment?: Readonly<Record<string, unknown>> | undefined;
  /** The `fetch` that asks the container's or the instance's service. Default: the global `fetch`. */
  readonly fetch?: Fetch | undefined;
}

/** The part of the global `fetch` that is used. */
type Fetch = (url: string, init: FetchOptions) => Promise<FetchResponse>;

interface FetchOptions {
  readonly method?: "PUT";
  readonly headers: Record<string, string>;
  readonly redirect: "manual";
  readonly signal: AbortSignal;
}

interface FetchResponse {
  readonly ok: boolean;
  readonly status: number;
  text(): Promise<string>;
  json(): Promise<unknown>;
}

/** Returns the value of a variable. An empty value counts as missing. */
export type Variable = (name: string) => string | undefined;

/** Credentials of a service are requested again this many milliseconds before they expire. */
const REFRESH_EARLY = 300_000;
/** Milliseconds that a service on this machine or in its network has to answer. */
const ANSWER_TIMEOUT = 2_000;

/** Returns a function that gives the credentials for each login. */
export function credentialsFrom(options: CredentialsOptions): () => Promise<AwsCredentials> {
  const { credentials } = options;
  if (typeof credentials === "function") return async () => checked(await credentials(), "the function");
  if (credentials) return () => Promise.resolve(credentials);
  const variable = variableOf(options);
  const service = kept(() => ofService(variable, options.fetch ?? fetch));
  return async () => ofVariables(variable) ?? (await service());
}

export function variableOf({ environment }: CredentialsOptions): Variable {
  return (name) => {
    const value = environment ? environment[name] : ofProcess(name);
    return typeof value === "string" && value !== "" ? value : undefined;
  };
}

interface Process {
  readonly process?: {
    readonly env?: Readonly<Record<string, string | undefined>>;
    getBuiltinModule?(
      name: "node:fs/promises",
    ): { readFile(path: string, encoding: "utf8"): Promise<string> } | undefined;
  };
  readonly Deno?: { readonly permissions: { querySync(permission: object): { state: string } } };
}

const { process, Deno: deno } = globalThis as Process;

/** Without the check Deno would prompt for a missing permission, and wait for the user. */
function ofProcess(name: string): string | undefined {
  if (deno && deno.permissions.querySync({ name: "env", variable: name }).state !== "granted") return undefined;
  return process?.env?.[name];
}

function ofVariables(variable: Variable): AwsCredentials | undefined {
  const [accessKeyId, secretAccessKey] = [variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")];
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  return { accessKeyId, secretAccessKey, sessionToken: variable("AWS_SESSION_TOKEN") };
}

// -- services ---------------------------------------------------------------------------------------------------------

/**
 * Caches the credentials of a service until shortly before they expire. If the service fails then, the cached ones are
 * used as long as they are valid.
 */
function kept(ask: () => Promise<AwsCredentials>): () => Promise<AwsCredentials> {
  let last: AwsCredentials | undefined;
  let asking: Promise<AwsCredentials> | undefined;
  const left = () => (last?.expiration ? last.expiration.getTime() - Date.now() : 0);
  return async () => {
    if (left() > REFRESH_EARLY) return last!;
    asking ??= ask().finally(() => (asking = undefined));
    try {
      return (last = await asking);
    } catch (error) {
      if (left() > 0) return last!;
      throw error;
    }
  };
}

function ofService(variable: Variable, ask: Fetch): Promise<AwsCredentials> {
  const relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (relative !== undefined) return ofContainer(`http://169.254.170.2${relative}`, variable, ask);
  const full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (full !== undefined) return ofContainer(full, variable, ask);
  if (variable("AWS_EC2_METADATA_DISABLED")?.toLowerCase() === "true") throw missing();
  return ofInstance(variable("AWS_EC2_METADATA_SERVICE_ENDPOINT") ?? "http://169.254.169.254", ask);
}

/** The services of ECS and EKS, and this machine. Without TLS the token must not be sent to any other host. */
const NEAR = /^(localhost|127(\.\d+){3}|\[::1\]|169\.254\.170\.2|169\.254\.170\.23|\[fd00:ec2::23\])$/;

async function ofContainer(uri: string, variable: Variable, ask: Fetch): Promise<AwsCredentials> {
  const url = new URL(uri);
  if (url.protocol !== "https:" && !NEAR.test(url.hostname))
    throw failed(`AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor a container's service (${url.hostname})`);
  const file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  // Read for each request, because EKS replaces the token in the file now and then.
  const token = file === undefined ? variable("AWS_CONTAINER_AUTHORIZATION_TOKEN") : (await textOf(file)).trim();
  const response = await asked(ask, url.href, { headers: token === undefined ? {} : { Authorization: token } });
  return ofJson(await response.json(), "the container's service");
}

async function textOf(path: string): Promise<string> {
  const files = process?.getBuiltinModule?.("node:fs/promises");
  if (!files) throw failed("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read here: pass option credentials");
  return await files.readFile(path, "utf8");
}

/** IMDSv2: a PUT request gets a token. Current instances refuse requests without it. */
async function ofInstance(endpoint: string, ask: Fetch): Promise<AwsCredentials> {
  const at = (path: string) => new URL(`/latest/${path}`, endpoint).href;
  const seconds = { "X-aws-ec2-metadata-token-ttl-seconds": "21600" };
  const session = await asked(ask, at("api/token"), { method: "PUT", headers: seconds }).catch((cause: unknown) => {
    throw missing(cause);
  });
  const headers = { "X-aws-ec2-metadata-token": await session.text() };
  const roles = "meta-data/iam/security-credentials/";
  const [role = ""] = (await (await asked(ask, at(roles), { headers })).text()).trim().split("\n");
  const response = await asked(ask, at(roles + role), { headers });
  return ofJson(await response.json(), "the instance's service");
}

async function asked(ask: Fetch, url: string, init: Pick<FetchOptions, "method" | "headers">): Promise<FetchResponse> {
  const { hostname } = new URL(url);
  const response = await ask(url, { ...init, redirect: "manual", signal: AbortSignal.timeout(ANSWER_TIMEOUT) }).catch(
    (cause: unknown) => {
      throw failed(`the service at ${hostname} does not answer`, cause, false);
    },
  );
  if (!response.ok) throw failed(`the service at ${hostname} answers ${response.status}`, undefined, false);
  return response;
}

function ofJson(given: unknown, who: string): AwsCredentials {
  const { AccessKeyId, SecretAccessKey, Token, Expiration } = Object(given) as Record<string, string | undefined>;
  const expiration = Expiration === undefined ? undefined : new Date(Expiration);
  return checked(
    { accessKeyId: AccessKeyId!, secretAccessKey: SecretAccessKey!, sessionToken: Token, expiration },
    who,
  );
}

function checked(credentials: AwsCredentials, who: string): AwsCredentials {
  const { accessKeyId, secretAccessKey } = Object(credentials) as Partial<AwsCredentials>;
  if (typeof accessKeyId === "string" && typeof secretAccessKey === "string") return credentials;
  throw failed(`${who} gave no accessKeyId and secretAccessKey`);
}

// -- errors -----------------------------------------------------------------------------------------------------------

function failed(why: string, cause?: unknown, isLasting = true): AuthenticationError {
  const facts = { hasNoEffect: true, isLasting, cause };
  return new AuthenticationError("AWS_CREDENTIALS", `No credentials of AWS: ${why}.`, facts);
}

function missing(cause?: unknown): AuthenticationError {
  return failed(
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass option credentials; " +
      "this is no container or instance of AWS with a role",
    cause,
    cause === undefined, // else it may be an instance whose service does not answer now
  );
}
