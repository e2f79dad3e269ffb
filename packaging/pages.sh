#!/bin/sh
# Copies the pages, the licences and deploy/ into a directory, as every package has them: with the address of the project.
#
#   usage: pages.sh DIRECTORY
set -eu
umask 022
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
address=$(packaging/address.sh)
source=$(packaging/address.sh source "$version")
download=$(packaging/address.sh download "$version")
mkdir -p "$1"
cp -R README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md llms.txt LICENSE crates/go-yaml/LICENSE-libyaml-safer docs skills deploy "$1/"
chmod -R u+rw,go-w,a+rX "$1"
# The alerts, and their tests, link to the runbooks of this release.
find "$1" -type f \( -name '*.md' -o -name '*.yaml' \) -exec sed -i \
    -e "s,runbook_url: docs/,runbook_url: $source/docs/," \
    -e "s,https://HOST/OWNER/NAME/releases/download/v$version,$download,g" -e "s,https://HOST/OWNER/NAME,$address,g" {} +
