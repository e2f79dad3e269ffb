#!/bin/sh
# Everything that is published, in one go: tarball, Debian package, RPM, image, SBOM, and the checksums of all of them.
# Made so that one commit gives the same bytes on any machine with the same Rust, tar, gzip, xz and CA bundle.
#
#   usage: release.sh [--binary FILE] [DIRECTORY]       default: dist
#   --binary FILE   pack this binary instead of building one
set -eu
umask 022
cd "$(dirname "$0")/.."
top=$PWD
host=$(rustc -vV | sed -n 's/^host: //p')
binary=
if [ "${1:-}" = --binary ]; then
    binary=$(realpath "$2")
    shift 2
fi
out=$(realpath -m "${1:-dist}")

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC

if [ -z "$binary" ]; then
    # Where the sources and the registry lie is no part of the program.
    RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs --remap-path-prefix=$top=/plegctl --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
        cargo build --release --locked --target "$host"
    binary=${CARGO_TARGET_DIR:-$top/target}/$host/release/plegctl
fi

rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packaging/stage.sh "$binary" "$work/staged"

name=plegctl-$version-$host
mkdir -p "$work/$name/completions"
install -m 755 "$binary" "$work/$name/plegctl"
install -m 644 README.md CHANGELOG.md LICENSE "$work/$name/"
install -m 644 completions/* "$work/$name/completions/"
"$binary" man "$work/$name/man"
cp -R deploy "$work/$name/deploy"
tar --create --directory "$work" --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --sort=name \
    --mode=go-w "$name" | gzip -9n >"$out/$name.tar.gz"

packaging/deb.sh "$work/staged" "$version" "$out/plegctl_${version}_$(dpkg --print-architecture).deb"

if command -v rpmbuild >/dev/null; then
    rpmbuild -bb --quiet --define "_topdir $work/rpm" --define "version $version" --define "staged $work/staged" \
        --define "_build_id_links none" --define "use_source_date_epoch_as_buildtime 1" \
        --define "_buildhost plegctl" --define "clamp_mtime_to_source_date_epoch 1" packaging/plegctl.spec
    mv "$work"/rpm/RPMS/*/*.rpm "$out/"
else
    echo "release.sh: no rpmbuild here (Debian: rpm): no RPM" >&2
fi

packaging/image.sh "$binary" "$version" "$out/plegctl-$version-oci.tar"
cargo metadata --locked --format-version 1 --filter-platform "$host" |
    cargo run --quiet --locked --example sbom >"$out/plegctl-$version.cdx.json"

(cd "$out" && sha256sum -- * >SHA256SUMS)
cat "$out/SHA256SUMS"
