// The tables of schema.prisma, in a schema of their own. Migrations would need an engine that must be downloaded.

export const tables = (schema: string): string => `
  drop schema if exists ${schema} cascade;
  create schema ${schema};
  set search_path = ${schema};
  create type "Mood" as enum ('happy', 'so so');
  create table "User" (id serial primary key, email varchar(40) not null, name text,
    mood "Mood" not null default 'happy', moods "Mood"[], joined timestamp(3) not null default current_timestamp);
  create unique index "User_email_key" on "User" (email);
  create table "Post" (id uuid primary key, title text not null, views bigint not null default 0,
    "authorId" int not null references "User" (id) on delete restrict on update cascade);
  create table "Thing" (id int primary key, small smallint not null, big bigint not null, single real not null,
    double double precision not null, amount decimal(12, 2) not null, flag boolean not null, text text not null,
    bytes bytea not null, json jsonb not null, uuid uuid not null, day date not null, time time(3) not null,
    at timestamp(3) not null, zoned timestamptz(3) not null, maybe int, texts text[], ints int[], bigs bigint[],
    amounts decimal(65, 30)[], times timestamp(3)[], jsons jsonb[], blobs bytea[], flags boolean[])`;
