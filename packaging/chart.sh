#!/bin/sh
# Packs the Helm chart as `helm package` does: a tarball with one directory, which has the name of the chart.
#
#   usage: chart.sh OUTPUT       (SOURCE_DATE_EPOCH set)
set -eu
umask 022
cd "$(dirname "$0")/.."
tar --create --directory deploy/chart --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --sort=name \
    --mode=a+r,go-w plegctl | gzip -9n >"$1"
