#!/bin/sh
# Builds the site of the documentation from docs/ with mdBook (`cargo install mdbook --locked`). A link to a file outside of
# docs/ leads to that file in the repository, as it is in the release.
#
#   usage: site.sh DIRECTORY
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
source=$(packaging/address.sh source "$version")
output=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packaging/pages.sh "$work"
cp book.toml "$work/"
sed -i "s,](\.\./,]($source/,g" "$work"/docs/*.md
sed -i "s,](\.\./\.\./,]($source/,g" "$work"/docs/*/*.md
# mdBook calls the page of a README index.html, and does not change links to it outside of the table of contents.
mv "$work/docs/README.md" "$work/docs/index.md"
mv "$work/docs/runbooks/README.md" "$work/docs/runbooks/index.md"
find "$work/docs" -name '*.md' -exec sed -i 's,](\(runbooks/\)\?README\.md,](\1index.md,g' {} +
mdbook build --dest-dir "$output" "$work"
# The same for llms.txt, which is in the root of the site.
sed -e "/](docs\//!s,](,]($source/,g" -e 's,](docs/\(runbooks/\)\?README\.md),](\1index.html),g' \
    -e 's,](docs/\([^)]*\)\.md),](\1.html),g' llms.txt >"$output/llms.txt"
