#!/bin/sh
# Joins the images of several architectures, each an archive of image.sh, into one OCI archive with one index. Who pulls the
# index gets the image of his architecture.
#
#   usage: index.sh VERSION OUTPUT ARCHIVE...       (SOURCE_DATE_EPOCH and IMAGE_NAME as for image.sh)
set -eu
umask 022
version=$1
output=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layout=$work/layout
mkdir "$layout"
images=
for archive; do
    tar --extract --file "$archive" --directory "$layout"
    # The descriptor of the image, without the annotations with which readers find it by its name.
    image=$(sed 's/.*"manifests":\[\(.*\),"annotations":.*/\1}/' "$layout/index.json")
    images=$images${images:+,}$image
done
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "$images" >"$work/index"
digest=$(sha256sum "$work/index" | cut -d' ' -f1)
size=$(stat -c %s "$work/index")
mv "$work/index" "$layout/blobs/sha256/$digest"
cat >"$layout/index.json" <<INDEX
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:$digest","size":$size,"annotations":{"io.containerd.image.name":"${IMAGE_NAME:-localhost/plegctl}:$version","org.opencontainers.image.ref.name":"$version"}}]}
INDEX
tar --create --directory "$layout" --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --sort=name \
    --format=gnu . >"$output"
