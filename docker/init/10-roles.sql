-- The roles of the tests, the demo and the benchmarks, one per authentication method of ../pg_hba.conf. Runs once as
-- superuser in the database "app": in the container at its first start, and in every throw-away server of
-- tests/servers/.
create role app login password 'app-secret';
alter database app owner to app;

create role app_clear login password 'app_clear-secret';
create role app_trust login;
-- Its line in pg_hba.conf is md5, so the form of its password determines the method: SCRAM at first, MD5 when a test
-- changes the password.
create role app_turns login password 'app_turns-secret';

set password_encryption = 'md5';
create role app_md5 login password 'app_md5-secret';
reset password_encryption;

-- May read everything and write nothing.
create role demo_reader login password 'demo_reader-secret';
alter role demo_reader set default_transaction_read_only = on;
grant pg_read_all_data to demo_reader;
