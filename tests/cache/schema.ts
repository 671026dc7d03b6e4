// A schema with one object for each way in which an answer may change without a commit that is told.
//
// Knows SQL. Must not know what is expected of a statement (cases.ts).

/** Statements that the superuser runs in a new database. `app` is an ordinary role, and owns nothing here. */
export const schemaOf = (app: string): string => `
  create schema other;
  create table items (id int primary key, name text not null, price numeric, at timestamptz, day date, tags text[]);
  create table notes (id int primary key, item int references items, body text, data jsonb, doc tsvector);
  create table unseen (id int primary key);
  create table filtered (id int primary key);
  create table other.outside (id int primary key);
  create unlogged table scratch (id int primary key);
  create sequence counter;
  create materialized view kept as select id from items;
  create foreign data wrapper afar;
  create server yonder foreign data wrapper afar;
  create foreign table remote (id int) server yonder;

  create access method other_heap type table handler heap_tableam_handler;
  create table of_other_heap (id int primary key) using other_heap;

  create table parted (k int, v text) partition by list (k);
  create table parted_1 partition of parted for values in (1);
  create table parted_2 partition of parted for values in (2) partition by list (v);
  create table parted_2a partition of parted_2 for values in ('a');
  create table holed (k int) partition by list (k);
  create table holed_1 partition of holed for values in (1);
  create foreign table holed_2 partition of holed for values in (2) server yonder;
  create table empty_parted (k int) partition by list (k);
  create table parent (id int);
  create table child (more int) inherits (parent);
  create table grandchild () inherits (child);
  create table loose (id int);
  create table loose_child () inherits (loose);

  create view cheap as select id, name, price from items where price < 10;
  create view cheaper as select c.id, n.body from cheap c left join notes n on n.item = c.id;
  create view barred with (security_barrier) as select id, body from notes;
  create view of_today as select id from items where at > now();
  create view of_then as select id from items where day > '2020-01-01';
  create view of_words as select id from items where day > 'today'::text::date;
  create view of_kept as select id from kept;
  create view of_parts as select k from parted union all select id from parent;

  create type mood as enum ('sad', 'ok');
  create type pair as (a int, b text);
  create type meeting as (at timestamptz, who text);
  create type reference as (of regclass);
  create domain positive as int check (value > 0);
  create domain word as text check (value ~ '^[a-z]+$' and length(value) < 9 and value in ('a', 'b'));
  create function moody(int) returns bool volatile language plpgsql as 'begin return true; end';
  create domain doubtful as int check (moody(value));
  create domain current_day as date check (value > current_date);
  create domain moment as timestamptz;
  create type spans as range (subtype = text);
  create type meetings as range (subtype = timestamptz);
  create table typed (m mood, p pair, w meeting, r reference, pos positive, d doubtful, cd current_day, mo moment,
    word word, s spans, ps pair[], tz timetz, t time, many mood[]);

  create function plain(int) returns int immutable language sql as 'select $1';
  create view of_function as select plain(id) as p from items;
  create function hidden(int) returns text stable language sql as 'select body from notes where id = $1';
  create function odd(int) returns int volatile language sql as 'select $1';
  create function rows_of(int) returns setof int immutable language sql as 'select $1';
  create function read_rows() returns setof notes stable language sql as 'select * from notes';
  create function with_default(a int, b timestamptz default now()) returns int immutable language sql as 'select a';
  create function with_number(a int, b numeric default 1.5, c text default 'x') returns int immutable language sql
    as 'select a';
  create function odd_sum(int, int) returns int volatile language sql as 'select $1 + $2';
  create aggregate odd_total(int) (sfunc = odd_sum, stype = int, initcond = 0);
  create aggregate total(int) (sfunc = int4pl, stype = int, initcond = 0);
  create function odd_less(pair, pair) returns bool stable language sql as 'select $1.a < $2.a';
  create operator <<< (leftarg = pair, rightarg = pair, function = odd_less);
  create function same(pair, pair) returns bool immutable language sql as 'select $1.a = $2.a';
  create operator === (leftarg = pair, rightarg = pair, function = same);
  create function to_mood(text) returns mood stable language sql as $$select 'ok'::mood$$;
  create cast (text as mood) with function to_mood(text);
  create function mood_json(mood) returns json stable language sql as $$select '1'::json$$;
  create type shade as enum ('dark', 'light');
  create function shade_json(shade) returns json volatile language sql as $$select '1'::json$$;
  create cast (shade as json) with function shade_json(shade);
  create table shades (s shade);
  create function shades(out s shade, out i int) immutable language sql as $$select 'dark'::shade, 1$$;
  create function owners(out a regrole, out b int) immutable language sql as 'select null::regrole, 1';
  create function populate_record(meeting, text) returns meeting immutable language sql as 'select $1';
  create function populate_others(meeting, text) returns meeting immutable language sql as 'select $1';
  create text search configuration ours (copy = simple);

  create table secrets (id int primary key, owner text, team int);
  create table members (team int, name text);
  alter table secrets enable row level security;
  create policy of_team on secrets to ${app} using (exists (select from members m where m.team = secrets.team));
  create view of_secrets as select id from secrets;
  create policy of_late on secrets as restrictive to ${app} using (team > 0);

  create publication p for table items, of_other_heap, notes, filtered where (id > 0), parted, holed_1, parent, only loose, typed,
    secrets, members, shades, empty_parted;
  create publication deaf for table items with (publish = 'insert, update, delete');
  create publication by_root for table parted, items with (publish_via_partition_root = true);
  create publication everything for all tables;
  create publication schemas for tables in schema public;
  grant usage on schema other to ${app};
  grant select on all tables in schema public, other to ${app};
`;

/** What only newer servers have. */
export const laterOf = (major: number): string =>
  [
    [17, "create view of_path as select json_value(data, '$.time_tz()') as t from notes"],
    [19, "create publication most for all tables except (table unseen, parted)"],
  ]
    .flatMap(([since, text]) => (major >= Number(since) ? [text] : []))
    .join(";") || "select 1";
