// The tarball's types of pgz-edge/drizzle-v1, in a project that has drizzle-orm 1.0 under its own name.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bin, Project } from "./project.ts";

const USE = `
  import { eq } from "drizzle-orm";
  import { bigint, integer, pgTable, text, timestamp } from "drizzle-orm/pg-core";
  import { defineRelations } from "drizzle-orm/relations";
  import { connect, createPool } from "pgz-edge";
  import { drizzle } from "pgz-edge/drizzle-v1";
  import { migrate } from "pgz-edge/drizzle-v1/migrator";

  const users = pgTable("users", { id: integer().primaryKey(), name: text().notNull(), at: timestamp() });
  const posts = pgTable("posts", { id: integer().primaryKey(), author: integer(), size: bigint({ mode: "bigint" }) });
  const relations = defineRelations({ users, posts }, (r) => ({
    users: { posts: r.many.posts({ from: r.users.id, to: r.posts.author }) },
  }));

  export async function main(): Promise<unknown> {
    const db = drizzle(createPool("postgres://u@h/d"), { relations });
    const [user] = await db.select().from(users).where(eq(users.id, 1));
    const at: Date | null | undefined = user?.at;
    const found = await db.query.users.findFirst({ with: { posts: true } });
    const size: bigint | null | undefined = found?.posts[0]?.size;
    const [rows, raw] = await db.batch([db.select({ name: users.name }).from(users), db.execute("select 1")]);
    const name: string | undefined = rows[0]?.name;
    for await (const post of db.iterator(db.select().from(posts))) {
      const id: number = post.id;
      // @ts-expect-error: a row has no such member
      void post.nothing, id;
    }
    await db.transaction(async (tx) => void (await tx.delete(posts)), { isolationLevel: "serializable", retry: true });
    await db.$client.close();
    await migrate(drizzle(await connect("x")), { migrationsFolder: "drizzle" });
    // @ts-expect-error: there is no such option
    drizzle("postgres://u@h/d", { nothing: 1 });
    return [at, size, name, raw.rowCount];
  }`;
let project: Project;

beforeAll(() => {
  project = new Project();
  project.link("drizzle-orm-v1", "drizzle-orm");
  project.write("types.ts", USE);
});
afterAll(() => project?.remove());

test.each(["nodenext", "bundler"])("rows have their types with module resolution %s", (moduleResolution) => {
  const module = moduleResolution === "bundler" ? "esnext" : "nodenext";
  const options = ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--skipLibCheck"];
  const chosen = ["--module", module, "--moduleResolution", moduleResolution];
  const compile = () => execFileSync(bin("tsc"), [...options, ...chosen, "types.ts"], { cwd: project.folder });
  try {
    compile();
  } catch (error) {
    expect((error as { stdout: unknown }).stdout?.toString()).toBe("");
  }
});

test("nothing published uses the name under which this repository has drizzle-orm 1.0", () => {
  const dist = project.at("node_modules/pgz-edge/dist");
  const named = readdirSync(dist, { recursive: true, encoding: "utf8" }).filter(
    (name) => /\.(js|ts)$/.test(name) && readFileSync(`${dist}/${name}`, "utf8").includes("drizzle-orm-v1"),
  );
  expect(named).toEqual([]);
});
