#!/bin/sh
# Builds Citus from the sources of a checkout for the system's PostgreSQL, beside a copy of that PostgreSQL in which it is
# installed: two minutes on two cores. Nothing of the system is changed.
#
#   tests/citus/build.sh <checkout> <folder>
#
# <checkout>: a folder with Citus' sources, or a git directory; CITUS_REVISION says which revision of it. By default that
# is the newest tag that takes PostgreSQL's version. The sources are copied and the checkout stays as it is.
# PG_CONFIG: the PostgreSQL; by default the `pg_config` of PATH. Its server must be installed. Where the headers of the
# server are not, they and a server of the same minor version come from Debian's packages, which are unpacked there and
# not installed.
set -eu
checkout=$(cd "$1" && pwd)
folder=$2
pg_config=${PG_CONFIG:-pg_config}

say() { printf '[citus] %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

command -v "$pg_config" >/dev/null || fail "pg_config is missing: install PostgreSQL with its server"
bin=$("$pg_config" --bindir)
[ -x "$bin/initdb" ] || fail "$bin has no server"
major=$("$pg_config" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
from=$(date +%s)
rm -rf "$folder"
mkdir -p "$folder/src" "$folder/headers" "$folder/root"
folder=$(cd "$folder" && pwd)

# -- sources ----------------------------------------------------------------------------------------------------------

case "$major" in # which series of Citus takes it
  14 | 15) series=12.1 ;;
  16) series=13.2 ;;
  *) series=14 ;;
esac
if [ -x "$checkout/configure" ] && [ -z "${CITUS_REVISION:-}" ]; then
  cp -R "$checkout/." "$folder/src"
else
  git=$checkout
  [ -d "$checkout/.git" ] && git=$checkout/.git
  newest=$(git --git-dir "$git" tag --list "v$series.*" --sort=-v:refname | head -n 1)
  revision=${CITUS_REVISION:-$newest}
  [ -n "$revision" ] || fail "$checkout has no tag v$series.*, which PostgreSQL $major needs: set CITUS_REVISION"
  git --git-dir "$git" archive "$revision" | tar -x -C "$folder/src"
  say "$revision for PostgreSQL $major"
fi

# -- headers ----------------------------------------------------------------------------------------------------------

flags=
server=$("$pg_config" --includedir-server)
if [ ! -f "$server/postgres.h" ]; then
  command -v apt-get >/dev/null || fail "$server/postgres.h is missing: install the headers of PostgreSQL's server"
  # PostgreSQL's own headers, and those of the libraries that it was built with. An inline function of newer headers may
  # call what an older server lacks, so the server is of the same version.
  (cd "$folder/headers" && apt-get download -q "postgresql-server-dev-$major" "postgresql-$major" \
    "postgresql-client-$major" libzstd-dev liblz4-dev libkrb5-dev krb5-multidev >download.log 2>&1) ||
    fail "the headers cannot be had: $(tail -n 1 "$folder/headers/download.log")"
  for package in "$folder"/headers/*.deb; do dpkg -x "$package" "$folder/headers"; done
  for package in "$folder"/headers/postgresql-"$major"_*.deb "$folder"/headers/postgresql-client-*.deb; do
    dpkg -x "$package" "$folder/root"
  done
  include=$folder/headers/usr/include
  flags="-I$include/postgresql/$major/server -I$include/postgresql/internal -I$include -I$include/mit-krb5"
fi

# -- build ------------------------------------------------------------------------------------------------------------

cd "$folder/src"
log=$folder/build.log
# Without what needs more libraries: telemetry, and compression of columnar tables.
PG_CONFIG=$pg_config CPPFLAGS=$flags ./configure --without-libcurl --without-lz4 --without-zstd >"$log" 2>&1 ||
  fail "configure failed: $log"
own="-I$folder/src/src/include -I$folder/src/vendor/safestringlib/include"
make -j"$(nproc)" with_llvm=no CPPFLAGS="$own $flags" extension >>"$log" 2>&1 || fail "make failed: $log"

# -- a PostgreSQL beside it: it finds its folders from where its binaries are -------------------------------------------

for part in --bindir --libdir --pkglibdir --sharedir; do
  path=$("$pg_config" "$part")
  # Debian's libdir is the system's, of which the server needs nothing of its own.
  [ "$part" = --libdir ] && [ "$path" != "$(dirname "$bin")/lib" ] && continue
  [ -d "$folder/root$path" ] && continue
  mkdir -p "$(dirname "$folder/root$path")"
  cp -RL "$path" "$folder/root$path"
done
make with_llvm=no CPPFLAGS="$own $flags" DESTDIR="$folder/root" install-extension >>"$log" 2>&1 ||
  fail "make install failed: $log"
rm -rf "$folder/src" "$folder/headers"
printf '%s\n' "$folder/root$(dirname "$bin")" >"$folder/native"
say "built in $(($(date +%s) - from)) s"
