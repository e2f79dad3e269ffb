#!/bin/sh
# Copies plegctl's files into a directory, as a Linux distribution installs them. The Debian package and the RPM pack it.
#
#   usage: stage.sh BINARY DIRECTORY
set -eu
umask 022
here=$(cd "$(dirname "$0")/.." && pwd)
binary=$1
root=$2

put() { install -D -m "$1" "$2" "$root/$3"; }

put 755 "$binary" usr/bin/plegctl
${RUN:-} "$binary" man "$root/usr/share/man/man1"
find "$root/usr/share/man/man1" -name '*.1' -exec chmod 644 {} + -exec gzip -9n {} +
# `kubectl plegctl` starts the first link, and kubectl's completion the second one.
for link in kubectl-plegctl kubectl_complete-plegctl; do
    ln -s plegctl "$root/usr/bin/$link"
    ln -s plegctl.1.gz "$root/usr/share/man/man1/$link.1.gz"
done
put 644 "$here/completions/plegctl.bash" usr/share/bash-completion/completions/plegctl
put 644 "$here/completions/_plegctl" usr/share/zsh/vendor-completions/_plegctl
put 644 "$here/completions/plegctl.fish" usr/share/fish/vendor_completions.d/plegctl.fish
for unit in "$here"/packaging/*.service; do
    [ -f "$unit" ] && put 644 "$unit" "usr/lib/systemd/system/${unit##*/}"
done
"$here/packaging/pages.sh" "$root/usr/share/doc/plegctl"
