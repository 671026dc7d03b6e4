CREATE TABLE "migrated" ("id" integer PRIMARY KEY);
--> statement-breakpoint
INSERT INTO "migrated" VALUES (1);
