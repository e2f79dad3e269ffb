#!/bin/sh
# Downloads promtool and kubectl, which check rules and Kubernetes objects, and prints their folder. Installs nothing: both
# programs are single files. kubectl comes from Debian's unstable suite, because no older suite has a
# kubectl with the current kustomize.
#
#   usage: fetch.sh     (needs apt and dpkg-deb; run `apt-get update` first)
set -eu

cache=$(cd "$(dirname "$0")/../.." && pwd)/.cache/fleet-tools
if [ -x "$cache/usr/bin/kubectl" ] && [ -x "$cache/usr/bin/promtool" ]; then
    echo "$cache/usr/bin"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$cache"
: >"$work/status"

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
[ -n "$mirror" ] || { echo "fetch.sh: no Debian mirror; run apt-get update first" >&2; exit 1; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$work/sources.list"
unstable() {
    apt-get -q -o APT::Sandbox::User=root -o Acquire::Languages=none \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" "$@" >&2
}
cd "$work"
unstable update
unstable download kubectl
apt-get -q -o APT::Sandbox::User=root download prometheus >&2
dpkg-deb --fsys-tarfile kubectl_*.deb | tar --extract --directory "$cache" ./usr/bin/kubectl
dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract --directory "$cache" ./usr/bin/promtool
"$cache/usr/bin/kubectl" version --client >&2
"$cache/usr/bin/promtool" --version >&2
echo "$cache/usr/bin"
