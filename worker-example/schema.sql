-- The tables of the example, who may do what with them, and what keeps tenants apart. Run it once, as the owner of a
-- database of your own:
--
--   psql "$ADMIN_URL" -1 -v ON_ERROR_STOP=1 -v reader=example_reader -v app=example_app -v object=example_object \
--     -f schema.sql
--
-- Then give each login a password: \password example_reader, and so on. `make demo` runs this file too.
--
-- Three logins, because a session may see and end those of its own role: what people type into the SQL box must not
-- reach the others. Their limits together are below the 97 that a server of default settings has for such roles.

-- Runs what people type into the SQL box, and /users. It may read `users`, and no tenant's rows. All requests share it
-- by Hyperdrive, which opens 20 connections (README.md), and now and then some more for a moment.
create role :"reader" login connection limit 25;
-- A second line of defence, behind the Worker's read-only transaction and its timeout.
alter role :"reader" set default_transaction_read_only = on;
alter role :"reader" set statement_timeout = '90s';

-- Runs the routes below /api and /health. It owns nothing, because policies do not hold for a table's owner. All
-- requests of all tenants share it by Hyperdrive, with 20 connections as above.
create role :"app" login connection limit 25;
alter role :"app" set statement_timeout = '90s';

-- Is the Durable Objects' own. They share it: one connection for each tenant that somebody hears, which makes 35
-- tenants at a time, and five of the pool behind /user.
create role :"object" login connection limit 40;
alter role :"object" set default_transaction_read_only = on;
alter role :"object" set statement_timeout = '90s';

-- Who may connect may make temporary tables, unless that is taken away. The import makes one.
revoke temporary on database :"DBNAME" from public;
grant temporary on database :"DBNAME" to :"app";

-- The README's table.
create table users (id int4 primary key, name text not null, meta jsonb not null);
grant select on users to :"reader", :"object";

create table orders (
  id        int8 generated always as identity primary key,
  -- A row belongs to who makes it. Without a tenant there is no default, and no row.
  tenant    text not null default current_setting('app.tenant') constraint orders_tenant check (tenant <> ''),
  reference text not null constraint orders_reference check (reference ~ '^[A-Z0-9][A-Z0-9-]{0,39}$'),
  customer  text not null constraint orders_customer check (length(customer) between 1 and 200),
  status    text not null default 'open' constraint orders_status check (status in ('open', 'paid', 'shipped')),
  total     numeric(12, 2) not null constraint orders_total check (total >= 0),
  placed    timestamptz not null default now(),
  constraint orders_reference_taken unique (tenant, reference)
);
create index orders_page on orders (tenant, id); -- a page of a tenant's rows is one look into this index

-- A query sees the rows of app.tenant, which a scope sets in front of each call; and what it writes must be one of them
-- (a policy's USING is its WITH CHECK too). Without the setting there is an error or no row, never all rows. Any other
-- role has no policy, and so sees nothing.
alter table orders enable row level security;
create policy orders_of_tenant on orders to :"app" using (tenant = current_setting('app.tenant'));

-- Not `id` and not `tenant`: no request can name them, whatever the Worker does.
grant select, delete, insert (reference, customer, status, total, placed), update (reference, customer, status, total)
  on orders to :"app";

-- Each statement that changes rows tells the tenant's channel, when it commits: one notification, also for an import of
-- a hundred thousand rows.
create function orders_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('orders_' || tenant, json_build_object('change', lower(tg_op), 'rows', count(*), 'id', min(id))::text)
  from changed group by tenant;
  return null;
end $$;
create trigger orders_inserted after insert on orders
  referencing new table as changed for each statement execute function orders_changed();
create trigger orders_updated after update on orders
  referencing new table as changed for each statement execute function orders_changed();
create trigger orders_deleted after delete on orders
  referencing old table as changed for each statement execute function orders_changed();
