#!/bin/sh
# Builds the Debian package from the directory that stage.sh has filled. Needs only dpkg-deb, which is part of every Debian
# system.
#
#   usage: deb.sh STAGED VERSION OUTPUT       (SOURCE_DATE_EPOCH set)
#   DEBFULLNAME, DEBEMAIL   who makes the package; default: the author of the commit
set -eu
umask 022
here=$(cd "$(dirname "$0")/.." && pwd)
version=$2
output=$3
address=$("$here/packaging/address.sh")
maintainer="${DEBFULLNAME:-$(git -C "$here" log -1 --format=%an)} <${DEBEMAIL:-$(git -C "$here" log -1 --format=%ae)}>"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp -a "$1/." "$root/"
doc=$root/usr/share/doc/plegctl

{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: plegctl\nSource: %s\n\n' "$address"
    printf 'Files: *\nCopyright: %s\nLicense: Expat\n\n' "$(sed -n 's/^Copyright (c) //p' "$here/LICENSE")"
    printf 'Files: crates/go-yaml/*\nCopyright: Simon Ask Ulsnes <simon@ulsnes.dk>\nLicense: Expat\n\n'
    printf 'License: Expat\n'
    sed -n '/^Permission is/,$p' "$here/LICENSE" | sed -e 's/^$/./' -e 's/^/ /'
} >"$doc/copyright"
# The changelog in Debian's format, which points to the full one.
{
    printf 'plegctl (%s) unstable; urgency=medium\n\n  * What changed is in /usr/share/doc/plegctl/CHANGELOG.md.\n\n' "$version"
    printf ' -- %s  %s\n' "$maintainer" "$(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"
chmod 644 "$doc/changelog.gz" "$doc/copyright"
# Their text is in `copyright`.
rm "$doc"/LICENSE*

mkdir -p "$root/usr/share/lintian/overrides"
cat >"$root/usr/share/lintian/overrides/plegctl" <<'OVERRIDES'
# The binary is static, so that it runs on any node and in any pod.
plegctl: shared-library-lacks-prerequisites [usr/bin/plegctl]
OVERRIDES

mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: plegctl
Version: $version
Architecture: ${PACKAGE_ARCHITECTURE:-$(dpkg --print-architecture)}
Maintainer: $maintainer
Section: admin
Homepage: $address
Priority: optional
Installed-Size: $(du -k --apparent-size -s "$root/usr" | cut -f1)
Description: find what blocks the PLEG of a Kubernetes node
 When a node is NotReady because "PLEG is not healthy", plegctl names the call
 to the container runtime, the pod and the container that block the kubelet,
 says how sure it is, and lists what to do first. It only reads.
 .
 The package installs the unit of the flight recorder, but does not enable it.
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
