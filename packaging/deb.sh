#!/bin/sh
# The Debian package, from what stage.sh has laid out. Needs dpkg-deb, which every Debian has, and nothing else.
#
#   usage: deb.sh STAGED VERSION OUTPUT       (SOURCE_DATE_EPOCH set)
set -eu
umask 022
here=$(cd "$(dirname "$0")/.." && pwd)
version=$2
output=$3
maintainer='The plegctl authors <noreply@plegctl.invalid>'
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp -a "$1/." "$root/"
doc=$root/usr/share/doc/plegctl

{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: plegctl\n\n'
    printf 'Files: *\nCopyright: %s\nLicense: Expat\n' "$(sed -n 's/^Copyright (c) //p' "$here/LICENSE")"
    sed -n '/^Permission is/,$p' "$here/LICENSE" | sed -e 's/^$/./' -e 's/^/ /'
} >"$doc/copyright"
# Debian's form of it, which says where the real one is.
{
    printf 'plegctl (%s) unstable; urgency=medium\n\n  * What changed is in /usr/share/doc/plegctl/CHANGELOG.md.\n\n' "$version"
    printf ' -- %s  %s\n' "$maintainer" "$(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"
cp "$here/CHANGELOG.md" "$doc/CHANGELOG.md"
chmod 644 "$doc/CHANGELOG.md" "$doc/changelog.gz" "$doc/copyright"

mkdir -p "$root/usr/share/lintian/overrides"
cat >"$root/usr/share/lintian/overrides/plegctl" <<'OVERRIDES'
# One file that runs on any node and in any pod, whatever C library is there.
plegctl: shared-library-lacks-prerequisites [usr/bin/plegctl]
OVERRIDES

mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: plegctl
Version: $version
Architecture: ${PACKAGE_ARCHITECTURE:-$(dpkg --print-architecture)}
Maintainer: $maintainer
Section: admin
Priority: optional
Installed-Size: $(du -k --apparent-size -s "$root/usr" | cut -f1)
Description: say what holds up the PLEG of a Kubernetes node
 When a node is NotReady because "PLEG is not healthy", plegctl says which call
 to the container runtime, which pod and which container hold the kubelet up,
 how sure that is, and what to do first. It only reads.
 .
 The flight recorder's unit, where there is one, is installed and not enabled.
CONTROL
if [ -d "$root/usr/lib/systemd/system" ]; then
    cat >"$root/DEBIAN/prerm" <<'PRERM'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop plegctl-record.service || true
fi
PRERM
    cat >"$root/DEBIAN/postrm" <<'POSTRM'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
POSTRM
    chmod 755 "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
fi
(cd "$root" && find usr -type f | LC_ALL=C sort | xargs md5sum) >"$root/DEBIAN/md5sums"
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$root" "$output" >/dev/null
