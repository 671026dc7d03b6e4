// `pgz-edge/aws`: tokens compared with those of AWS's own signers at a fixed time, and credentials from scripted
// services.
import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DsqlSigner } from "@aws-sdk/dsql-signer";
import { Signer } from "@aws-sdk/rds-signer";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { dsqlPassword, rdsPassword, type AwsCredentials } from "../../js/adapters/aws.ts";
import { resolveConfig } from "../../js/config/config.ts";

const NOW = Date.UTC(2026, 10, 27, 13, 5, 9, 87);
const LONG_LIVED = { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+b" };
const OF_ROLE = { ...LONG_LIVED, sessionToken: "IQoJb3JpZ2luX2VjE//a+b==(!'*)" };

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOW }));
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

const db = { host: "db.c1x.eu-west-1.rds.amazonaws.com", port: 5432, user: "app", database: "app" };
const cluster = { ...db, host: "abc.dsql.us-east-1.on.aws" };

// -- tokens -----------------------------------------------------------------------------------------------------------

describe.each([
  ["long-lived credentials", LONG_LIVED],
  ["credentials of a role", OF_ROLE],
])("by %s", (_, credentials) => {
  test.each([
    ["an instance", {}, "eu-west-1"],
    ["another port", { port: 6000 }, "eu-west-1"],
    ["a user whose name is escaped", { user: "ada lovelace+*'()!~ü/&" }, "eu-west-1"],
    ["a cluster of Aurora", { host: "aurora.cluster-c1x.us-gov-east-1.rds.amazonaws.com" }, "us-gov-east-1"],
    ["a proxy", { host: "p.proxy-c1x.ap-southeast-2.rds.amazonaws.com" }, "ap-southeast-2"],
    ["China", { host: "db.c1x.rds.cn-north-1.amazonaws.com.cn" }, "cn-north-1"],
  ])("RDS: the token for %s is the signer's", async (_, change, region) => {
    const attempt = { ...db, ...change };
    const { host: hostname, port, user: username } = attempt;
    const expected = await new Signer({ hostname, port, username, region, credentials }).getAuthToken();
    expect(await rdsPassword({ credentials })(attempt)).toBe(expected);
    expect(expected).toContain("X-Amz-Date=20261127T130509Z");
    // The host name does not contain the region, or the client connects through another host.
    const through = rdsPassword({ credentials, region, host: hostname, port });
    expect(await through({ ...attempt, host: "localhost", port: 1 })).toBe(expected);
  });

  test.each(["us-east-1", "ap-northeast-3"])("DSQL: tokens for %s equal the signer's", async (region) => {
    const attempt = { ...cluster, host: `abc.dsql.${region}.on.aws` };
    const signer = new DsqlSigner({ hostname: attempt.host, region, credentials });
    const [plain, admin] = [await signer.getDbConnectAuthToken(), await signer.getDbConnectAdminAuthToken()];
    const password = dsqlPassword({ credentials });
    const expiresAt = NOW + 3_600_000;
    expect(await password(attempt)).toEqual({ password: plain, expiresAt });
    expect(await password({ ...attempt, user: "admin" })).toEqual({ password: admin, expiresAt });
    expect(await dsqlPassword({ credentials, admin: true })(attempt)).toMatchObject({ password: admin });
    expect(await dsqlPassword({ credentials, admin: false })({ ...attempt, user: "admin" })).toMatchObject({
      password: plain,
    });
  });
});

test("a region that is not in the host name comes from the option, then from variables, or is an error", async () => {
  const regionOf = async (environment: object, region?: string) => {
    const password = rdsPassword({ credentials: LONG_LIVED, region, environment: { ...environment } });
    return /%2F([a-z\d-]+)%2Frds-db/.exec(await password({ ...db, host: "localhost" }))?.[1];
  };
  const variables = { AWS_REGION: "eu-north-1", AWS_DEFAULT_REGION: "eu-south-1" };
  expect(await regionOf(variables, "sa-east-1")).toBe("sa-east-1");
  expect(await regionOf(variables)).toBe("eu-north-1");
  expect(await regionOf({ ...variables, AWS_REGION: "" })).toBe("eu-south-1");
  await expect(regionOf({})).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining("region"),
  });
});

