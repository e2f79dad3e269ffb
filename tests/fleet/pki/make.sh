#!/bin/sh
# Creates the certificates of the scripted servers again. The results are committed, so the tests do not run this script.
# The keys are used only in these tests.
set -eu
cd "$(dirname "$0")"
# authority NAME SUBJECT
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj "/CN=$2" -keyout "$1.key" -out "$1.crt" \
        -addext basicConstraints=critical,CA:TRUE 2>/dev/null
}
# certificate NAME AUTHORITY SUBJECT EXTENSIONS [DATES...]
certificate() {
    name=$1 authority=$2 subject=$3 extensions=$4
    shift 4
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$subject" -keyout "$name.key" -out request 2>/dev/null
    printf '%s\n' "$extensions" >extensions
    openssl x509 -req -in request -CA "$authority.crt" -CAkey "$authority.key" -CAcreateserial -extfile extensions "$@" -out "$name.crt" 2>/dev/null
    rm -f request extensions ./*.srl
}
authority authority 'plegctl test authority'
authority stranger 'somebody else'
certificate server authority /CN=n1 'subjectAltName=DNS:localhost,DNS:n1,IP:127.0.0.1' -days 36500
certificate other-name authority /CN=n2 'subjectAltName=DNS:n2.example' -days 36500
certificate client authority '/O=system:masters/CN=somebody' 'extendedKeyUsage=clientAuth' -days 36500
# A negative number of days gives a certificate that has already expired.
certificate expired authority /CN=n1 'subjectAltName=IP:127.0.0.1' -days -1 || true
# A certificate that is its own authority, as a user creates by hand for a single server.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj /CN=n1 -keyout own-authority.key -out own-authority.crt \
    -addext basicConstraints=critical,CA:TRUE -addext 'subjectAltName=DNS:localhost,DNS:n1,IP:127.0.0.1' 2>/dev/null
rm -f authority.key stranger.key
