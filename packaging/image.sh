#!/bin/sh
# Builds an image that contains only the binary, its licences and a CA bundle, as an OCI archive. Needs no daemon, no builder, no base image.
#
#   usage: image.sh BINARY VERSION OUTPUT       (SOURCE_DATE_EPOCH set)
#   CA_BUNDLE        the bundle; default /etc/ssl/certs/ca-certificates.crt
#   IMAGE_NAME       the name of the image, without a tag; default localhost/plegctl
#   PLEGCTL_ADDRESS  the address of the project, for a label
set -eu
umask 022
here=$(cd "$(dirname "$0")/.." && pwd)
binary=$1
version=$2
output=$3
bundle=${CA_BUNDLE:-/etc/ssl/certs/ca-certificates.crt}
case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) architecture=$(uname -m) ;;
esac
architecture=${IMAGE_ARCHITECTURE:-$architecture}
created=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blobs=$work/layout/blobs/sha256
mkdir -p "$blobs" "$work/root"

pack() {
    tar --create --directory "$1" --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --sort=name \
        --format=gnu .
}
# blob FILE: moves FILE into the store, and sets digest and size for its descriptor.
blob() {
    digest=$(sha256sum "$1" | cut -d' ' -f1)
    size=$(stat -c %s "$1")
    mv "$1" "$blobs/$digest"
}

install -m 755 "$binary" "$work/root/plegctl"
install -D -m 644 "$bundle" "$work/root/etc/ssl/certs/ca-certificates.crt"
install -D -m 644 -t "$work/root/licenses" "$here/LICENSE" "$here/crates/go-yaml/LICENSE-libyaml-safer"
pack "$work/root" >"$work/layer"
unpacked=$(sha256sum "$work/layer" | cut -d' ' -f1)
gzip -9n <"$work/layer" >"$work/layer.gz"
blob "$work/layer.gz"
layer=$digest layer_size=$size

source=
[ -z "${PLEGCTL_ADDRESS:-}" ] || source=",\"org.opencontainers.image.source\":\"$PLEGCTL_ADDRESS\""
cat >"$work/config" <<CONFIG
{"created":"$created","architecture":"$architecture","os":"linux","config":{"Entrypoint":["/plegctl"],"Cmd":["health"],"Env":["PATH=/","SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"plegctl","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"MIT"$source}},"rootfs":{"type":"layers","diff_ids":["sha256:$unpacked"]},"history":[{"created":"$created","created_by":"packaging/image.sh"}]}
CONFIG
blob "$work/config"
config=$digest config_size=$size

cat >"$work/manifest" <<MANIFEST
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$config_size},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:$layer","size":$layer_size}]}
MANIFEST
blob "$work/manifest"

# containerd reads the first annotation as the image's full name; other readers read the second as its tag.
cat >"$work/layout/index.json" <<INDEX
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:$digest","size":$size,"platform":{"architecture":"$architecture","os":"linux"},"annotations":{"io.containerd.image.name":"${IMAGE_NAME:-localhost/plegctl}:$version","org.opencontainers.image.ref.name":"$version"}}]}
INDEX
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/layout/oci-layout"
pack "$work/layout" >"$output"
