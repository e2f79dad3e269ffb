#!/bin/sh
# Fills in the Homebrew formula, the Nix flake and the PKGBUILD of the AUR with the version, the address and the checksums of
# the tarballs of both architectures.
#
#   usage: templates.sh VERSION DIRECTORY       writes into DIRECTORY, which has the tarballs
set -eu
version=$1
directory=$2
here=$(dirname "$0")
address=$("$here/address.sh")
download=$("$here/address.sh" download "$version")
sum() { sha256sum "$directory/plegctl-$version-$1-unknown-linux-gnu.tar.gz" | cut -d' ' -f1; }
x86_64=$(sum x86_64)
aarch64=$(sum aarch64)
for template in "$here"/templates/*; do
    sed -e "s,@VERSION@,$version,g" -e "s,@ADDRESS@,$address,g" -e "s,@DOWNLOAD@,$download,g" \
        -e "s,@SHA256_X86_64@,$x86_64,g" -e "s,@SHA256_AARCH64@,$aarch64,g" "$template" >"$directory/${template##*/}"
done
