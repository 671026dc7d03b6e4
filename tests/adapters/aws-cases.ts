// `pgz-edge/aws` on each runtime, Workers too: the tokens for a fixed time, and a login with one. The tokens are from
// tests/unit/aws.test.ts, which compares them with those of AWS's own signers.
import type * as driver from "../../js/index.ts";
import type * as adapter from "../../js/adapters/aws.ts";
import { equal } from "./websocket-cases.ts";

export interface Setting {
  readonly pgz: typeof driver;
  readonly aws: typeof adapter;
  /** The URL of a role that may create roles, with sslmode=disable. */
  readonly url: string;
}

const NOW = Date.UTC(2026, 10, 27, 13, 5, 9);

/** Runs `work` with the clock at that time. */
async function then<T>(work: () => Promise<T>): Promise<T> {
  const Now = globalThis.Date;
  globalThis.Date = class extends Now {
    constructor(...given: unknown[]) {
      super(...((given.length ? given : [NOW]) as [number]));
    }
    static override now = () => NOW;
  } as unknown as DateConstructor;
  try {
    return await work();
  } finally {
    globalThis.Date = Now;
  }
}

const environment = {
  AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
  AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG+b",
  AWS_SESSION_TOKEN: "IQoJb3JpZ2luX2VjE//a+b==",
};
const host = "db.c1x.eu-west-1.rds.amazonaws.com";
const database = "app";

/** The token of @aws-sdk/rds-signer 3.1175.0. */
const RDS =
  "db.c1x.eu-west-1.rds.amazonaws.com:5432/?Action=connect&DBUser=app&X-Amz-Algorithm=AWS4-HMAC-SHA256&" +
  "X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261127%2Feu-west-1%2Frds-db%2Faws4_request&" +
  "X-Amz-Date=20261127T130509Z&X-Amz-Expires=900&X-Amz-Security-Token=IQoJb3JpZ2luX2VjE%2F%2Fa%2Bb%3D%3D&" +
  "X-Amz-Signature=3300d1ad2da2873df0a9e2ed6370e965915727fc25f6d9c66f20d2d3fc94d837&X-Amz-SignedHeaders=host";

/** The token of @aws-sdk/dsql-signer 3.1142.0. */
const DSQL =
  "abc.dsql.us-east-1.on.aws/?Action=DbConnectAdmin&X-Amz-Algorithm=AWS4-HMAC-SHA256&" +
  "X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261127%2Fus-east-1%2Fdsql%2Faws4_request&" +
  "X-Amz-Date=20261127T130509Z&X-Amz-Expires=900&X-Amz-Security-Token=IQoJb3JpZ2luX2VjE%2F%2Fa%2Bb%3D%3D&" +
  "X-Amz-Signature=69035fb637662328e8f6b46a901d5cf99ad7114192383bc382bd935dfe976910&X-Amz-SignedHeaders=host";

export const cases: Readonly<Record<string, (setting: Setting) => Promise<void>>> = {
  async "tokens for RDS and DSQL equal those of AWS's signers"({ aws }) {
    const rds = () => aws.rdsPassword({ environment })({ host, port: 5432, user: "app", database });
    equal(await then(rds), RDS);
    const dsql = () =>
      aws.dsqlPassword({ environment })({ host: "abc.dsql.us-east-1.on.aws", port: 5432, user: "admin", database });
    equal(await then(dsql), { password: DSQL, expiresAt: NOW + 3_600_000 });
  },

  async "a token works as the password of a login"({ pgz, aws, url }) {
    const user = `aws_${Math.random().toString(36).slice(2)}`;
    const password = aws.rdsPassword({ environment, region: "eu-west-1", host, port: 5432 });
    const token = await then(async () => password({ host, port: 5432, user, database }));
    await using admin = pgz.createClient(url);
    await admin.exec(`create role ${user} login password '${token}'`);
    try {
      const name = await then(async () => {
        await using db = pgz.createClient(url, { user, password });
        return (await db.query("select current_user::text as name")).rows;
      });
      equal(name, [{ name: user }]);
    } finally {
      await admin.exec(`drop role ${user}`);
    }
  },

  async "without credentials the login's error has the reason"({ pgz, aws, url }) {
    const password = aws.rdsPassword({ region: "eu-west-1", environment: { AWS_EC2_METADATA_DISABLED: "true" } });
    await using db = pgz.createClient(url, { password });
    const error = (await db.query("select 1").catch((one: unknown) => one)) as driver.PgzError;
    equal([error.code, (error.cause as driver.PgzError).code], ["PASSWORD_FUNCTION_FAILED", "AWS_CREDENTIALS"]);
  },
};
