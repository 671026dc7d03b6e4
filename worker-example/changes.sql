-- What the feed of changes (src/feed.ts) and the cache (src/cached.ts) need besides schema.sql. The rest of the example
-- works without it. The cache also needs cache.sql of pgz-edge (README.md).
--
--   psql "$ADMIN_URL" -1 -v ON_ERROR_STOP=1 -v feed=example_feed -f changes.sql
--
-- The server must run with wal_level = logical; setting it takes a restart. Only a superuser, or from PostgreSQL 16 on
-- a role that has CREATEROLE and REPLICATION itself, may create a role with REPLICATION. Managed servers have their own
-- ways to do both: see their documentation.

-- Reads the server's log. REPLICATION is a powerful privilege: its holder could copy the whole server, so nothing but
-- the two objects uses this login.
create role :"feed" login replication;

-- Each change includes the whole old row, so that a deleted or moved row is sent to its own tenant only. This puts the
-- old row into the server's log. Policies do not apply to a publication: the feed itself keeps tenants apart.
alter table orders replica identity full;

create publication orders_feed for table orders;

-- Not the feed's publication: that one may get a `where`, and then no answer is stored. This one has no list of columns
-- either, because it would have to include the whole old row.
create publication orders_cache for table orders;
