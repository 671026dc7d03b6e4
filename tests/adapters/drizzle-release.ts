// drizzle-orm 0.45, for the cases that both releases have (drizzle-world.ts).
import * as orm from "drizzle-orm";
import { Cache } from "drizzle-orm/cache/core";
import * as core from "drizzle-orm/pg-core";
import type { Release, Tables } from "./drizzle-world.ts";

export function relate({ users, posts }: Tables) {
  const usersRelations = orm.relations(users, ({ many }) => ({ posts: many(posts) }));
  const postsRelations = orm.relations(posts, ({ one }) => ({
    author: one(users, { fields: [posts.authorId], references: [users.id] }),
  }));
  return { schema: { users, posts, usersRelations, postsRelations } };
}

export const release: Release = {
  orm,
  core,
  Cache,
  relate,
  byId: (column) => column,
  withId: (column, id) => orm.eq(column, id),
};
