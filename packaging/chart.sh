#!/bin/sh
# Packs the Helm chart as `helm package` does: a tarball with one directory, which has the name of the chart. Fills in the
# addresses of the project and of its image.
#
#   usage: chart.sh OUTPUT       (SOURCE_DATE_EPOCH set)
set -eu
umask 022
cd "$(dirname "$0")/.."
address=$(packaging/address.sh)
image=$(packaging/address.sh image)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -RL deploy/chart/plegctl "$work/plegctl"
printf 'home: %s\nsources: [%s]\n' "$address" "$address" >>"$work/plegctl/Chart.yaml"
version=$(sed -n 's/^version: //p' "$work/plegctl/Chart.yaml")
sed -i "s,^  runbooks: \"\"$,  runbooks: $(packaging/address.sh source "$version")/docs/runbooks," "$work/plegctl/values.yaml"
if [ -n "$image" ]; then
    sed -i "s,^  repository: plegctl$,  repository: $image," "$work/plegctl/values.yaml"
fi
tar --create --directory "$work" --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --sort=name \
    --mode=a+r,go-w plegctl | gzip -9n >"$1"
