// Prisma's own client over pgz-edge/prisma, with the build that users get; each case returns what it returns over
// @prisma/adapter-pg.
import { PrismaPg } from "@prisma/adapter-pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testServers } from "../integration/servers.ts";
import { inTime } from "../support/until.mjs";
import { cases, type Client } from "./prisma/cases.ts";
import { tables } from "./prisma/tables.ts";

const { PrismaPgz } = (await import("../../dist/prisma.js" as string)) as typeof import("../../js/adapters/prisma.ts");
const { generate } = (await import("./prisma/generate.mjs" as string)) as { generate: (runtime: string) => string };
const { PrismaClient } = (await import(generate("nodejs"))) as { PrismaClient: new (options: object) => Client };

describe.each(testServers().servers)("$name", (server) => {
  const schema = "prisma_client";
  const url = `${server.url.split("?")[0]}?sslmode=disable&options=-c%20search_path%3D${schema}%20-c%20timezone%3DUTC`;
  let ours: Client;
  let theirs: Client;

  beforeAll(async () => {
    const adapter = await new PrismaPgz(url).connect();
    await adapter.executeScript(tables(schema));
    await adapter.dispose();
    ours = new PrismaClient({ adapter: new PrismaPgz(url, { schema }) });
    theirs = new PrismaClient({ adapter: new PrismaPg(url, { schema }) });
  });
  afterAll(async () => {
    await ours.$executeRawUnsafe(`drop schema ${schema} cascade`);
    await ours.$disconnect();
    await theirs.$disconnect();
  });

  const seen = async (run: (prisma: Client) => Promise<unknown>, prisma: Client): Promise<unknown> => {
    await prisma.$executeRawUnsafe(`truncate "User", "Post", "Thing" restart identity cascade`);
    return run(prisma);
  };

  for (const [name, run] of Object.entries(cases))
    test(name, async () => {
      const wanted = await seen(run, theirs);
      expect(await seen(run, ours)).toEqual(wanted);
      // The statements are known now.
      expect(await seen(run, ours)).toEqual(wanted);
    });

  test("a client that was disconnected connects again", async () => {
    const prisma: Client = new PrismaClient({ adapter: new PrismaPgz(url, { schema }) });
    for (let round = 0; round < 2; round++) {
      expect(await prisma.$queryRaw`select 1::int4 as a`).toEqual([{ a: 1 }]);
      await prisma.$disconnect();
    }
  });

  test("a transaction that takes too long is not waited for", async () => {
    const slow = ours.$transaction((tx: Client) => tx.$queryRaw`select pg_sleep(60)::text`, { timeout: 200 });
    await expect(inTime(slow)).rejects.toMatchObject({
      meta: { driverAdapterError: { cause: { kind: "TransactionAlreadyClosed" } } },
    });
  });

  test("a transaction whose error was swallowed is not reported as committed", async () => {
    const id = "00000000-0000-0000-0000-000000000003";
    const swallowed = ours.$transaction(async (tx: Client) => {
      await tx.user.create({ data: { email: "swallowed@example.org" } });
      await tx.post.create({ data: { id, title: "x", authorId: 999 } }).catch(() => {});
    });
    await expect(swallowed).rejects.toThrow("COMMIT rolled back");
    expect(await ours.user.count({ where: { email: "swallowed@example.org" } })).toBe(0);
  });
});
