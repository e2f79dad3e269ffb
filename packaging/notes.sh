#!/bin/sh
# Prints the notes of a release: its section of CHANGELOG.md, with links that lead into the repository. Fails unless TAG is the version of Cargo.toml, the section has a
# date, and nothing is left under Unreleased.
#
#   usage: notes.sh TAG        for example v0.1.0
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
fail() { echo "notes.sh: $*" >&2; exit 1; }
[ "$1" = "v$version" ] || fail "the tag is $1, and the version in Cargo.toml is $version"
grep -qE "^## $version \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" CHANGELOG.md ||
    fail "CHANGELOG.md has no heading '## $version (YEAR-MONTH-DAY)'"
! sed '1,/^## Unreleased$/d; /^## /,$d' CHANGELOG.md | grep -q '^- ' ||
    fail "CHANGELOG.md still has lines under Unreleased: merge them into $version"
source=$(packaging/address.sh source "$version")
sed "1,/^## $version /d; /^## /,\$d; s,](\([^):]*)\),]($source/\1,g" CHANGELOG.md
