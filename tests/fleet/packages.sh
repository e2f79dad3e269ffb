#!/bin/sh
# Tests the published packages: builds them twice from one binary and compares them byte for byte, checks them with lintian
# and systemd-analyze, and installs, uses and removes them in a clean root. Needs root, Debian's archive, and the packages
# debootstrap, lintian, rpm and systemd.
#
#   usage: packages.sh BINARY
set -eu
cd "$(dirname "$0")/../.."
binary=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { printf '%s\n' "packages.sh: $*"; }
fail() { report "$*" >&2; exit 1; }
# quietly COMMAND...: runs COMMAND and prints its output only if it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$* failed"; }; }

# An address of our own, so that the test also runs before the project has one.
address=https://github.com/Example/plegctl
quietly packaging/release.sh --address "$address" --binary "$binary" "$work/one"
quietly packaging/release.sh --address "$address" --binary "$binary" "$work/two"
diff -r "$work/one" "$work/two" || fail 'two builds from one binary differ'
for kind in .tar.gz .deb .rpm -oci.tar .cdx.json .tgz plegctl.yaml; do
    ls "$work/one"/*"$kind" >/dev/null || fail "there is no $kind"
done
(cd "$work/one" && sha256sum --check --quiet SHA256SUMS)
grep -q "^      uri: $address/releases/download/" "$work/one/plegctl.yaml" || fail 'the manifest for krew has another address'
grep -q "\"url\": \"$address\"" "$work/one"/*.cdx.json || fail 'the SBOM does not have the address'
tar --extract --gzip --directory "$work" --strip-components 1 --file "$work/one"/plegctl-*-linux-gnu.tar.gz --wildcards '*/deploy' '*/README.md'
grep -q "$address/releases/download/v" "$work/README.md" || fail 'the pages do not have the address'
quietly promtool test rules "$work"/deploy/prometheus/tests/*.yaml
tar --list --file "$work/one"/*.tgz >"$work/contents"
grep -qx plegctl/Chart.yaml "$work/contents" || fail 'the chart is not in the directory that Helm expects'
deb=$(ls "$work/one"/*.deb) rpm=$(ls "$work/one"/*.rpm)
dpkg-deb --field "$deb" Homepage | grep -qx "$address" || fail 'the deb does not have the address'
rpm --query --package --queryformat '%{URL}\n' "$rpm" | grep -qx "$address" || fail 'the rpm does not have the address'
rpm --query --package --licensefiles "$rpm" | grep -q /LICENSE-libyaml-safer || fail 'the rpm does not have the licences'
stat -c '%s %n' "$work/one"/* | sed "s,$work/one/,,"

quietly lintian --fail-on error,warning "$deb"
quietly systemd-analyze --man=no --offline=true --threshold=25 security "$PWD/packaging/plegctl-record.service"

root=$work/root
debootstrap --variant=minbase bookworm "$root" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail 'cannot create a clean root'; }
# The files of the root, without the records of dpkg and the index of man.
files() {
    (cd "$root" && find . -path ./var/lib/dpkg -prune -o -path ./var/log -prune -o -path ./var/cache -prune -o -print | LC_ALL=C sort)
}
in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
files >"$work/before"
cp "$deb" "$root/plegctl.deb"
quietly in_root dpkg --install /plegctl.deb
rm "$root/plegctl.deb"
in_root dpkg --verify plegctl
in_root plegctl --version
in_root kubectl-plegctl nodes --help >"$work/help" || fail 'the plugin of kubectl does not start'
grep -q 'Usage: kubectl plegctl nodes' "$work/help" || fail 'the plugin of kubectl does not know its name'
in_root plegctl health -r sim:quiet >"$work/health" || fail 'health fails in the clean root'
in_root plegctl health -r sim:hung-two-pods --budget 15s >"$work/health" && fail 'health does not report a hang in the clean root'
grep -q D01 "$work/health" || fail 'health does not report D01 in the clean root'
# A minimal Debian does not install manual pages, so the script lists the content of the package.
dpkg-deb --contents "$deb" >"$work/contents"
for path in usr/share/man/man1/plegctl.1.gz usr/share/bash-completion/completions/plegctl \
    usr/lib/systemd/system/plegctl-record.service; do
    grep -q "$path" "$work/contents" || fail "the package has no $path"
done
find "$root/etc/systemd" -name 'plegctl*' | grep . && fail 'the unit is enabled'
quietly in_root dpkg --remove plegctl
quietly in_root dpkg --purge plegctl
files >"$work/after"
diff "$work/before" "$work/after" || fail 'files of the deb are left after its removal'

empty=$work/rpm
mkdir "$empty"
quietly rpm --root "$empty" --initdb
quietly rpm --root "$empty" --nodeps --install "$rpm"
quietly rpm --root "$empty" --verify --nodeps plegctl
"$empty/usr/bin/plegctl" --version
quietly rpm --root "$empty" --noscripts --erase plegctl
find "$empty/usr" -type f | grep . && fail 'files of the rpm are left after its removal'
report 'all checks passed'