test("each login gets a token with its own time", async () => {
  const password = rdsPassword({ credentials: LONG_LIVED });
  const first = await password(db);
  vi.setSystemTime(NOW + 60_000);
  expect(await password(db)).not.toBe(first);
});

// -- credentials ------------------------------------------------------------------------------------------------------

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** Starts a service with these answers, `[status, body]` by method and path. Any other request gets 404. */
async function service(answers: Record<string, [number, unknown]>): Promise<{ url: string; asked: Asked[] }> {
  const asked: Asked[] = [];
  const listener: RequestListener = ({ method = "", url = "", headers }, response) => {
    asked.push({ method, url, headers });
    const [status, body] = answers[`${method} ${url}`] ?? [404, "nothing"];
    response.writeHead(status).end(typeof body === "string" ? body : JSON.stringify(body));
  };
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

/** Credentials in the form in which the services of containers and instances return them. */
const given = (name: string, minutes = 60) => ({
  Code: "Success",
  AccessKeyId: name,
  SecretAccessKey: "secret",
  Token: "token",
  Expiration: new Date(NOW + minutes * 60_000).toISOString(),
});
const keyOf = (token: string) => /X-Amz-Credential=(\w+)%2F/.exec(token)?.[1];

test("the credentials function runs for each login, and its rejection is the cause of the login's error", async () => {
  let n = 0;
  const password = rdsPassword({ credentials: async () => ({ ...OF_ROLE, accessKeyId: `KEY${++n}` }) });
  expect([keyOf(await password(db)), keyOf(await password(db))]).toEqual(["KEY1", "KEY2"]);
  const cause = new Error("assume-role was refused");
  const config = resolveConfig({
    host: db.host,
    user: "app",
    password: rdsPassword({ credentials: () => Promise.reject(cause) }),
  });
  await expect(config.password(config)).rejects.toMatchObject({ code: "PASSWORD_FUNCTION_FAILED", cause });
  const nothing = rdsPassword({ credentials: () => ({}) as AwsCredentials });
  await expect(nothing(db)).rejects.toMatchObject({ code: "AWS_CREDENTIALS" });
});

test("variables of the process, or of a given object, take precedence over any service", async () => {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "OFPROCESS");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret");
  vi.stubEnv("AWS_SESSION_TOKEN", "of the session");
  const token = await rdsPassword({ fetch: () => Promise.reject(new Error("not to be asked")) })(db);
  expect(keyOf(token)).toBe("OFPROCESS");
  expect(token).toContain("X-Amz-Security-Token=of%20the%20session");
  const environment = { AWS_ACCESS_KEY_ID: "OFOBJECT", AWS_SECRET_ACCESS_KEY: "secret", AWS_SESSION_TOKEN: "" };
  const other = await rdsPassword({ environment })(db);
  expect(keyOf(other)).toBe("OFOBJECT");
  expect(other).not.toContain("Security-Token");
});

test("a container of ECS gets its credentials from the relative URI", async () => {
  const { url, asked } = await service({ "GET /v2/credentials/abc": [200, given("ECS")] });
  const hosts: string[] = [];
  const password = rdsPassword({
    environment: { AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: "/v2/credentials/abc" },
    fetch: (input, init) => {
      const { host, pathname } = new URL(input);
      hosts.push(host);
      return fetch(`${url}${pathname}`, init);
    },
  });
  expect(keyOf(await password(db))).toBe("ECS");
  expect([hosts, asked[0]!.headers.authorization]).toEqual([["169.254.170.2"], undefined]);
});

test("a container of EKS reads its token file each time, because EKS replaces the file", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "eks-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, "token");
  const answers = { "GET /v1/credentials": [200, given("EKS", 1)] as [number, unknown] };
  const { url, asked } = await service(answers);
  const environment = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/v1/credentials`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
  };
  const password = dsqlPassword({ environment });
  for (const token of ["one", "two"]) {
    writeFileSync(file, `${token}\n`);
    expect(keyOf((await password(cluster)).password)).toBe("EKS");
  }
  expect(asked.map(({ headers }) => headers.authorization)).toEqual(["one", "two"]);
  const byVariable = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/v1/credentials`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN: "x",
  };
  await dsqlPassword({ environment: byVariable })(cluster);
  expect(asked[2]!.headers.authorization).toBe("x");
});

