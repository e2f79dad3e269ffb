#!/bin/sh
# Builds everything that is published: tarball, Debian package, RPM, image, SBOM, Helm chart, manifest for krew, formula for
# Homebrew, Nix flake, PKGBUILD, a statement of provenance, and the checksums of all of them. The files contain the address of
# the project, which is `repository` in Cargo.toml.
# One commit gives the same bytes on any machine with the same Rust, tar, gzip, xz and CA bundle.
#
#   usage: release.sh [--complete] [--address URL] [--target TRIPLE] [--binary FILE] [DIRECTORY]       default: dist
#   --complete        fail if an architecture or the RPM cannot be built, instead of skipping it
#   --address URL     try a release without an address in Cargo.toml, or with another one
#   --target TRIPLE   x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu; default: this machine's, and the other one if its
#                     tools are installed (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static, or the
#                     same for x86-64; and `rustup target add TRIPLE`)
#   --binary FILE     pack this binary for this machine, or for the target, instead of building one
#
# If cargo-auditable is installed, the binary contains the list of its crates, for image scanners.
set -eu
umask 022
cd "$(dirname "$0")/.."
top=$PWD
host=$(rustc -vV | sed -n 's/^host: //p')
binary=
target=
while :; do
    case ${1:-} in
    --binary) binary=$(realpath "$2") ;;
    --target) target=$2 ;;
    --complete) export PLEGCTL_COMPLETE=1 && shift && continue ;;
    --address) export PLEGCTL_ADDRESS="$2" ;;
    *) break ;;
    esac
    shift 2
done
out=$(realpath -m "${1:-dist}")
PLEGCTL_ADDRESS=$(packaging/address.sh)
export PLEGCTL_ADDRESS
IMAGE_NAME=$(packaging/address.sh image)
export IMAGE_NAME
# skip WHAT REASON: leaves something out of this release, unless it must be complete.
skip() {
    echo "release.sh: ${PLEGCTL_COMPLETE:+not }skipping $1: $2" >&2
    [ -z "${PLEGCTL_COMPLETE:-}" ]
}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$binary$target" ]; then
    rm -rf "$out"
    mkdir -p "$out"
    for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu; do
        machine=${target%%-*}
        if [ "$target" != "$host" ] && ! {
            command -v "$machine-linux-gnu-gcc" && command -v "qemu-$machine-static" &&
                [ -d "$(rustc --print target-libdir --target "$target")" ]
        } >/dev/null; then
            skip "$machine" "its compiler, its qemu or Rust's target is not installed"
            continue
        fi
        packaging/release.sh --target "$target" "$out/$target" >/dev/null
        rm "$out/$target/SHA256SUMS"
        mv "$out/$target"/* "$out/"
        rmdir "$out/$target"
    done
    packaging/krew.sh "$version" "$out" >"$out/plegctl.yaml"
    packaging/index.sh "$version" "$out/index.tar" "$out"/plegctl-*-oci.tar
    rm "$out"/plegctl-*-oci.tar
    mv "$out/index.tar" "$out/plegctl-$version-oci.tar"
    if ls "$out"/plegctl-*-x86_64-*.tar.gz "$out"/plegctl-*-aarch64-*.tar.gz >/dev/null 2>&1; then
        packaging/templates.sh "$version" "$out"
    else
        skip 'the Homebrew formula, the Nix flake and the PKGBUILD' 'they need the tarballs of both architectures'
    fi
    packaging/provenance.sh "$version" "$out" >"$work/provenance"
    mv "$work/provenance" "$out/plegctl-$version.provenance.json"
    (cd "$out" && sha256sum -- * >SHA256SUMS)
    cat "$out/SHA256SUMS"
    exit
fi

target=${target:-$host}
machine=${target%%-*}
case $machine in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) echo "release.sh: no packages for $target" >&2 && exit 2 ;;
esac
RUN=
if [ "$target" != "$host" ]; then
    RUN=qemu-$machine-static
    compiler=$machine-linux-gnu-gcc
    under=$(echo "$target" | tr - _)
    export "CC_$under=$compiler" "CARGO_TARGET_$(echo "$under" | tr a-z A-Z)_LINKER=$compiler"
fi
export RUN PACKAGE_ARCHITECTURE="$architecture" IMAGE_ARCHITECTURE="$architecture"

if [ -z "$binary" ]; then
    auditable=
    if cargo auditable --version >/dev/null 2>&1; then
        auditable=auditable
    else
        echo "release.sh: cargo-auditable is not installed: the binary does not contain the list of its crates" >&2
    fi
    # `plegctl version -o json` shows the commit, unless files have changed since.
    PLEGCTL_COMMIT=$(git diff --quiet HEAD -- 2>/dev/null && git rev-parse HEAD) || PLEGCTL_COMMIT=
    export PLEGCTL_COMMIT
    # Keeps the paths of the sources and the registry out of the binary.
    RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$top=/plegctl --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
        cargo $auditable build --release --locked --target "$target"
    binary=${CARGO_TARGET_DIR:-$top/target}/$target/release/plegctl
fi

rm -rf "$out"
mkdir -p "$out"
packaging/stage.sh "$binary" "$work/staged"

name=plegctl-$version-$target
packaging/pages.sh "$work/$name"
install -m 755 "$binary" "$work/$name/plegctl"
install -D -m 644 -t "$work/$name/completions" completions/*
$RUN "$binary" man "$work/$name/man"
tar --create --directory "$work" --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --sort=name \
    --mode=go-w "$name" | gzip -9n >"$out/$name.tar.gz"

packaging/krew.sh "$version" "$out" >"$out/plegctl.yaml"
packaging/chart.sh "$out/plegctl-$version.tgz"

packaging/deb.sh "$work/staged" "$version" "$out/plegctl_${version}_$architecture.deb"

if command -v rpmbuild >/dev/null; then
    rpmbuild -bb --quiet --target "$machine" --define "_topdir $work/rpm" --define "version $version" --define "staged $work/staged" --define "address $PLEGCTL_ADDRESS" \
        --define "_build_id_links none" --define "use_source_date_epoch_as_buildtime 1" \
        --define "_buildhost plegctl" --define "clamp_mtime_to_source_date_epoch 1" packaging/plegctl.spec
    mv "$work"/rpm/RPMS/*/*.rpm "$out/"
else
    skip 'the RPM' 'rpmbuild is not installed (Debian: rpm)'
fi

packaging/image.sh "$binary" "$version" "$out/plegctl-$version-$architecture-oci.tar"
cargo metadata --locked --format-version 1 --filter-platform "$target" >"$work/metadata"
# A package of its own, so that nothing of plegctl is compiled a second time for it.
cargo run --quiet --locked --package plegctl-sbom -- "$PLEGCTL_ADDRESS" <"$work/metadata" >"$out/plegctl-$version-$architecture.cdx.json"

(cd "$out" && sha256sum -- * >SHA256SUMS)
cat "$out/SHA256SUMS"
