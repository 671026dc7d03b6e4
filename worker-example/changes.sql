-- What the feed of changes (src/feed.ts) needs besides schema.sql. The rest of the example works without it.
--
--   psql "$ADMIN_URL" -1 -v ON_ERROR_STOP=1 -v feed=example_feed -f changes.sql
--
-- The server must run with wal_level = logical, which takes a restart. Only a superuser, or from PostgreSQL 16 on a
-- role that has CREATEROLE and REPLICATION itself, may make a role with REPLICATION. Managed servers have words of
-- their own for both: read theirs.

-- Reads the server's log. REPLICATION is much: who has it could copy the whole server, so nothing else uses this login.
create role :"feed" login replication;

-- Whose row it was is told with each change, so that a deleted or moved row is told to its tenant alone. The old row is
-- in the server's log then. Policies do not hold for a publication: the feed itself keeps tenants apart.
alter table orders replica identity full;

create publication orders_feed for table orders;
