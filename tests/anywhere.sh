#!/usr/bin/env bash
# Runs tests where a machine usually disturbs them: as a plain user, without cgroups, offline, with SIGINT ignored, beside
# processes named kubelet, k3s and containerd, with a kubelet's configuration in /etc and sockets in /run. Changes nothing
# outside of its own namespaces. Needs root, and the tests must be built already.
#
# usage: tests/anywhere.sh [FILTER...]   (default: tests that look at the node, and those of the documents)
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" != --inside ]; then
    [ $# -gt 0 ] || set -- cli::health::h cli::impostors cli::lint::a_ cli::pods::bad cli::relist:: cli::preflight \
        capture::bad_input docs::the_readme host:: kubelet:: --skip slow::
    # The test program of a macro needs a library of the compiler, which a plain user cannot read.
    binaries=$(cargo test --locked --no-run --lib --test product 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p' |
        grep -v plegctl_omit_none)
    exec unshare --net --mount --pid --ipc --fork --kill-child --mount-proc "$0" --inside "$binaries" "$@"
fi
binaries=$2
shift 2

ip link set lo up
umount -R /sys/fs/cgroup 2>/dev/null || true
place=$(mktemp -d)
mount -t tmpfs -o mode=755 tmpfs "$place"

# The plain user must reach this repository, even if it is in root's home.
closed=$PWD
while [ "$closed" != / ] && setpriv --reuid 65534 --clear-groups test -x "$closed"; do closed=$(dirname "$closed"); done
if [ "$closed" != / ]; then
    repository=$PWD
    mkdir "$place/repository"
    mount --bind "$repository" "$place/repository"
    while [ "$(dirname "$closed")" != / ]; do closed=$(dirname "$closed"); done
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$repository"
    mount --bind "$place/repository" "$repository"
    cd "$repository"
fi

# The processes, files and sockets of a node.
echo '#include <unistd.h>
int main(void) { for (;;) pause(); }' | gcc -x c - -o "$place/kubelet"
cp "$place/kubelet" "$place/k3s"
cp "$place/kubelet" "$place/containerd"
mkdir "$place/upper" "$place/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$place/upper,workdir=$place/work" /etc
mkdir -p /etc/kubernetes/manifests
echo 'runtime-endpoint: unix:///run/containerd/containerd.sock' >/etc/crictl.yaml
echo 'not a pod' >/etc/kubernetes/manifests/broken.yaml
echo 'staticPodPath: /etc/kubernetes/manifests' >/etc/kubernetes/kubelet.yaml
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/containerd /run/k3s/containerd /run/crio
"$place/kubelet" --config=/etc/kubernetes/kubelet.yaml &
"$place/k3s" server &
"$place/containerd" --config /etc/containerd/config.toml &
for socket in /run/containerd/containerd.sock /run/k3s/containerd/containerd.sock /run/crio/crio.sock; do
    # Nobody listens on these sockets, as after a crash of the runtime.
    perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die' "$socket"
done

trap '' INT
# With CI=true, a test would fail instead of being skipped if this user lacks a tool.
unset CI
failed=0
for binary in $binaries; do
    # Cargo's folder for files of tests belongs to the user who built them.
    mount -t tmpfs -o mode=1777 tmpfs "$(dirname "$binary")/../../tmp"
    setpriv --reuid 65534 --regid 65534 --clear-groups env RUST_TEST_THREADS=8 "$binary" --quiet "$@" </dev/null ||
        failed=1
done
exit "$failed"
