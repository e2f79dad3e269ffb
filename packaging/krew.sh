#!/bin/sh
# Writes the manifest with which krew installs plegctl as a plugin of kubectl, for each tarball in a directory.
#
#   usage: krew.sh VERSION DIRECTORY > plegctl.yaml
set -eu
version=$1
directory=$2
address=$("$(dirname "$0")/address.sh")
url=$("$(dirname "$0")/address.sh" download "$version")

cat <<MANIFEST
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: plegctl
spec:
  version: v$version
  homepage: $address
  shortDescription: Find what blocks the PLEG of a node
  description: |
    When a node is NotReady because "PLEG is not healthy", plegctl names the
    call to the container runtime, the pod and the container that block the
    kubelet. \`kubectl plegctl nodes\` shows every node of the cluster, the worst
    first. plegctl only reads.
  caveats: |
    krew does not install completion. For completion of "kubectl plegctl", link
    the program a second time, into a directory of your PATH:
      ln -s "\${KREW_ROOT:-\$HOME/.krew}/bin/kubectl-plegctl" ~/.local/bin/kubectl_complete-plegctl
  platforms:
MANIFEST
for tarball in "$directory/plegctl-$version"-*-unknown-linux-gnu.tar.gz; do
    file=${tarball##*/}
    folder=${file%.tar.gz}
    case $folder in
    *-x86_64-unknown-linux-gnu) architecture=amd64 ;;
    *-aarch64-unknown-linux-gnu) architecture=arm64 ;;
    *) echo "krew.sh: there is no platform for $file" >&2 && exit 1 ;;
    esac
    cat <<PLATFORM
    - selector:
        matchLabels: {os: linux, arch: $architecture}
      uri: $url/$file
      sha256: $(sha256sum "$tarball" | cut -d' ' -f1)
      bin: plegctl
      files:
        - {from: $folder/plegctl, to: .}
        - {from: $folder/LICENSE, to: .}
PLATFORM
done
