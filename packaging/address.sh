#!/bin/sh
# Prints the address of the project, or one that is derived from it. Cargo.toml has the address, in `repository` of
# [workspace.package]; PLEGCTL_ADDRESS replaces it (release.sh --address sets that variable).
#
#   usage: address.sh                    the repository
#          address.sh download VERSION   the directory with the files of a release
#          address.sh source VERSION     the files of the repository, as they are in a release
#          address.sh image              the name of the image, without a tag; nothing if the host has no known registry
set -eu
address=${PLEGCTL_ADDRESS-$(sed -n 's/^repository = "\(.*\)"$/\1/p' "$(dirname "$0")/../Cargo.toml")}
case $address in
'')
    cat >&2 <<'HELP'
address.sh: the project has no address yet: `repository` in Cargo.toml is empty. The manifest for krew, the chart, the image,
the SBOM and the packages contain the address.
  To publish: set that line to the address of the repository, for example https://github.com/OWNER/NAME
  To try:     packaging/release.sh --address https://HOST/OWNER/NAME
HELP
    exit 1
    ;;
*[!A-Za-z0-9:/._~-]* | */ | *.git) address= ;;
https://?*/?*/?*) ;;
*) address= ;;
esac
[ -n "$address" ] || { echo 'address.sh: the address is not of the form https://HOST/OWNER/NAME' >&2; exit 1; }
path=$(echo "${address#https://*/}" | tr A-Z a-z)
# GitLab has files and releases below `-`, and names a release before its files.
case $address in
https://gitlab.*) files=$address/- download=$address/-/releases/v${2-}/downloads ;;
*) files=$address download=$address/releases/download/v${2-} ;;
esac

case ${1:-repository} in
repository) echo "$address" ;;
download) echo "$download" ;;
source) echo "$files/blob/v$2" ;;
image)
    case $address in
    https://github.com/*) echo "ghcr.io/$path" ;;
    https://gitlab.com/*) echo "registry.gitlab.com/$path" ;;
    esac
    ;;
*) echo "address.sh: there is no address of a $1" >&2 && exit 2 ;;
esac
