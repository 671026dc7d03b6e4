// Statements over schema.ts, with what must be learned of them. Written from what each can read, never copied from the
// module's answers.

/** A statement with a reason, the reason, and a close statement that has none. */
export interface Reason {
  readonly sql: string;
  readonly reason: RegExp;
  readonly without: string;
  readonly publication?: string;
  readonly since?: number;
}

const reason = (sql: string, reason: RegExp, without: string, more: Partial<Reason> = {}): Reason => ({
  sql,
  reason,
  without,
  ...more,
});

export const REASONS: readonly Reason[] = [
  // The clock
  reason("select now()", /^now\(\) is stable/, "select timestamptz '2020-01-01 00:00Z'"),
  reason(
    "select id from items where at > now() - interval '1 day'",
    /^now\(\)/,
    "select id from items where at > '2020-01-01 00:00Z'",
  ),
  reason("select current_date", /asks for the time/, "select date '2020-01-01'"),
  reason("select localtimestamp(2), current_time", /asks for the time/, "select timestamp '2020-01-01'"),
  reason("select clock_timestamp()", /^clock_timestamp\(\) is volatile/, "select to_timestamp(0)"),
  reason("select statement_timestamp()", /^statement_timestamp/, "select make_timestamptz(2020, 1, 1, 0, 0, 0)"),
  reason("select age(at) from items", /^age\(timestamp with time zone\) is stable/, "select age(at, at) from items"),
  reason("select age(day::timestamp) from items", /^age\(timestamp/, "select age(day, day) from items"),
  reason("select id from of_today", /^now\(\)/, "select id from of_then"),
  reason("select tz from typed where t::timetz = tz", /^timetz\(time/, "select tz from typed where tz::time = t"),
  reason(
    "select tz from typed where tz > '12:00'",
    /offset that its zone has today/,
    "select t from typed where t > '12:00'",
  ),
  reason("select tz from typed where tz > $1", /parameter of time with time zone/, "select t from typed where t > $1"),

  // Words for the present. The tree has them evaluated.
  reason(
    "select id from items where day = 'today'",
    /may be "now" or "today"/,
    "select id from items where name = 'today'",
  ),
  reason("select id from items where at > 'NOW'", /may be "now"/, "select id from items where at > 'epoch'"),
  reason("select date 'tomorrow'", /may be "now"/, "select 'tomorrow'"),
  reason(
    "select id from items where day = any ('{yesterday}')",
    /date\[\]/,
    "select id from items where name = any ('{yesterday}')",
  ),
  reason(
    "select id from items where day = 'to'\n'day'",
    /may be "now"/,
    "select id from items where day = '2020'\n'-01-01'",
  ),
  reason(
    "select id from items where day = e'to\\x64ay'",
    /may be "now"/,
    "select id from items where day = e'2020-01-01'",
  ),
  reason(
    "select id from items where day = u&'toda\\0079'",
    /may be "now"/,
    "select id from items where day = $$2020-01-01$$",
  ),
  reason("select id from items where day = $$today$$", /may be "now"/, "select 'today', id from items where day = $1"),
  reason("select row('now', 'x')::meeting", /may be "now"/, "select row('1', 'now')::pair"),
  reason("select '(now,x)'::meeting", /constant of meeting/, "select '(1,now)'::pair"),
  reason("select mo from typed where mo > 'now'", /may be "now"/, "select word from typed where word <> 'now'"),
  reason("select tstzrange('now', null)", /may be "now"/, "select spans('now', null)"),
  reason("select '[now,)'::meetings", /constant of meetings/, "select '[now,now]'::spans"),

  // Texts that become times while the statement runs
  reason("select name::date from items", /text becomes date/, "select day::text from items"),
  reason("select tags::date[] from items", /becomes date/, "select tags::int[] from items"),
  reason("select id from of_words", /text becomes date/, "select id from of_then"),
  reason(
    "select ('n' || name)::timestamptz from items",
    /becomes timestamp with time zone/,
    "select ('1' || name)::interval from items",
  ),
  reason("select name::meeting from items", /becomes meeting/, "select name::pair from items"),
  reason(
    "select * from notes, jsonb_to_recordset(data) as r (d date)",
    /becomes date/,
    "select * from notes, jsonb_to_recordset(data) as r (d text)",
  ),
  reason(
    "select jsonb_populate_record(null::meeting, data) from notes",
    /becomes meeting/,
    "select jsonb_populate_record(null::pair, data) from notes",
  ),
  reason(
    "select json_populate_record(w, data::json) from notes, typed",
    /becomes meeting/,
    "select json_populate_record(p, data::json) from notes, typed",
  ),
  reason(
    "select * from xmltable('/a' passing xml '<a/>' columns d date)",
    /becomes date/,
    "select * from xmltable('/a' passing xml '<a/>' columns d int, n for ordinality)",
  ),
  reason(
    "select json_value(data, '$.d' returning date) from notes",
    /becomes date/,
    "select json_value(data, '$.d' returning int) from notes",
    { since: 17 },
  ),
  reason(
    "select j.d from notes, json_table(data, '$[*]' columns (d timestamp path '$')) as j",
    /becomes timestamp/,
    "select j.d from notes, json_table(data, '$[*]' columns (d int path '$', nested '$.x' columns (e text path '$'))) as j",
    { since: 17 },
  ),

  // Paths in JSON, whose times take the offset that the zone has today
  reason(
    "select jsonb_path_query_tz(data, '$.t.datetime()') from notes",
    /^jsonb_path_query_tz/,
    "select jsonb_path_query(data, '$.t') from notes",
  ),
  reason(
    "select json_value(data, '$.t.time_tz()') from notes",
    /the path of JSON_VALUE/,
    "select json_value(data, '$.t') from notes",
    { since: 17 },
  ),
  reason(
    "select json_exists(data, '$.t ? (@.datetime() < \"12:00:00+00\".datetime())') from notes",
    /the path of JSON_VALUE/,
    "select json_exists(data, '$.t ? (@ < 12)') from notes",
    { since: 17 },
  ),
  reason("select t from of_path", /the path of JSON_VALUE/, "select id from items", { since: 17 }),

  // Functions
  reason("select to_json(shades())", /^shade_json\(shade\) is volatile/, "select to_json(plain(1))"),
  reason("select owners()", /names from the system catalog/, "select plain(1)"),
  reason(
    "select populate_record(null::meeting, 'a')",
    /makes values from texts/,
    "select populate_others(null::meeting, 'a')",
  ),
  reason("select random()", /^random\(\) is volatile/, "select abs(-1)"),
  reason("select id from items order by random()", /^random/, "select id from items order by abs(id)"),
  reason("select gen_random_uuid()", /^gen_random_uuid/, "select '00000000-0000-0000-0000-000000000000'::uuid"),
  reason("select hidden(1)", /^hidden\(integer\) is stable/, "select plain(1)"),
  reason("select odd(id) from items", /^odd\(integer\) is volatile/, "select plain(id) from items"),
  reason("select * from read_rows()", /^read_rows\(\) is stable/, "select * from rows_of(2)"),
  reason(
    "select id from items where id in (select odd(id) from notes)",
    /^odd/,
    "select id from items where id in (select plain(id) from notes)",
  ),
  reason("select with_default(1)", /now\(\) is stable/, "select with_number(1)"),
  reason("select odd_total(id) from items", /^odd_sum/, "select total(id) from items"),
  reason("select odd_total(id) over () from items", /^odd_sum/, "select total(id) over (order by id) from items"),
  reason("select p <<< p from typed", /^odd_less\(pair,pair\) is stable/, "select p === p from typed"),
  reason("select p <<< any (ps) from typed", /^odd_less/, "select p === any (ps) from typed"),
  reason("select name::mood from items", /^to_mood/, "select m::text from typed"),
  reason("select to_json(s) from shades", /^shade_json\(shade\) is volatile/, "select to_json(p) from typed"),
  reason("select has_table_privilege('items', 'select')", /^has_table_privilege/, "select to_char(1, '9')"),
  reason("select pg_get_viewdef('cheap'::regclass)", /^pg_get_viewdef/, "select concat('cheap', 1)"),
  reason("select format_type(23, -1)", /^format_type/, "select format('%s', 23)"),
  reason("select obj_description(1, 'pg_class')", /^obj_description/, "select date_trunc('day', at) from items"),
  reason("select to_regclass('items') is null", /^to_regclass/, "select to_number('1', '9') is null"),
  reason("select pg_current_snapshot()::text", /^pg_current_snapshot/, "select json_build_object('a', at) from items"),
  reason("select pg_relation_size('items')", /^pg_relation_size/, "select length(body) from notes"),
  reason("select nextval('counter')", /^nextval/, "select generate_series(1, 2)"),
  reason("select pg_backend_pid()", /^pg_backend_pid/, "select current_database()"),
  reason("select inet_client_addr() is null", /^inet_client_addr/, "select array_to_string(tags, ',') from items"),
  reason(
    "select query_to_xml('select 1', true, true, '')",
    /^query_to_xml/,
    "select xmlelement(name a, xmlattributes(name as b), at) from items",
  ),
  reason("select version()", /^version/, "select row_to_json(i) from items i"),

  // Types whose values are names from the catalog, domains
  reason("select 'items'::regclass", /values of regclass/, "select 'items'"),
  reason("select r from typed", /values of reference/, "select p from typed"),
  reason("select typed from typed", /values of typed are names/, "select items from items"),
  reason("select pg_typeof(1)", /regtype/, "select pg_catalog.int4(1)"),
  reason("select 1::doubtful", /^moody\(integer\) is volatile/, "select 1::positive"),
  reason("select id::doubtful from items", /^moody/, "select id::positive, name::word from items"),
  reason("select day::current_day from items", /asks for the time/, "select at::moment from items"),
  reason("select d from typed", /^moody/, "select pos, word, m, many, s from typed"),
  reason(
    "select to_tsvector('english', body) @@ 'a'::tsquery, 'english'::regconfig from notes",
    /values of regconfig/,
    "select to_tsvector('ours', body) @@ to_tsquery('english', 'a') from notes",
  ),

  // Relations
  reason("select last_value from counter", /public.counter is a sequence/, "select max(id) from items"),
  reason("select id from kept", /public.kept is a materialized view/, "select id from cheap"),
  reason("select id from of_kept", /public.kept is a materialized view/, "select id from cheaper"),
  reason("select id from remote", /public.remote is a foreign table/, "select id from items"),
  reason("select id from scratch", /public.scratch is unlogged/, "select id from items"),
  reason("select id from of_other_heap", /public.of_other_heap has an access method/, "select id from items"),
  reason("select k from holed", /public.holed_2, a child of public.holed, is a foreign table/, "select k from holed_1"),
  reason(
    "select id from loose",
    /public.loose_child, a child of public.loose, is not in the publication/,
    "select id from only loose",
  ),
  reason("select relname from pg_class", /pg_catalog.pg_class is part of the system catalog/, "select name from items"),
  reason(
    "select table_name::text from information_schema.tables",
    /part of the system catalog/,
    "select name from items",
  ),
  reason("select ctid from items", /a system column/, "select id from items"),
  reason("select id from items where xmin = '3'", /a system column/, "select id from items where id = 3"),
  reason(
    "select i.tableoid from items i join notes n on n.item = i.id",
    /a system column/,
    "select i from items i join notes n on n.item = i.id",
  ),
  reason("select id from items tablesample bernoulli (10)", /TABLESAMPLE/, "select id from items limit 10"),
  reason(
    "select id from items tablesample system (10) repeatable (1)",
    /TABLESAMPLE/,
    "select id from items fetch first 10 rows only",
  ),

  // Publications
  reason("select id from unseen", /public.unseen is not in the publication "p"/, "select id from items"),
  reason("select id from filtered", /public.filtered has a row filter/, "select id from items"),
  reason("select id from items", /there is no publication "none"/, "select 1", { publication: "none" }),
  reason("select id from cheap", /publication "deaf" does not publish truncate/, "select 1", { publication: "deaf" }),
  reason("select k from parted", /publish_via_partition_root/, "values (1)", { publication: "by_root" }),
  reason("select id from scratch", /unlogged/, "select id from unseen", { publication: "everything" }),
  reason("select id from other.outside", /other.outside is not in/, "select id from unseen", {
    publication: "schemas",
  }),
  reason("select id from unseen", /public.unseen is not in/, "select id from items", {
    publication: "most",
    since: 19,
  }),
  reason("select k from parted", /public.parted_1, a child of public.parted, is not in/, "select k from holed_1", {
    publication: "most",
    since: 19,
  }),
];

/** Statements that read more than they show, and have no reason. */
export const WITHOUT: readonly string[] = [
  "select id, count(*) from items group by grouping sets ((id), ()) having count(*) > 0",
  "select grouping(name), name, sum(price) from items group by rollup (name)",
  "select sum(price) over (partition by name order by at range between interval '1 day' preceding and current row) from items",
  "select greatest(id, 1), least(at, '2020-01-01'), coalesce(name, ''), nullif(id, 1), name is distinct from 'a', case id when 1 then 2 end from items",
  "select (id, name) < (1, 'a'), id in (1, 2), id = any ($1), tags[1], tags[1:2], array[id], row(id) from items",
  "select json_agg(i), jsonb_object_agg(id, at), string_agg(name, ',' order by id), array_agg(distinct id) from items i",
  "select percentile_cont(0.5) within group (order by id), mode() within group (order by name) from items",
  "select * from rows from (generate_series(1, 2), unnest(array['a'])) with ordinality",
  "select date_trunc('day', at), to_char(at, 'YYYY'), extract(year from at), at at time zone 'UTC', at::date, day + 1 from items",
  "select at + interval '1 day', at > day, generate_series(at, at, '1 day'), (at, at) overlaps (at, interval '1 day') from items",
  "select body collate \"C\", body like 'a%', body ~ 'x', body is normalized, overlay(body placing 'x' from 1) from notes",
  "select to_tsvector(body), doc @@ plainto_tsquery($1), ts_headline(body, to_tsquery('a')) from notes",
  "select data['a'], data -> 'a', data @? '$.a', jsonb_path_query(data, '$.a'), data::text, data || '{}' from notes",
  "select m > 'sad', m, m::text as t, many, enum_range(m) from typed group by m, many order by m, many",
  "select distinct ps, p, s from typed order by ps, p, s",
  "select xmlforest(name, at), xmlconcat('<a/>'::xml), xmlparse(content name) from items",
  "table items",
  "values (1, 'a'), (2, 'b') order by 1 limit 1",
  "(select id from items) union (select id from notes) intersect all select k from parted except select 1",
  "with recursive t (n) as (select 1 union select n + 1 from t where n < 3) search depth first by n set o cycle n set c using p select n, c from t",
  "select from items",
  "select 1; ",
  "select id from items -- a comment at the end",
];
export const JSON_WITHOUT: readonly string[] = [
  "select json_object('a': id), json_array(id, name), json_objectagg('a': id), json_arrayagg(id order by id), name is json from items group by id, name",
  "select json_array(select id from notes) from items",
];

/** A statement, and the relations that it reads, by their names. */
export const RELATIONS: readonly (readonly [sql: string, relations: string])[] = [
  ["select 1", ""],
  ["select id from items", "items"],
  ["select id from cheap", "cheap items"],
  ["select id from cheaper", "cheap cheaper items notes"],
  ["select id from barred", "barred notes"],
  ["select p from of_function", "items of_function"],
  ["select * from of_parts", "of_parts parent parted"],
  ["select k from parted", "parted"],
  ["select k from parted_2", "parted_2"],
  ["select k from parted_2a", "parted_2a"],
  ["select k from empty_parted", "empty_parted"],
  ["select id from parent", "parent"],
  ["select id from only parent", "parent"],
  ["select id from child", "child"],
  ["select id from grandchild", "grandchild"],
  ["select (select max(id) from notes) from items", "items notes"],
  ["select id from items where exists (select from notes where item = items.id)", "items notes"],
  ["select id from items where id = any (select item from notes)", "items notes"],
  ["select array(select id from notes)", "notes"],
  ["select id from items order by (select count(*) from notes)", "items notes"],
  ["select count(*) from items having (select true from notes limit 1)", "items notes"],
  ["select id from items limit (select 1 from notes)", "items notes"],
  ["with n as (select item from notes) select id from items join n on n.item = items.id", "items notes"],
  ["with n as (select item from notes) select 1", "notes"],
  ["with n as materialized (select * from cheap) select 1 from n, n as m", "cheap items"],
  [
    "with recursive t (id) as (select id from items union select n.item from notes n join t on t.id = n.id) select id from t",
    "items notes",
  ],
  [
    "select i.id, n.body from items i left join lateral (select body from notes where item = i.id limit 1) n on true",
    "items notes",
  ],
  ["select id from items union all select id from notes", "items notes"],
  ["select id from items except (select id from notes intersect select k from parted)", "items notes parted"],
  ["select f from generate_series(1, (select max(id)::int from notes)) f", "notes"],
  ["select coalesce((select sum(id) from notes where item = i.id), 0) from items i", "items notes"],
  ["select count(*) filter (where exists (select from notes)) from items", "items notes"],
  ["select id from items where false and id in (select id from notes)", "items notes"],
  ["values ((select max(id) from items))", "items"],
  [
    "select id from items i where (select count(*) from (select 1 from notes n where n.item = i.id) s) > 1",
    "items notes",
  ],
  ["select 1 from items natural join (select id from notes) n", "items notes"],
  ["select id from secrets", "secrets"],
  ["select id from of_secrets", "of_secrets secrets"],
];

/** A statement, and whether its answer depends on who asks, for a superuser. */
export const PERSONAL: readonly (readonly [sql: string, isPersonal: boolean])[] = [
  ["select id from items", false],
  ["select current_user", true],
  ["select id from items where name = session_user", true],
  ["select user, current_role, current_schema", true],
  ["select current_catalog", false],
  ["select current_schemas(true)", true],
  ["select current_setting('app.tenant')", true],
  ["select current_setting('app.tenant', true)", true],
  ["select id from cheap where name = current_setting('app.tenant')", true],
  ["select set_config('app.tenant', 'x', true)", false],
  ["select id from secrets", true],
  ["select id from of_secrets", true],
  ["select id from items where id in (select id from secrets)", true],
];

/** Statements that are refused. */
export const REFUSED: readonly string[] = [
  "insert into items values (1, 'a') returning id",
  "insert into items values (1, 'a')",
  "update items set name = 'a' where id = 1 returning id, name",
  "delete from items",
  "merge into items i using notes n on n.item = i.id when matched then do nothing",
  "with w as (insert into items values (1, 'a') returning id) select id from w",
  "with w as (delete from notes) select 1 as one",
  "select id from items for update",
  "select id from items for share",
  "select id from items for key share of items skip locked",
  "select id from (select id from items for no key update) s",
  "with w as (select id from items for update) select id from w",
  "select id into copied from items",
  "create table copied as select id from items",
  "explain select 1",
  "show search_path",
  "set search_path = public",
  "begin",
  "prepare p as select 1",
  "declare c cursor for select id from items",
  "lock table items",
  "-- nothing but a comment",
  " ; ",
  "select 1; select 2",
  "select 1; delete from items",
  "copy items to stdout",
  "",
];
