#!/bin/sh
# Downloads promtool and kubectl, which check rules and Kubernetes objects, builds chart-render from render.go with Debian's Go,
# installs Grafana's types for grafana-fields, and prints the folder of these programs. Changes nothing outside of .cache. kubectl
# comes from Debian's unstable suite, because no older suite has a kubectl with the current kustomize.
#
#   usage: fetch.sh     (needs apt, dpkg-deb and python3-venv; run `apt-get update` first)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
renderer=$here/render.go
cache=$(cd "$(dirname "$0")/../.." && pwd)/.cache/fleet-tools
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$cache/usr/bin"

# Go is needed only once for each version of render.go.
if ! { [ -x "$cache/usr/bin/chart-render" ] && cmp -s "$renderer" "$cache/render.go"; }; then
    go=$(apt-cache depends golang-go | sed -n 's/^ *Depends: \(golang-[0-9.]*\)-go$/\1/p')
    (cd "$work" && apt-get -q -o APT::Sandbox::User=root download "$go-go" "$go-src" golang-gopkg-yaml.v3-dev >&2)
    for package in "$work"/golang-*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar --extract --directory "$work"
    done
    GOROOT=$(echo "$work"/usr/lib/go-*) GOPATH=$work/usr/share/gocode GOCACHE=$work/go GO111MODULE=off GOFLAGS= CGO_ENABLED=0 \
        "$work"/usr/lib/go-*/bin/go build -o "$cache/usr/bin/chart-render" "$renderer" >&2
    cp "$renderer" "$cache/render.go"
fi
# A version of the types contains the fields of one version of Grafana, here of 11.6.
types=grafana-foundation-sdk==1769699379!11.6.0
if [ "$(cat "$cache/grafana/version" 2>/dev/null)" != "$types" ]; then
    rm -rf "$cache/grafana"
    python3 -m venv "$cache/grafana" >&2
    "$cache/grafana/bin/pip" install --quiet --disable-pip-version-check "$types" >&2
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$cache/grafana/bin/python" "$here/grafana_fields.py" >"$cache/usr/bin/grafana-fields"
    chmod +x "$cache/usr/bin/grafana-fields"
    echo "$types" >"$cache/grafana/version"
fi
if [ -x "$cache/usr/bin/kubectl" ] && [ -x "$cache/usr/bin/promtool" ]; then
    echo "$cache/usr/bin"
    exit 0
fi
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
