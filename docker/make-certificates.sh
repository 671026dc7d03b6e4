#!/bin/sh
# make-certificates.sh <folder> makes:
#   ca.crt, ca.key                 a test CA
#   server.crt, server.key         for localhost, 127.0.0.1, ::1 and the compose service's name
#   elsewhere.crt, elsewhere.key   for another host: a client must refuse it
# Used in the container (init/00-tls.sh) and by the tests' own servers (tests/servers/certificates.mjs).
# The server's certificate is not a CA, because Deno's TLS refuses a CA certificate as a leaf.
set -eu
cd "$1"

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

new_key ca
openssl req -x509 -new -key ca.key -sha256 -days 3650 -subj "/CN=pgz-edge test CA" -addext keyUsage=critical,keyCertSign,cRLSign -out ca.crt

certificate() { # certificate <name> <subjectAltName>
  new_key "$1"
  printf 'subjectAltName=%s\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n' "$2" >"$1.ext"
  openssl req -new -key "$1.key" -subj "/CN=pgz-edge test $1" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -sha256 -days 3650 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
  rm "$1.csr" "$1.ext"
}
certificate server DNS:localhost,DNS:postgres,IP:127.0.0.1,IP:::1
certificate elsewhere DNS:elsewhere.invalid
chmod 600 ./*.key