test("no token is sent over a network without TLS", async () => {
  const asking = vi.fn(fetch);
  const environment = {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://example.com/credentials",
    AWS_CONTAINER_AUTHORIZATION_TOKEN: "s3cret",
  };
  const error = await rdsPassword({ environment, fetch: asking })(db).catch((one: Error) => one);
  expect(error).toMatchObject({ code: "AWS_CREDENTIALS" });
  expect((error as Error).message).not.toContain("s3cret");
  expect(asking).not.toHaveBeenCalled();
});

test("an instance requests an IMDSv2 token first", async () => {
  const { url, asked } = await service({
    "PUT /latest/api/token": [200, "of the session"],
    "GET /latest/meta-data/iam/security-credentials/": [200, "my-role\n"],
    "GET /latest/meta-data/iam/security-credentials/my-role": [200, given("IMDS")],
  });
  const password = rdsPassword({ environment: { AWS_EC2_METADATA_SERVICE_ENDPOINT: url } });
  const tokens = await Promise.all([password(db), password(db)]);
  expect(tokens.map(keyOf)).toEqual(["IMDS", "IMDS"]);
  expect(asked.map(({ method }) => method)).toEqual(["PUT", "GET", "GET"]);
  expect(asked[0]!.headers["x-aws-ec2-metadata-token-ttl-seconds"]).toBe("21600");
  for (const { headers } of asked.slice(1)) expect(headers["x-aws-ec2-metadata-token"]).toBe("of the session");
});

test("credentials are cached until five minutes before they expire, and longer if the service fails then", async () => {
  const answers: Record<string, [number, unknown]> = { "GET /c": [200, given("FIRST", 60)] };
  const { url, asked } = await service(answers);
  const password = rdsPassword({ environment: { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/c` } });
  const after = async (minutes: number) => {
    vi.setSystemTime(NOW + minutes * 60_000);
    return [keyOf(await password(db)), asked.length];
  };
  expect(await after(0)).toEqual(["FIRST", 1]);
  expect(await after(54)).toEqual(["FIRST", 1]);
  answers["GET /c"] = [500, "later"];
  expect(await after(56)).toEqual(["FIRST", 2]);
  answers["GET /c"] = [200, given("SECOND", 120)];
  expect(await after(57)).toEqual(["SECOND", 3]);
  answers["GET /c"] = [500, "later"];
  await expect(after(121)).rejects.toMatchObject({ code: "AWS_CREDENTIALS", retryable: true });
});

test("without credentials the error says what to set", async () => {
  const off = rdsPassword({ environment: { AWS_EC2_METADATA_DISABLED: "true" } });
  await expect(off(db)).rejects.toMatchObject({ message: expect.stringContaining("AWS_ACCESS_KEY_ID") });
  const cause = new TypeError("no route");
  const nowhere = rdsPassword({ environment: {}, fetch: () => Promise.reject(cause) });
  await expect(nowhere(db)).rejects.toMatchObject({
    code: "AWS_CREDENTIALS",
    message: expect.stringContaining("AWS_ACCESS_KEY_ID"),
    cause: { cause },
  });
});

test("the error names an instance without a role, and a service with a malformed answer", async () => {
  const { url } = await service({
    "PUT /latest/api/token": [200, "t"],
    "GET /latest/meta-data/iam/security-credentials/": [200, "role"],
    "GET /latest/meta-data/iam/security-credentials/role": [200, { Code: "Failed" }],
    "GET /c": [200, "[]"],
  });
  const instance = rdsPassword({ environment: { AWS_EC2_METADATA_SERVICE_ENDPOINT: url } });
  await expect(instance(db)).rejects.toMatchObject({ code: "AWS_CREDENTIALS" });
  const container = rdsPassword({ environment: { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/c` } });
  await expect(container(db)).rejects.toMatchObject({ code: "AWS_CREDENTIALS" });
  const without = await service({ "PUT /latest/api/token": [200, "t"] });
  const noRole = rdsPassword({ environment: { AWS_EC2_METADATA_SERVICE_ENDPOINT: without.url } });
  await expect(noRole(db)).rejects.toMatchObject({ message: expect.stringContaining("404") });
});
