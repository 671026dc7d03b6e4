ALTER TABLE "migrated" ADD COLUMN "name" text;
UPDATE "migrated" SET "name" = 'a;b';
