// drizzle-orm 1.0, for the cases that both releases have (drizzle-world.ts).
import * as orm from "drizzle-orm-v1";
import { Cache } from "drizzle-orm-v1/cache/core";
import * as core from "drizzle-orm-v1/pg-core";
import { defineRelations } from "drizzle-orm-v1/relations";
import type { Release, Tables } from "./drizzle-world.ts";

/** The helpers that 1.0 gives to the code that defines relations. */
interface Builder {
  readonly many: { posts(): unknown };
  readonly one: { users(by: { from: unknown; to: unknown }): unknown };
  readonly users: { readonly id: unknown };
  readonly posts: { readonly authorId: unknown };
}

const relationsOf = (r: Builder) => ({
  users: { posts: r.many.posts() },
  posts: { author: r.one.users({ from: r.posts.authorId, to: r.users.id }) },
});

const relate = ({ users, posts }: Tables) => ({
  relations: defineRelations({ users, posts } as never, relationsOf as never),
});

export const release = {
  orm,
  core,
  Cache,
  relate,
  byId: () => ({ id: "asc" }),
  withId: (_: unknown, id: number) => ({ id }),
} as unknown as Release;
