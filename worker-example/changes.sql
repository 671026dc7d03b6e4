-- What the feed of changes (src/feed.ts) needs besides schema.sql. The rest of the example works without it.
--
--   psql "$ADMIN_URL" -1 -v ON_ERROR_STOP=1 -v feed=example_feed -f changes.sql
--
-- The server must run with wal_level = logical; setting it takes a restart. Only a superuser, or from PostgreSQL 16 on
-- a role that has CREATEROLE and REPLICATION itself, may create a role with REPLICATION. Managed servers have their own
-- ways to do both: see their documentation.

-- Reads the server's log. REPLICATION is a powerful privilege: its holder could copy the whole server, so nothing else
-- uses this login.
create role :"feed" login replication;

-- Each change includes the whole old row, so that a deleted or moved row is sent to its own tenant only. This puts the
-- old row into the server's log. Policies do not apply to a publication: the feed itself keeps tenants apart.
alter table orders replica identity full;

create publication orders_feed for table orders;
