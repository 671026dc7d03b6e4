#!/bin/sh
# Runs once in the container, before the first real start. Sets up certificates, TLS, and one authentication method per
# test role.
set -eu
sh /pgz-edge/make-certificates.sh "$PGDATA"
cp /pgz-edge/pg_hba.conf "$PGDATA/pg_hba.conf"
printf "ssl = on\nssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'\n" >>"$PGDATA/postgresql.conf"
