-- The tables of the example, the grants on them, and the policy that keeps tenants apart. Run this file once, as the
-- owner of a database of your own:
--
--   psql "$ADMIN_URL" -1 -v ON_ERROR_STOP=1 -v reader=example_reader -v app=example_app -v object=example_object \
--     -f schema.sql
--
-- Then give each login a password: \password example_reader, and so on. `make demo` runs this file too.
--
-- There are three logins, because a session can see and end other sessions of its own role: SQL typed into the SQL box
-- must not reach the others. The sum of their limits is below the 97 connections that a server with default settings
-- has for such roles.

-- Runs the SQL typed into the SQL box, and /users. It may read `users`, and no tenant's rows. All requests share it
-- through Hyperdrive, which opens 20 connections (README.md), and now and then briefly a few more.
create role :"reader" login connection limit 25;
-- A second line of defence, after the Worker's read-only transaction and its timeout.
alter role :"reader" set default_transaction_read_only = on;
alter role :"reader" set statement_timeout = '90s';

-- Runs the routes below /api and /health. It owns nothing, because policies do not apply to a table's owner. All
-- requests of all tenants share it through Hyperdrive, with 20 connections as above.
create role :"app" login connection limit 25;
alter role :"app" set statement_timeout = '90s';

-- The role of what connects to the server itself, without Hyperdrive. The Durable Objects share it: one connection for
-- each tenant that has listening clients, so 35 tenants at a time, and five for the pool of /user. Five more are for
-- /api/summary, which reads them when the cache in front of it has no answer.
create role :"object" login connection limit 45;
alter role :"object" set default_transaction_read_only = on;
alter role :"object" set statement_timeout = '90s';

-- By default every role that may connect may create temporary tables. Only the import needs one.
revoke temporary on database :"DBNAME" from public;
grant temporary on database :"DBNAME" to :"app";

-- The README's table.
create table users (id int4 primary key, name text not null, meta jsonb not null);
grant select on users to :"reader", :"object";

create table orders (
  id        int8 generated always as identity primary key,
  -- A row belongs to the tenant that creates it. Without a tenant there is no default, and so no row.
  tenant    text not null default current_setting('app.tenant') constraint orders_tenant check (tenant <> ''),
  reference text not null constraint orders_reference check (reference ~ '^[A-Z0-9][A-Z0-9-]{0,39}$'),
  customer  text not null constraint orders_customer check (length(customer) between 1 and 200),
  status    text not null default 'open' constraint orders_status check (status in ('open', 'paid', 'shipped')),
  total     numeric(12, 2) not null constraint orders_total check (total >= 0),
  placed    timestamptz not null default now(),
  constraint orders_reference_taken unique (tenant, reference)
);
create index orders_page on orders (tenant, id); -- one range of this index has a page of a tenant's rows

-- A query sees only the rows of app.tenant, which a scope sets before each call. Rows that it writes must have this
-- tenant too (a policy's USING is also its WITH CHECK). Without the setting the result is an error or no row, never all
-- rows. Any other role has no policy, and so sees nothing.
alter table orders enable row level security;
create policy orders_of_tenant on orders to :"app", :"object" using (tenant = current_setting('app.tenant'));

-- Without `id` and `tenant`: no request can set them, whatever the Worker does.
grant select, delete, insert (reference, customer, status, total, placed), update (reference, customer, status, total)
  on orders to :"app";
grant select on orders to :"object";

-- Each statement that changes rows notifies the tenant's channel when it commits: one notification, even for an import
-- of a hundred thousand rows.
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
